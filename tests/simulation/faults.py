"""What may go wrong in a world, how likely, and how often it did."""

from collections import Counter
from dataclasses import dataclass, field

MUST_HAPPEN = (
    "rebalances",
    "evictions",
    "crashes with unsynced loss",
    "torn writes",
    "refused commits",
    "cut connections",
    "static replacements",
    "native members",
    "kafka members",
    "committed transactions",
    "aborted transactions",
    "unstable offsets",
)
"""One of these being 0 over all seeds of a run is a failure: the run would have proved less than it says."""


@dataclass(slots=True)
class Faults:
    """Chances, per second of the world's time unless they say otherwise. All of them stop at `until_ms`."""

    until_ms: int = 60_000
    crash: float = 0.035
    torn: float = 0.8  # of the crashes: a flush is under way and half done
    cut: float = 0.05  # per member
    kill: float = 0.012  # per member
    leave: float = 0.012  # per member
    restart: float = 0.03  # per static member: back at once, with a new member id
    stall: float = 0.01  # per member: does not poll or send for longer than its session
    join: float = 0.08
    slow_disk: float = 0.1  # of the flushes


@dataclass(slots=True)
class Seen:
    """What a run saw, to be printed and added up."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, by: int = 1) -> None:
        self.counts[what] += by

    def missing(self) -> list[str]:
        """Faults that never happened and must have."""
        return [what for what in MUST_HAPPEN if not self.counts[what]]
