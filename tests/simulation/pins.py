"""The seed by which each fault, injected alone, hits its mark: found once, so that no run of the tests searches for it.

`python -m tests.simulation.pins` searches again, from `FIRST` on, and prints what differs from `PINS`.
"""

from tests.simulation.marks import FAULTS, Fault
from tests.simulation.plan import draw
from tests.simulation.world import World

FIRST, AT_MOST = 1_000, 60
PINS = {
    "leader dies before its sync": 1005,
    "foreign assignment": 1005,
    "oversized assignment": 1014,
    "torn batch": 1030,
    "power failure inside a checkpoint": 1016,
    "power failure inside a swap of compaction": 1030,
    "power failure inside a start": 1009,
    "power failure inside a clean stop": 1009,
    "bit flip that damages": 1001,
    "clock jumps back": 1001,
}
"""By the fault's name; the others have `FIRST`."""


def staged(fault: Fault, seed: int) -> int:
    """Run a world with this fault and no other, and return how often its mark was hit."""
    on = [kind for kind in (fault.kind, *fault.beside) if kind not in ("ledger", "weather")]
    return World(seed, draw(seed, on=on)).run().counts[fault.mark]


def main() -> None:
    for fault in FAULTS:
        found = next((seed for seed in range(FIRST, FIRST + AT_MOST) if staged(fault, seed)), None)
        if found != PINS.get(fault.name, FIRST):
            print(f"    {fault.name!r}: {found},".replace("'", '"'), flush=True)


if __name__ == "__main__":
    main()
