"""Requests that wait for room in the write-ahead log, or for the others to have their turn: each connection's in order,
and the connections by turns."""

from collections import deque
from collections.abc import Generator

from coordinator.clock import Moment
from protocol.messages.data import Produce, ProduceReply
from protocol.session import RequestRef

SLICE_US = 40_000
"""Microseconds of checking and appending records that may be done at one go."""

REST_MS_MAX = 200
_NEARLY_NONE_MS = 10


class QueuedProduce:
    """A request that was begun, or is to be. `size` is what its records take."""

    __slots__ = ("message", "ref", "size", "work")

    def __init__(
        self, ref: RequestRef, message: Produce, size: int, work: Generator[int, Moment, tuple[ProduceReply, int]]
    ) -> None:
        self.ref = ref
        self.message = message
        self.size = size
        self.work = work


class ProduceQueue:
    """`bytes` is what their records take. `left_us` may be spent now; half of the time that passes is added to it, so
    that the other half is everyone else's."""

    __slots__ = ("_filled_ms", "_has_rested", "_lanes", "bytes", "due_ms", "left_us")

    def __init__(self) -> None:
        self._lanes: dict[int, deque[QueuedProduce]] = {}  # by connection; whose turn it is comes first
        self._filled_ms = 0
        self._has_rested = False
        self.bytes = 0
        self.left_us = SLICE_US
        self.due_ms: int | None = None  # when someone will see to what waits

    @property
    def waiting(self) -> bool:
        return bool(self._lanes)

    def add(self, produce: QueuedProduce) -> None:
        """Behind the others of its connection."""
        self._lanes.setdefault(produce.ref.connection, deque()).append(produce)
        self.bytes += produce.size

    def first(self) -> QueuedProduce:
        """Whose turn it is."""
        return next(iter(self._lanes.values()))[0]

    def turn(self) -> None:
        """It has had its turn, and comes again after the other connections."""
        connection = next(iter(self._lanes))
        self._lanes[connection] = self._lanes.pop(connection)

    def done(self) -> None:
        """Whose turn it is has been answered."""
        connection, lane = next(iter(self._lanes.items()))
        self.bytes -= lane.popleft().size
        del self._lanes[connection]
        if lane:
            self._lanes[connection] = lane

    def refill(self, now_ms: int) -> None:
        self.left_us = min(SLICE_US, self.left_us + max(now_ms - self._filled_ms, 0) * 500)
        self._filled_ms = now_ms

    def take_long(self, now_ms: int) -> int:
        """How much longer than was thought the last slice has taken: counts are no clock, and others may be on the
        processor. They had nothing of that time, so as much is theirs now. In milliseconds, 0 if it is nearly none, or
        if this is the end of such a rest."""
        late_ms = 0 if self.due_ms is None else now_ms - self.due_ms
        self.due_ms = None
        self._has_rested = late_ms > _NEARLY_NONE_MS and not self._has_rested
        return min(late_ms, REST_MS_MAX) if self._has_rested else 0

    @property
    def wait_ms(self) -> int:
        """Until half a slice may be spent."""
        return max((SLICE_US // 2 - self.left_us) // 500, 1)
