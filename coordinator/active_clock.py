"""The clock that a node's deadlines run on: the monotonic clock less the stalls of the process (SIGSTOP, a paused
virtual machine, a disk that blocks the loop).

During a stall clients continue to send, and their bytes lie unread in sockets when the process resumes. By the
monotonic clock their sessions would be over. On this clock a stall has no length, so every deadline (sessions,
rebalances, leases) moves by the time lost. The edge and the simulation read it; the node only gets its readings.
"""

from collections.abc import Callable

STALL_MS = 100
"""Delay of a wake-up that counts as a stall. Deadlines that came meanwhile are due this much after the stall: the time
to read the bytes that clients have sent."""


class ActiveClock:
    """`now_ms` is the last reading of the monotonic clock, `lost_ms` the length of all stalls. `on_stall` is called
    with the length of each."""

    __slots__ = ("_on_stall", "lost_ms", "now_ms")

    def __init__(self, now_ms: int, on_stall: Callable[[int], None]) -> None:
        self.now_ms = now_ms
        self.lost_ms = 0
        self._on_stall = on_stall

    def read(self, now_ms: int, deadline_ms: int | None) -> int:
        """Return this clock's reading for `now_ms` of the monotonic clock. `deadline_ms` is the latest time, on this
        clock, at which the node was to be stepped; None: it had no deadline."""
        if deadline_ms is not None and now_ms - self.now_ms > STALL_MS:
            late_ms = now_ms - max(deadline_ms + self.lost_ms, self.now_ms)
            if late_ms > STALL_MS:
                self._skip(min(late_ms + STALL_MS, now_ms - self.now_ms))
        self.now_ms = now_ms
        return now_ms - self.lost_ms

    def _skip(self, stall_ms: int) -> None:
        self.lost_ms += stall_ms
        self._on_stall(stall_ms)
