"""Produce queue: requests that wait for space in the write-ahead log, or for their turn. Requests of one connection
stay in order, and the connections take turns."""

from collections import deque
from collections.abc import Generator

from coordinator.clock import Moment
from protocol.messages.data import Produce, ProduceReply
from protocol.session import RequestRef

SLICE_US = 40_000
"""Microseconds of checking and appending records in one slice."""

REST_MS_MAX = 200
_NEARLY_NONE_MS = 10


class QueuedProduce:
    """A request that waits or was begun. `size` is the size of its records."""

    __slots__ = ("message", "ref", "size", "work")

    def __init__(
        self, ref: RequestRef, message: Produce, size: int, work: Generator[int, Moment, tuple[ProduceReply, int]]
    ) -> None:
        self.ref = ref
        self.message = message
        self.size = size
        self.work = work


class ProduceQueue:
    """Requests in the queue. `bytes` is the size of their records. `left_us` may be spent now. It grows by half of the
    elapsed time, so that the other half is left for other requests."""

    __slots__ = ("_filled_ms", "_has_rested", "_queues", "bytes", "due_ms", "left_us")

    def __init__(self) -> None:
        self._queues: dict[int, deque[QueuedProduce]] = {}  # by connection, in order of turns
        self._filled_ms = 0
        self._has_rested = False
        self.bytes = 0
        self.left_us = SLICE_US
        self.due_ms: int | None = None  # when the scheduled task runs next

    @property
    def waiting(self) -> bool:
        return bool(self._queues)

    def add(self, produce: QueuedProduce) -> None:
        """Queue the request after the others of its connection."""
        self._queues.setdefault(produce.ref.connection, deque()).append(produce)
        self.bytes += produce.size

    def first(self) -> QueuedProduce:
        """Return the request whose turn it is."""
        return next(iter(self._queues.values()))[0]

    def end_turn(self) -> None:
        """End the turn of the first connection, which goes to the end of the queue."""
        connection = next(iter(self._queues))
        self._queues[connection] = self._queues.pop(connection)

    def done(self) -> None:
        """Remove the first request: it has been answered."""
        connection, lane = next(iter(self._queues.items()))
        self.bytes -= lane.popleft().size
        del self._queues[connection]
        if lane:
            self._queues[connection] = lane

    def refill(self, now_ms: int) -> None:
        self.left_us = min(SLICE_US, self.left_us + max(now_ms - self._filled_ms, 0) * 500)
        self._filled_ms = now_ms

    def overrun_ms(self, now_ms: int) -> int:
        """Return the pause after a slice that overran its estimate, in milliseconds: other requests had to wait, so
        they get as much time now. 0 if the overrun is negligible, or if such a pause has just ended."""
        late_ms = 0 if self.due_ms is None else now_ms - self.due_ms
        self.due_ms = None
        self._has_rested = late_ms > _NEARLY_NONE_MS and not self._has_rested
        return min(late_ms, REST_MS_MAX) if self._has_rested else 0

    @property
    def wait_ms(self) -> int:
        """Milliseconds until half a slice may be spent."""
        return max((SLICE_US // 2 - self.left_us) // 500, 1)
