"""Requests that wait until the cluster has been asked something: a call id a question, and the request goes on when the
last answer is there, or when it is too late for it. A question may have several who wait for its answer."""

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
"""Questions under way; a request that comes beyond them is served with what is known."""

Question = tuple[Message, int | None]
"""And the broker it is for; None for any."""


class PendingRequest(msgspec.Struct, frozen=True, gc=False):
    """A question that was put to `broker` (None: to any) at `asked_ms`."""

    message: Message
    broker: int | None
    asked_ms: int


class UpstreamRequestDone(msgspec.Struct, frozen=True, gc=False):
    """The questions have their answers, or the time is up."""

    number: int


Then = Callable[["DelayedUpstreamRequest", Moment], None]


class DelayedUpstreamRequest(DelayedOperation[UpstreamRequestDone]):
    """`message` is the request that waits, of `ref`; None if it is the node's own. `answers`, by call, in the order of
    `questions`; None where there is none. `then` is what goes on with them."""

    __slots__ = ("answers", "deadline_ms", "key", "message", "number", "questions", "ref", "then", "unanswered")
    kind = "upstream"
    then: Then

    def __init__(
        self,
        number: int,
        questions: dict[int, PendingRequest],
        deadline_ms: int,
        ref: RequestRef | None,
        message: Message,
    ) -> None:
        self.number = number
        self.key = UpstreamKey(number)
        self.deadline_ms = deadline_ms
        self.questions = tuple(questions.values())
        self.answers: dict[int, Message | None] = dict.fromkeys(questions)
        self.unanswered = len(questions)
        self.ref = ref
        self.message = message

    @property
    def heard(self) -> Iterable[tuple[Message, Message | None]]:
        """Each question, with its answer."""
        return zip((question.message for question in self.questions), self.answers.values(), strict=True)

    @property
    def sole(self) -> tuple[Message, Message | None]:
        """The only question, and its answer."""
        (answer,) = self.answers.values()
        return self.questions[0].message, answer

    def is_satisfied(self) -> bool:
        return not self.unanswered

    def completed(self) -> UpstreamRequestDone:
        return UpstreamRequestDone(self.number)


class UpstreamRequests:
    """All questions under way."""

    def __init__(self, timeout_ms: int, emit: Callable[[UpstreamRequest], None]) -> None:
        self._timeout_ms = timeout_ms
        self._next_call = self._next_number = 0
        self._asked: dict[int, PendingRequest] = {}
        self._waiting: dict[int, list[DelayedUpstreamRequest]] = {}
        self._delayed: dict[int, DelayedUpstreamRequest] = {}
        self._emit = emit

    @property
    def is_full(self) -> bool:
        return max(len(self._asked), len(self._delayed)) >= REQUESTS_MAX

    def ask(
        self,
        questions: tuple[Question, ...],
        ref: RequestRef | None,
        message: Message,
        moment: Moment,
        joined: Iterable[int] = (),
    ) -> DelayedUpstreamRequest:
        """What to watch until all are answered, those under way too whose calls are `joined`."""
        calls = {call_id: self._asked[call_id] for call_id in joined}
        for question, broker in questions:
            self._next_call += 1
            calls[self._next_call] = self._asked[self._next_call] = PendingRequest(
                question, broker, moment.monotonic_ms
            )
            self._emit(UpstreamRequest(self._next_call, question, broker))
        self._next_number += 1
        delayed = DelayedUpstreamRequest(self._next_number, calls, moment.monotonic_ms + self._timeout_ms, ref, message)
        self._delayed[delayed.number] = delayed
        for call_id in calls:
            self._waiting.setdefault(call_id, []).append(delayed)
        return delayed

    def under_way(self, call_id: int) -> PendingRequest | None:
        """The question of the call; None if it has its answer, or nobody waits for one any more."""
        return self._asked.get(call_id)

    def answered(self, event: UpstreamReply) -> tuple[PendingRequest | None, list[DelayedUpstreamRequest]]:
        """The question, and what may be complete by its answer; one that comes too late is none."""
        asked = self._asked.pop(event.call_id, None)
        some = self._waiting.pop(event.call_id, [])
        for delayed in some:
            delayed.answers[event.call_id] = event.reply
            delayed.unanswered -= 1
        return asked, some

    def done(self, event: UpstreamRequestDone) -> DelayedUpstreamRequest:
        """Whose questions are over."""
        delayed = self._delayed.pop(event.number)
        for call_id in delayed.answers:
            waiting = self._waiting.get(call_id)
            if waiting is not None:
                waiting.remove(delayed)
                if not waiting:
                    del self._waiting[call_id], self._asked[call_id]
        return delayed
