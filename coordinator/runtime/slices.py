"""Requests that are served in slices: they read or change up to hundreds of thousands of entries, and all other
clients' heartbeats wait behind a step.

Each is a generator that yields the cost of its last piece in microseconds (estimated from counts, not a clock), and is
sent the moment at which it resumes. Between two pieces its data may change in any way.
"""

from collections import deque
from collections.abc import Generator
from typing import NamedTuple

from coordinator.clock import Moment
from coordinator.runtime.outbox import Outbox
from protocol.messages import Message
from protocol.session import RequestRef

SLICE_US = 5_000
"""Work of one step on all waiting requests."""
BLOCKED = -1
"""Yielded in place of a cost by a request that must wait for the disk."""


class Served(NamedTuple):
    """The reply, and the write-ahead position that it waits for."""

    reply: Message
    position: int


Work = Generator[int, Moment, Served]


class _Sliced(NamedTuple):
    ref: RequestRef
    work: Work
    changes: bool


class SlicedRequests:
    """Unfinished requests, served round robin, a slice each."""

    __slots__ = ("_is_blocked", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[_Sliced] = deque()
        self._is_blocked = False

    @property
    def waiting(self) -> int:
        """Number of unfinished requests."""
        return len(self._waiting)

    @property
    def is_ready(self) -> bool:
        """True if one of them can continue now."""
        return bool(self._waiting) and not self._is_blocked

    def begin(self, outbox: Outbox, ref: RequestRef, work: Work, moment: Moment, *, changes: bool = False) -> None:
        """Serve the first slice now, unless others wait. `changes`: continue even if the connection is lost."""
        next(work)  # run to the first yield, which receives the moment
        self._waiting.append(_Sliced(ref, work, changes))
        self._is_blocked = False  # the new one may not be blocked
        if len(self._waiting) == 1:
            self.continue_requests(outbox, moment)

    def unblock(self) -> None:
        """Unblock all requests: a flush or a checkpoint has ended."""
        self._is_blocked = False

    def continue_requests(self, outbox: Outbox, moment: Moment) -> None:
        """Serve one slice."""
        left_us, blocked = SLICE_US, 0
        while left_us > 0 and blocked < len(self._waiting):
            one, cost = self._waiting[0], 0
            try:
                while left_us > 0 and cost != BLOCKED:
                    cost = one.work.send(moment)
                    left_us -= max(cost, 0)
            except StopIteration as done:
                self._waiting.popleft()
                outbox.hold(done.value.position, one.ref, done.value.reply)
                continue
            blocked += cost == BLOCKED
            self._waiting.rotate(-1)
        self._is_blocked = 0 < blocked == len(self._waiting)

    def leave(self, connection: int) -> None:
        """Drop the connection's requests that only read: their replies cannot be sent any more."""
        if any(one.ref.connection == connection for one in self._waiting):
            kept = [one for one in self._waiting if one.changes or one.ref.connection != connection]
            self._waiting = deque(kept)
