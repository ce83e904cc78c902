"""Lag in time: how long ago the end of a partition was where the group is now. Each scrape remembers the ends.

The time at which an offset was the end lies between two scrapes, and is interpolated. Where the memory does not reach
back as far, the lag is at least as long as it does. Pure."""

from collections.abc import Iterable
from typing import Final

from diagnosis.assignments import Key

MOST_SAMPLES: Final = 24
"""Ends remembered for a partition. When there are more, each second one of the older half goes: the recent past is kept
finely, the distant past coarsely."""
MOST_PARTITIONS: Final = 20_000


class EndHistory:
    """Ends of partitions over time."""

    def __init__(self) -> None:
        self._ends: dict[Key, list[tuple[int, int]]] = {}

    def add(self, key: Key, end: int, now_ms: int) -> None:
        """Remember that the partition ends there now."""
        samples = self._ends.get(key)
        if samples is None:
            if len(self._ends) >= MOST_PARTITIONS:
                return
            samples = self._ends[key] = []
        if samples and end < samples[-1][1]:
            samples.clear()  # the topic was made anew
        if len(samples) >= 2 and samples[-1][1] == samples[-2][1] == end:
            samples[-1] = now_ms, end  # nothing was written: the ends of the flat part suffice
            return
        samples.append((now_ms, end))
        if len(samples) > MOST_SAMPLES:
            del samples[1 : MOST_SAMPLES // 2 : 2]

    def keep(self, keys: Iterable[Key]) -> None:
        """Forget all other partitions."""
        self._ends = {key: self._ends[key] for key in keys if key in self._ends}

    def lag_ms(self, key: Key, committed: int, now_ms: int) -> int | None:
        """Return how long ago the offset was the end, 0 if it is now; None if too little is remembered."""
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
