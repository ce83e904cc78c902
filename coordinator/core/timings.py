"""Distributions of durations since the process started: of requests by their API, of syncs, of turns of the loop."""

from bisect import bisect_left
from typing import Final

from protocol.messages import Message

BOUNDS_MS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000, 60_000, 300_000)
"""Upper bounds of the buckets; one more has what is longer."""


class Durations:
    """Numbers of durations by bucket, and their sum."""

    __slots__ = ("counts", "sum_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)
        self.sum_ms = 0.0

    def add(self, ms: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS_MS, ms)] += 1
        self.sum_ms += ms


class Timings:
    """Durations of requests, from the moment at which they are read to that at which they are answered: what waits for
    members or records waits on purpose. Heartbeats are answered in the step that reads them, and not counted."""

    __slots__ = ("loop_lag", "requests", "syncs")

    def __init__(self) -> None:
        self.requests: dict[type[Message], Durations] = {}
        self.syncs = Durations()
        """Flushes of the write-ahead log, which the edge measures."""
        self.loop_lag = Durations()
        """Lateness of the event loop, which the edge measures."""

    def answered(self, kind: type[Message], ms: int) -> None:
        """Count a request that is answered."""
        durations = self.requests.get(kind)
        if durations is None:
            durations = self.requests[kind] = Durations()
        durations.counts[bisect_left(BOUNDS_MS, ms)] += 1  # `add`, without a call: there is one for each request
        durations.sum_ms += ms
