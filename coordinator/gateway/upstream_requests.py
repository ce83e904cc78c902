"""Upstream requests: requests to the cluster's brokers, and client requests that wait for their replies.

A client request continues when the last reply has arrived, or at its deadline. Several may wait for one reply.
"""

from collections.abc import Callable, Iterable

import msgspec

from coordinator.clock import Moment
from coordinator.gateway.effects import UpstreamRequest
from coordinator.gateway.events import UpstreamReply
from coordinator.keys import UpstreamKey
from protocol.messages import Message
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperation

REQUESTS_MAX = 10_000
"""Largest number of upstream requests in flight; a client request beyond it is served with the known data."""

BrokerRequest = tuple[Message, int | None]
"""A request and its broker; None: any."""


class PendingRequest(msgspec.Struct, frozen=True, gc=False):
    """A request that was sent to `broker` (None: any) at `asked_ms`."""

    message: Message
    broker: int | None
    asked_ms: int


class UpstreamRequestDone(msgspec.Struct, frozen=True, gc=False):
    """All replies have arrived, or the deadline has passed."""

    number: int


Continuation = Callable[["DelayedUpstreamRequest", Moment], None]


class DelayedUpstreamRequest(DelayedOperation[UpstreamRequestDone]):
    """A client request `message` of `ref` that waits for replies; `ref` is None for the node's own.

    `answers` has the replies by call id in the order of `requests`, None for missing ones. `continuation` is called
    with it when it is done.
    """

    __slots__ = ("answers", "continuation", "deadline_ms", "key", "message", "number", "ref", "requests", "unanswered")
    kind = "upstream"
    continuation: Continuation

    def __init__(
        self,
        number: int,
        requests: dict[int, PendingRequest],
        deadline_ms: int,
        ref: RequestRef | None,
        message: Message,
    ) -> None:
        self.number = number
        self.key = UpstreamKey(number)
        self.deadline_ms = deadline_ms
        self.requests = tuple(requests.values())
        self.answers: dict[int, Message | None] = dict.fromkeys(requests)
        self.unanswered = len(requests)
        self.ref = ref
        self.message = message

    @property
    def exchanges(self) -> Iterable[tuple[Message, Message | None]]:
        """Each request with its reply."""
        return zip((request.message for request in self.requests), self.answers.values(), strict=True)

    @property
    def single_exchange(self) -> tuple[Message, Message | None]:
        """The only request and its reply."""
        (answer,) = self.answers.values()
        return self.requests[0].message, answer

    def is_satisfied(self) -> bool:
        return not self.unanswered

    def completed(self) -> UpstreamRequestDone:
        return UpstreamRequestDone(self.number)


class UpstreamRequests:
    """Upstream requests in flight and the client requests that wait for them."""

    def __init__(self, timeout_ms: int, emit: Callable[[UpstreamRequest], None]) -> None:
        self._timeout_ms = timeout_ms
        self._next_call = self._next_number = 0
        self._pending: dict[int, PendingRequest] = {}
        self._waiting: dict[int, list[DelayedUpstreamRequest]] = {}
        self._delayed: dict[int, DelayedUpstreamRequest] = {}
        self._emit = emit

    @property
    def is_full(self) -> bool:
        return max(len(self._pending), len(self._delayed)) >= REQUESTS_MAX

    def send(
        self,
        requests: tuple[BrokerRequest, ...],
        ref: RequestRef | None,
        message: Message,
        moment: Moment,
        joined: Iterable[int] = (),
    ) -> DelayedUpstreamRequest:
        """Send requests; return the operation to watch. It also waits for the calls in `joined`, which are in
        flight."""
        calls = {call_id: self._pending[call_id] for call_id in joined}
        for request, broker in requests:
            self._next_call += 1
            calls[self._next_call] = self._pending[self._next_call] = PendingRequest(
                request, broker, moment.monotonic_ms
            )
            self._emit(UpstreamRequest(self._next_call, request, broker))
        self._next_number += 1
        delayed = DelayedUpstreamRequest(self._next_number, calls, moment.monotonic_ms + self._timeout_ms, ref, message)
        self._delayed[delayed.number] = delayed
        for call_id in calls:
            self._waiting.setdefault(call_id, []).append(delayed)
        return delayed

    def pending_request(self, call_id: int) -> PendingRequest | None:
        """Return the request of the call; None if it is answered or nothing waits for it."""
        return self._pending.get(call_id)

    def on_reply(self, event: UpstreamReply) -> tuple[PendingRequest | None, list[DelayedUpstreamRequest]]:
        """Return the request and the operations that its reply may complete; (None, []) if it arrived too late."""
        pending = self._pending.pop(event.call_id, None)
        waiting = self._waiting.pop(event.call_id, [])
        for delayed in waiting:
            delayed.answers[event.call_id] = event.reply
            delayed.unanswered -= 1
        return pending, waiting

    def on_done(self, event: UpstreamRequestDone) -> DelayedUpstreamRequest:
        """Remove a finished operation and return it. Requests for which no other operation waits are dropped."""
        delayed = self._delayed.pop(event.number)
        for call_id in delayed.answers:
            waiting = self._waiting.get(call_id)
            if waiting is not None:
                waiting.remove(delayed)
                if not waiting:
                    del self._waiting[call_id], self._pending[call_id]
        return delayed
