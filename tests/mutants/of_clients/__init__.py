"""The rules of the consumer, each taken out once: one bug for every scenario that has a number, and that scenario's own
test must find it. A new series of scenarios is a new file here and a line of `EXPECTED`.
"""

from collections.abc import Mapping

from tests.mutants.mutant import Mutant
from tests.mutants.of_clients import (
    client_balanced,
    commits,
    endings,
    fetch_sessions,
    mended,
    places,
    polls,
    rebalances,
    streams,
    troubles,
)

MUTANTS: tuple[Mutant, ...] = (
    *places.MUTANTS,
    *rebalances.MUTANTS,
    *commits.MUTANTS,
    *endings.MUTANTS,
    *polls.MUTANTS,
    *troubles.MUTANTS,
    *fetch_sessions.MUTANTS,
    *streams.MUTANTS,
    *mended.MUTANTS,
    *client_balanced.MUTANTS,
)

EXPECTED: Mapping[str, range] = {"H": range(1, 100), "CB": range(1, 63)}
"""The numbers of each series that must have a mutant."""

EXCUSED: Mapping[str, str] = {}
"""Numbers that have none, and why."""
