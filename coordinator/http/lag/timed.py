"""Lag in time of partitions, computed in one way for `/metrics` and all pages."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from coordinator.http.lag.end_history import EndHistory
from coordinator.http.lag.partitions import PartitionLag
from coordinator.http.queries import Queries
from coordinator.http.watch import Rest
from diagnosis.assignments import Key
from protocol.messages.groups import DescribedGroup

_LINES_A_GO: Final = 1_000
"""Partitions timed before the loop serves other requests."""


class LagClock:
    """Lag in time at one wall time. Stores the ends of the lines that it is asked about."""

    def __init__(self, history: EndHistory, now_ms: int) -> None:
        self._history, self._now_ms = history, now_ms
        self._stored: set[Key] = set()

    def lag_ms(self, line: PartitionLag) -> int | None:
        """Return how long ago the offset from which the lag counts was the end of the partition; None if the ends
        seen so far do not tell."""
        if line.log_end_offset is None:
            return None
        key = line.topic, line.partition
        if key not in self._stored:
            self._stored.add(key)
            self._history.add(key, line.log_end_offset, self._now_ms, line.topic_id)
        lag = line.lag
        return self._history.lag_ms(key, line.log_end_offset - lag, self._now_ms) if lag else lag

    def timed(self, line: PartitionLag) -> PartitionLag:
        """Return the line with its lag in time and the age of its commit."""
        age_ms = None if line.committed_ms is None else max(0, self._now_ms - line.committed_ms)
        return replace(line, lag_ms=self.lag_ms(line), commit_age_ms=age_ms)


class TimedLags:
    """Lag of groups with its times, for pages."""

    def __init__(self, queries: Queries, history: EndHistory, rest: Rest) -> None:
        """`history` has the ends that all pages have seen; `rest` lets the loop serve other requests."""
        self._ask, self._history, self._rest = queries, history, rest

    async def of(self, group: DescribedGroup) -> list[PartitionLag]:
        """Return the lines of `Queries.lags`, with their times."""
        return await self.timed(await self._ask.lags(group))

    async def timed(self, lines: Iterable[PartitionLag]) -> list[PartitionLag]:
        """Return these lines with their times."""
        times = LagClock(self._history, (await self._ask.node()).wall_ms)
        found: list[PartitionLag] = []
        for number, line in enumerate(lines, 1):
            found.append(times.timed(line))
            if number % _LINES_A_GO == 0:
                await self._rest()
        return found
