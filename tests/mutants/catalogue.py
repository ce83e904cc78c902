"""All deliberate bugs. Change the code that one of them changes, and `test_catalogue.py` says so."""

from tests.mutants import (
    of_balanced,
    of_beside,
    of_clients,
    of_logs,
    of_members,
    of_native,
    of_offsets,
    of_owners,
    of_passing,
    of_tls,
)
from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *of_members.MUTANTS,
    *of_offsets.MUTANTS,
    *of_logs.MUTANTS,
    *of_owners.MUTANTS,
    *of_clients.MUTANTS,
    *of_balanced.MUTANTS,
    *of_tls.MUTANTS,
    *of_beside.MUTANTS,
    *of_native.MUTANTS,
    *of_passing.MUTANTS,
)
