"""Lag in time: the time since the end of a partition was at the group's present offset.

Each page about lag, and each scrape, stores the ends that it has seen. The time at which an offset was the end lies
between two samples, and is interpolated. If the stored ends do not reach back so far, the lag is at least as long as
they do. Pure."""

from typing import Final

from diagnosis.assignments import Key
from protocol.messages.topics import NO_TOPIC_ID

MOST_SAMPLES: Final = 24
"""Ends stored for a partition. When there are more, every second one of the older half is dropped, so that older
samples lie farther apart."""
MOST_PARTITIONS: Final = 20_000
LEAST_MS: Final = 10_000
"""Least time between two samples, except for the newest: pages that refresh often must not displace older samples."""
LATE_MS: Final = 30_000
"""Time for which a page may still report an end that another page has overtaken."""
SET_BACK_MS: Final = 300_000
"""Largest step back of a clock that is taken for a late scrape; the sample is then ignored."""
KEPT_MS: Final = 3_600_000
"""Partitions that no page has shown for so long are forgotten."""
_FORGET_EVERY_MS: Final = 60_000


class EndHistory:
    """Ends of partitions over time."""

    def __init__(self) -> None:
        self._ends: dict[Key, list[tuple[int, int]]] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._forgot_ms = 0

    def add(self, key: Key, end: int, now_ms: int, topic_id: bytes = NO_TOPIC_ID) -> None:
        """Store the end that the partition had at a wall time. Another `topic_id` than before, if it is known, is that
        of a topic that was created again: its ends begin anew."""
        if topic_id != NO_TOPIC_ID and self._topic_ids.setdefault(key[0], topic_id) != topic_id:
            self._topic_ids[key[0]] = topic_id
            self._ends = {known: samples for known, samples in self._ends.items() if known[0] != key[0]}
        if abs(now_ms - self._forgot_ms) >= _FORGET_EVERY_MS:
            self._forget(now_ms)
        samples = self._ends.get(key)
        if samples is None:
            if len(self._ends) >= MOST_PARTITIONS:
                return
            samples = self._ends[key] = []
        if samples and -SET_BACK_MS < now_ms - samples[-1][0] < 0:
            return  # by a scrape that began before the last page
        if samples and (now_ms < samples[-1][0] or end < samples[-1][1]):
            if abs(now_ms - samples[-1][0]) < LATE_MS:
                return  # by a page that asked for the end before the last one
            samples.clear()  # the topic was created again, or the clock was set back
        if samples and now_ms == samples[-1][0]:
            samples.pop()
        if len(samples) >= 2:
            (before_ms, before_end), (last_ms, last_end) = samples[-2:]
            # If nothing was written, the first and the last sample with this end suffice.
            if last_ms - before_ms < LEAST_MS or before_end == last_end == end:
                samples[-1] = now_ms, end
                return
        samples.append((now_ms, end))
        if len(samples) > MOST_SAMPLES:
            del samples[1 : MOST_SAMPLES // 2 : 2]

    def _forget(self, now_ms: int) -> None:
        self._forgot_ms = now_ms
        self._ends = {key: samples for key, samples in self._ends.items() if abs(now_ms - samples[-1][0]) < KEPT_MS}
        kept = {topic for topic, _partition in self._ends}
        self._topic_ids = {topic: one for topic, one in self._topic_ids.items() if topic in kept}

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
        return max(0, now_ms - samples[0][0]) if len(samples) > 1 else None
