"""All deliberate bugs: of the write rule (logs, offsets) and the state tables (members, owners, balanced groups),
of accounts, and of several nodes.

Change the code that one of them changes, and `test_catalogue.py` says so.
"""

from tests.mutants import (
    of_accounts,
    of_balanced,
    of_consumer_groups,
    of_logs,
    of_members,
    of_nodes,
    of_offsets,
    of_owners,
)
from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *of_members.MUTANTS,
    *of_offsets.MUTANTS,
    *of_logs.MUTANTS,
    *of_owners.MUTANTS,
    *of_balanced.MUTANTS,
    *of_consumer_groups.MUTANTS,
    *of_accounts.MUTANTS,
    *of_nodes.MUTANTS,
)
