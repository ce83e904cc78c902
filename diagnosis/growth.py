"""Numbers of partitions over time, as looks have seen them: no server reports when partitions were added."""

from collections.abc import Mapping
from typing import Final, NamedTuple

NEW_MS: Final = 360_000
"""Time for which nobody need have a new partition: by default clients notice it after up to 5 min
(metadata.max.age.ms)."""


class Growth(NamedTuple):
    """The number of partitions that a topic had before it was seen with more, and the wall time of that; 0 for a topic
    that is new."""

    before: int
    at_ms: int


class PartitionCounts:
    """The numbers of partitions of all topics, and which topics have grown since the first look."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.grown: dict[str, Growth] = {}

    def see(self, counts: Mapping[str, int], now_ms: int, *, is_all: bool) -> None:
        """Compare the numbers with those seen before. `is_all`: of all topics; others, which a user may see, are
        compared once those of all topics are known."""
        if counts == self._counts:
            return
        if self._counts:
            for topic, count in counts.items():
                before = self._counts.get(topic, 0)
                if count > before:
                    self._counts[topic] = count
                    self.grown[topic] = Growth(self._least(topic, before, now_ms), now_ms)
        if is_all:
            self._counts = dict(counts)
            self.grown = {topic: growth for topic, growth in self.grown.items() if topic in counts}

    def _least(self, topic: str, before: int, now_ms: int) -> int:
        """Return the number before several growths in a row."""
        last = self.grown.get(topic)
        return before if last is None or now_ms - last.at_ms >= NEW_MS else min(before, last.before)
