"""The seed by which each fault, injected alone, hits its mark: found once, so that no run of the tests searches for it.

`python -m tests.simulation.pins` searches again, from `FIRST` on, and prints what differs from `PINS`.
"""

from tests.simulation.marks import FAULTS, Fault
from tests.simulation.plan import draw
from tests.simulation.world import World

FIRST, AT_MOST = 1_000, 60
PINS = {
    "delay": 1001,
    "a request sent again on a new connection": 1001,
    "one-way cut, towards the daemon": 1001,
    "one-way cut, towards the member": 1001,
    "half-open connection": 1001,
    "stale commit": 1001,
    "duplicate instance id": 1013,
    "join storm": 1001,
    "leader dies before its sync": 1004,
    "member never syncs": 1003,
    "foreign assignment": 1005,
    "oversized assignment": 1005,
    "torn batch": 1001,
    "power failure inside a checkpoint": 1007,
    "power failure inside a swap of compaction": 1010,
    "power failure inside a start": 1022,
    "power failure inside a clean stop": 1022,
    "sync that fails, ENOSPC and EDQUOT included": 1001,
    "bit flip that damages": 1005,
    "bit flip where nobody reads": 1007,
    "clock jumps back": 1001,
    "commit of very many partitions": 1009,
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
