"""Requests that wait until the cluster has been asked something: a call id a question, and the request goes on when the
last answer is there, or when it is too late for it."""

import msgspec

from coordinator.effects import AskUpstream
from coordinator.events import UpstreamAnswered
from coordinator.moment import Moment
from protocol.messages import Message
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperation

MOST_ASKED = 10_000
"""Questions under way; a request that comes beyond them is served with what is known."""

Question = tuple[Message, int | None]
"""And the broker it is for; None for any."""


class AskDone(msgspec.Struct, frozen=True, gc=False):
    """The questions have their answers, or the time is up."""

    call_ids: tuple[int, ...]


class DelayedAsk(DelayedOperation[AskDone]):
    """`message` is the request that waits, of `ref`; None if it is the node's own. `answers`, by call, in the order the
    questions were put; None where there is none."""

    __slots__ = ("answers", "deadline_ms", "key", "message", "questions", "ref", "unanswered")

    def __init__(
        self,
        call_ids: tuple[int, ...],
        questions: tuple[Question, ...],
        deadline_ms: int,
        ref: RequestRef | None,
        message: Message,
    ) -> None:
        self.key = ("ask", call_ids[0])
        self.deadline_ms = deadline_ms
        self.questions = questions
        self.answers: dict[int, Message | None] = dict.fromkeys(call_ids)
        self.unanswered = len(call_ids)
        self.ref = ref
        self.message = message

    def is_satisfied(self) -> bool:
        return not self.unanswered

    def completed(self) -> AskDone:
        return AskDone(tuple(self.answers))


class Asking:
    """All questions under way."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._next_call = 0
        self._waiting: dict[int, DelayedAsk] = {}
        self._effects: list[AskUpstream] = []

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= MOST_ASKED

    def ask(
        self, questions: tuple[Question, ...], ref: RequestRef | None, message: Message, moment: Moment
    ) -> DelayedAsk:
        """What to watch until all are answered."""
        first = self._next_call + 1
        self._next_call += len(questions)
        call_ids = tuple(range(first, self._next_call + 1))
        delayed = DelayedAsk(call_ids, questions, moment.monotonic_ms + self._timeout_ms, ref, message)
        for call_id, (question, broker) in zip(call_ids, questions, strict=True):
            self._waiting[call_id] = delayed
            self._effects.append(AskUpstream(call_id, question, broker))
        return delayed

    def take_effects(self) -> list[AskUpstream]:
        """Questions put since last asked."""
        effects, self._effects = self._effects, []
        return effects

    def answered(self, event: UpstreamAnswered) -> DelayedAsk | None:
        """What may be complete by it; an answer that comes too late is none."""
        delayed = self._waiting.get(event.call_id)
        if delayed is not None:
            delayed.answers[event.call_id] = event.reply
            delayed.unanswered -= 1
        return delayed

    def done(self, event: AskDone) -> DelayedAsk:
        """Whose questions are over."""
        delayed = self._waiting[event.call_ids[0]]
        for call_id in event.call_ids:
            del self._waiting[call_id]
        return delayed
