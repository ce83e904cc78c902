"""The seed by which each fault, injected alone, hits its mark: found once, so that no run of the tests searches for it.

`python -m tests.simulation.pins` searches again, from `FIRST` on, and prints what differs from `PINS`.
"""

from collections import Counter
from functools import cache

from tests.enumerations import SHARE
from tests.simulation.marks import FAULTS, Fault
from tests.simulation.plan import AMBIENT, draw
from tests.simulation.process import REPLAY_EVERY_STEPS
from tests.simulation.world import run_one

FIRST, AT_MOST = 1_000, 60
PINS = {
    "leader dies before its sync": 1005,
    "foreign assignment": 1005,
    "oversized assignment": 1014,
    "torn batch": 1030,
    "power failure inside a checkpoint": 1009,
    "power failure inside a swap of compaction": 1030,
    "power failure inside a start": 1009,
    "power failure inside a clean stop": 1009,
    "bit flip that damages": 1001,
    "bit flip in a snapshot or a spare": 1020,
    "clock jumps back": 1001,
}
"""By the fault's name; the others have `FIRST`."""


def kinds_of(fault: Fault) -> tuple[str, ...]:
    """Return the kinds of decisions that are drawn to inject it."""
    return tuple(kind for kind in (fault.kind, *fault.beside) if kind not in AMBIENT)


def staged(fault: Fault, seed: int) -> int:
    """Count hits of the fault's mark in a world with this fault and no other."""
    return _counts(kinds_of(fault), seed)[fault.mark]


@cache
def _counts(kinds: tuple[str, ...], seed: int) -> Counter[str]:
    """Return the marks of one world, in which several faults may be counted."""
    return run_one(seed, draw(seed, on=kinds), SHARE * REPLAY_EVERY_STEPS)[0].counts


def main() -> None:
    for fault in FAULTS:
        found = next((seed for seed in range(FIRST, FIRST + AT_MOST) if staged(fault, seed)), None)
        if found != PINS.get(fault.name, FIRST):
            print(f"    {fault.name!r}: {found},".replace("'", '"'), flush=True)


if __name__ == "__main__":
    main()
