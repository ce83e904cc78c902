"""Expiration of idempotent producers, for all logs of a store. The cost of a run depends on the producers that appended
since the last one and those due, not on the number of logs.
"""

from operator import attrgetter

from sortedcontainers import SortedKeyList

from partition_log.producers.producer_state import ProducerClock, Producers


class ProducerExpiration:
    """Producers by log, sorted by the oldest last append of each log. `most` is the limit of each log."""

    __slots__ = ("_clock", "_sorted", "most", "visits")

    def __init__(self, most: int = 2_000) -> None:
        self._clock = ProducerClock()
        self._sorted: SortedKeyList[Producers, int] = SortedKeyList(key=attrgetter("oldest_ms"))
        self.most = most
        self.visits = 0
        """Number of logs visited since the start."""

    def new_producers(self) -> Producers:
        """Make the state of a log that had no producers."""
        return Producers(self.most, self._clock)

    def forget(self, producers: Producers) -> None:
        """Stop tracking the producers of a removed log."""
        self._sorted.discard(producers)
        self._clock.fresh.pop(producers, None)

    def run(self, now_ms: int, after_ms: int) -> None:
        """Forget producers without an append for `after_ms`. Call it at intervals."""
        self._clock.now_ms = now_ms
        fresh, self._clock.fresh = self._clock.fresh, {}
        for producers in fresh:
            self._sorted.discard(producers)  # its key changes
            producers.stamp(now_ms)
            self._sorted.add(producers)
        self.visits += len(fresh)
        while self._sorted and self._sorted[0].oldest_ms <= now_ms - after_ms:
            producers = self._sorted.pop(0)
            self.visits += 1
            producers.expire(now_ms - after_ms)
            if producers:
                self._sorted.add(producers)
