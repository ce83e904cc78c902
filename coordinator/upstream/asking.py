"""Requests that wait until the cluster has been asked something: a call id a question, and the request goes on when the
last answer is there, or when it is too late for it. A question may have several who wait for its answer."""

from collections.abc import Callable, Iterable

import msgspec

from coordinator.effects import AskUpstream
from coordinator.events import UpstreamAnswered
from coordinator.keys import UpstreamKey
from coordinator.moment import Moment
from protocol.messages import Message
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperation

MOST_ASKED = 10_000
"""Questions under way; a request that comes beyond them is served with what is known."""

Question = tuple[Message, int | None]
"""And the broker it is for; None for any."""


class Asked(msgspec.Struct, frozen=True, gc=False):
    """A question that was put to `broker` (None: to any) at `asked_ms`."""

    message: Message
    broker: int | None
    asked_ms: int


class AskDone(msgspec.Struct, frozen=True, gc=False):
    """The questions have their answers, or the time is up."""

    number: int


Then = Callable[["DelayedAsk", Moment], None]


class DelayedAsk(DelayedOperation[AskDone]):
    """`message` is the request that waits, of `ref`; None if it is the node's own. `answers`, by call, in the order of
    `questions`; None where there is none. `then` is what goes on with them."""

    __slots__ = ("answers", "deadline_ms", "key", "message", "number", "questions", "ref", "then", "unanswered")
    kind = "upstream"
    then: Then

    def __init__(
        self, number: int, questions: dict[int, Asked], deadline_ms: int, ref: RequestRef | None, message: Message
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

    def completed(self) -> AskDone:
        return AskDone(self.number)


class Asking:
    """All questions under way."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._next_call = self._next_number = 0
        self._asked: dict[int, Asked] = {}
        self._waiting: dict[int, list[DelayedAsk]] = {}
        self._delayed: dict[int, DelayedAsk] = {}
        self._effects: list[AskUpstream] = []

    @property
    def is_full(self) -> bool:
        return max(len(self._asked), len(self._delayed)) >= MOST_ASKED

    def ask(
        self,
        questions: tuple[Question, ...],
        ref: RequestRef | None,
        message: Message,
        moment: Moment,
        joined: Iterable[int] = (),
    ) -> DelayedAsk:
        """What to watch until all are answered, those under way too whose calls are `joined`."""
        calls = {call_id: self._asked[call_id] for call_id in joined}
        for question, broker in questions:
            self._next_call += 1
            calls[self._next_call] = self._asked[self._next_call] = Asked(question, broker, moment.monotonic_ms)
            self._effects.append(AskUpstream(self._next_call, question, broker))
        self._next_number += 1
        delayed = DelayedAsk(self._next_number, calls, moment.monotonic_ms + self._timeout_ms, ref, message)
        self._delayed[delayed.number] = delayed
        for call_id in calls:
            self._waiting.setdefault(call_id, []).append(delayed)
        return delayed

    def under_way(self, call_id: int) -> Asked | None:
        """The question of the call; None if it has its answer, or nobody waits for one any more."""
        return self._asked.get(call_id)

    def take_effects(self) -> list[AskUpstream]:
        """Questions put since last asked."""
        effects, self._effects = self._effects, []
        return effects

    def answered(self, event: UpstreamAnswered) -> tuple[Asked | None, list[DelayedAsk]]:
        """The question, and what may be complete by its answer; one that comes too late is none."""
        asked = self._asked.pop(event.call_id, None)
        some = self._waiting.pop(event.call_id, [])
        for delayed in some:
            delayed.answers[event.call_id] = event.reply
            delayed.unanswered -= 1
        return asked, some

    def done(self, event: AskDone) -> DelayedAsk:
        """Whose questions are over."""
        delayed = self._delayed.pop(event.number)
        for call_id in delayed.answers:
            waiting = self._waiting.get(call_id)
            if waiting is not None:
                waiting.remove(delayed)
                if not waiting:
                    del self._waiting[call_id], self._asked[call_id]
        return delayed
