"""Requests and group operations that run in slices: they read or change up to hundreds of thousands of entries, and
the heartbeats of all other clients wait behind a step.

Each is a generator that yields the cost of its last piece in microseconds (estimated from counts, not a clock), and is
sent the moment at which it resumes. Between two pieces its data may change in any way.
"""

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from coordinator.clock import Moment
from coordinator.groups.outcome import Steps
from coordinator.runtime.outbox import Awaited, Outbox
from protocol.messages import Message
from protocol.session import RequestRef

SLICE_US = 1_000
"""Work of one step on all waiting requests: heartbeats wait behind it."""
BLOCKED = -1
"""Yielded in place of a cost by a request that must wait for the disk."""


class Served(NamedTuple):
    """The reply, and the positions that it waits for, if any."""

    reply: Message
    awaited: Awaited | None = None


def served_for(outbox: Outbox, group_id: str, reply: Message) -> Served:
    """Return a reply that waits for the last record of the group, whose log has this outbox."""
    awaited = Awaited()
    awaited.add_group(outbox, group_id)
    return Served(reply, awaited)


Work = Generator[int, Moment, Served | None]
"""Returns None if there is nothing to reply."""


class _Sliced(NamedTuple):
    ref: RequestRef | None
    work: Work
    changes: bool


class SlicedRequests:
    """Unfinished requests, served round robin, a slice each."""

    __slots__ = ("_waiting", "is_ready")

    def __init__(self) -> None:
        self._waiting: deque[_Sliced] = deque()
        self.is_ready = False
        """True if one of them can continue now."""

    @property
    def waiting(self) -> int:
        """Number of unfinished requests."""
        return len(self._waiting)

    def begin(self, outbox: Outbox, ref: RequestRef, work: Work, moment: Moment, *, changes: bool = False) -> None:
        """Serve the first slice now, unless others wait. `changes`: continue even if the connection is lost."""
        next(work)  # run to the first yield, which receives the moment
        self._waiting.append(_Sliced(ref, work, changes))
        self.is_ready = True  # the new one may not be blocked
        if len(self._waiting) == 1:
            self.continue_requests(outbox, moment)

    def add(self, work: Work) -> None:
        """Add work without a request, to begin in the next round."""
        next(work)
        self._waiting.append(_Sliced(None, work, True))
        self.is_ready = True

    def unblock(self) -> None:
        """Unblock all requests: a flush or a checkpoint has ended."""
        self.is_ready = bool(self._waiting)

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
                if one.ref is not None:
                    served = done.value
                    if served.awaited is None:
                        outbox.send(one.ref, served.reply)
                    else:
                        served.awaited.hold(outbox, one.ref, served.reply)
                continue
            blocked += cost == BLOCKED
            self._waiting.rotate(-1)
        self.is_ready = blocked < len(self._waiting)

    def leave(self, connection: int) -> None:
        """Drop the connection's requests that only read: their replies cannot be sent any more."""
        kept = [one for one in self._waiting if one.changes or one.ref is None or one.ref.connection != connection]
        if len(kept) < len(self._waiting):
            self._waiting = deque(kept)
            self.is_ready = self.is_ready and bool(kept)


def run_steps(steps: Steps, happen: Callable[[Any, Moment], bool]) -> Work:
    """Run the work of a group: yielded costs are charged to the slice, and yielded events run on the group. The work
    ends early if an event can no longer run."""
    moment = yield 0
    for step in steps:
        if isinstance(step, int):
            moment = yield step
        elif not happen(step, moment):
            return None
    return None
