"""Lag in time: the time since the end of a partition was at the group's present offset.

Each scrape stores the ends. The time at which an offset was the end lies between two scrapes, and is interpolated. If
the stored ends do not reach back so far, the lag is at least as long as they do. Pure."""

from collections.abc import Iterable
from typing import Final

from diagnosis.assignments import Key

MOST_SAMPLES: Final = 24
"""Ends stored for a partition. When there are more, every second one of the older half is dropped, so that older
samples lie farther apart."""
MOST_PARTITIONS: Final = 20_000


class EndHistory:
    """Ends of partitions over time."""

    def __init__(self) -> None:
        self._ends: dict[Key, list[tuple[int, int]]] = {}

    def add(self, key: Key, end: int, now_ms: int) -> None:
        """Store the present end of the partition."""
        samples = self._ends.get(key)
        if samples is None:
            if len(self._ends) >= MOST_PARTITIONS:
                return
            samples = self._ends[key] = []
        if samples and end < samples[-1][1]:
            samples.clear()  # the topic was created again
        if len(samples) >= 2 and samples[-1][1] == samples[-2][1] == end:
            samples[-1] = now_ms, end  # nothing was written: the first and last sample with this end suffice
            return
        samples.append((now_ms, end))
        if len(samples) > MOST_SAMPLES:
            del samples[1 : MOST_SAMPLES // 2 : 2]

    def keep(self, keys: Iterable[Key]) -> None:
        """Forget all other partitions."""
        self._ends = {key: self._ends[key] for key in keys if key in self._ends}

    def lag_ms(self, key: Key, committed: int, now_ms: int) -> int | None:
        """Return the time since the offset was the end, 0 if it still is; None if there are too few samples."""
        samples = self._ends.get(key)
        if not samples:
            return None
        if committed >= samples[-1][1]:
            return 0
        later_ms, later_end = samples[-1]
        for at_ms, end in reversed(samples):
            if end <= committed:
                share = (committed - end) / (later_end - end)
                return max(0, now_ms - round(at_ms + share * (later_ms - at_ms)))
            later_ms, later_end = at_ms, end
        return now_ms - samples[0][0] if len(samples) > 1 else None
