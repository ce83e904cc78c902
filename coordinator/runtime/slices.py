"""Requests that are served in slices: what they look at, or change, may be hundreds of thousands of entries, and
everyone else's heartbeats wait behind a step.

Each is a generator that yields what its last piece was worth, in microseconds by and large (from counts, not a clock),
and is sent the moment at which it goes on. Between two pieces anything may happen to what it looks at.
"""

from collections import deque
from collections.abc import Generator
from typing import NamedTuple

from coordinator.clock import Moment
from coordinator.runtime.outbox import Outbox
from protocol.messages import Message
from protocol.session import RequestRef

SLICE_US = 5_000
"""What one step may do of all that waits here."""
BLOCKED = -1
"""Yielded in place of a cost by a request that can do nothing before the disk has done something."""


class Served(NamedTuple):
    """The answer, and the write-ahead position that it waits for."""

    reply: Message
    position: int


Work = Generator[int, Moment, Served]


class _Sliced(NamedTuple):
    ref: RequestRef
    work: Work
    changes: bool


class SlicedRequests:
    """Requests that are not finished yet; each has a slice, then the next has its turn."""

    __slots__ = ("_is_blocked", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[_Sliced] = deque()
        self._is_blocked = False

    @property
    def waiting(self) -> int:
        """How many are not finished."""
        return len(self._waiting)

    @property
    def is_ready(self) -> bool:
        """Whether a step may go on with one of them now."""
        return bool(self._waiting) and not self._is_blocked

    def begin(self, outbox: Outbox, ref: RequestRef, work: Work, moment: Moment, *, changes: bool = False) -> None:
        """Serve the first slice now, unless others wait; `changes`: it goes on without its connection."""
        next(work)  # up to its first piece, which needs the moment
        self._waiting.append(_Sliced(ref, work, changes))
        self._is_blocked = False  # this one may not be
        if len(self._waiting) == 1:
            self.go_on(outbox, moment)

    def unblock(self) -> None:
        """Let all go on: the disk has done something."""
        self._is_blocked = False

    def go_on(self, outbox: Outbox, moment: Moment) -> None:
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
        """Give up what is only read for the connection: nobody waits for the answer any more."""
        if any(one.ref.connection == connection for one in self._waiting):
            kept = [one for one in self._waiting if one.changes or one.ref.connection != connection]
            self._waiting = deque(kept)
