"""Enumerations that `make quick` runs a tenth of, `make test` a third, and `make check`, which CI runs, the whole:
`TEST_ENUMERATIONS=all`.

The same cases are chosen each time, from all over an enumeration. Nothing else may depend on the variable.
"""

import os
from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")
VARIABLE = "TEST_ENUMERATIONS"
SHARE = {"all": 1, "third": 3, "tenth": 10}[os.environ.get(VARIABLE, "third")]
"""One case of so many is run."""


def some(cases: Iterable[Case]) -> list[Case]:
    """The first case, then every third or tenth, and the last: versions and sizes are wrong at their ends."""
    every = list(cases)
    chosen = every[::SHARE]
    return chosen if not every or (len(every) - 1) % SHARE == 0 else [*chosen, every[-1]]


def is_chosen(number: int) -> bool:
    """One in `SHARE` numbers, for loops that meet their cases as they go."""
    return number % SHARE == 0


def share_of(count: int) -> int:
    """Number of examples of a property out of `count`."""
    return max(1, count // SHARE)


def worlds_of(count: int) -> int:
    """Number of simulated worlds out of `count`: they take longest, so `make test` has a twelfth."""
    return count if SHARE == 1 else max(1, count // (4 * SHARE))
