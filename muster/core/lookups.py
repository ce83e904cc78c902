"""Lookups about topics: their partitions, starts and ends of logs, offsets by time. Without I/O; both edges use it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from membership.backoff import backoff_ms
from membership.checks import MOST_64, check_number
from membership.events import CallFailed, HangUp, MemberEffect, MemberEvent, NodeAddress, Replied, SendRequest
from membership.nodes import nodes_of
from membership.topic_partition import TopicPartition
from muster.core.fetching.settings import FetchSettings, Isolation
from muster.errors import CannotConnect, MusterError, Refused, RequestTimedOut
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import ErrorReply as WhollyRefused
from protocol.messages.offsets import ListOffsets, ListOffsetsPartition, ListOffsetsReply, ListOffsetsTopic
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic, MetadataTopicReply

BEGIN, END = -2, -1
"""Times that stand for the first offset of a log, and for the one after the last."""


class LookedUp(NamedTuple):
    """Results: partition counts by topic, offsets (-1 if no record is so late), and the requested leaders."""

    counts: Mapping[str, int]
    offsets: Mapping[TopicPartition, int]
    leaders: Mapping[TopicPartition, NodeAddress]


def times_in_ms(times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Check times. Raises ValueError for a time before 1970, or one that is not a whole number, since `time.time()` has
    seconds."""
    what = "the time for {}, in milliseconds since 1970,"
    return {one: check_number(what.format(one), time_ms, 0, MOST_64) for one, time_ms in times.items()}


@dataclass(slots=True, eq=False)
class _Question:
    topics: tuple[str, ...]
    times: Mapping[TopicPartition, int]
    led: tuple[TopicPartition, ...] = ()
    """Partitions whose leaders are requested."""
    counts: dict[str, int] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    leaders: dict[TopicPartition, NodeAddress] = field(default_factory=dict)
    calls: set[int] = field(default_factory=set)
    retry_at_ms: int = 0
    failures: int = 0
    heard: str = ""
    error: MusterError | None = None

    @property
    def is_answered(self) -> bool:
        has_numbers = len(self.counts) == len(self.topics) and len(self.offsets) == len(self.times)
        return has_numbers and all(one in self.leaders for one in self.led)

    @property
    def is_over(self) -> bool:
        return self.error is not None or self.is_answered


class _SentLookup(NamedTuple):
    question: _Question
    node: NodeAddress | None
    deadline_ms: int


class Lookups:
    """Numbered lookups, which are retried after retriable errors until they are taken or forgotten. Driven like
    `Fetcher`.
    """

    def __init__(self, settings: FetchSettings, jitter: Callable[[], float]) -> None:
        self._settings = settings
        self._jitter = jitter
        self._questions: dict[int, _Question] = {}
        self._sent: dict[int, _SentLookup] = {}
        self._asked = self._calls_made = 0
        self._now_ms = 0
        self._effects: list[MemberEffect] = []

    def ask(
        self, topics: Iterable[str], times: Mapping[TopicPartition, int], led: Iterable[TopicPartition] = ()
    ) -> int:
        """Look up the partition counts of these topics, the first offset of each partition at or after its time, and
        the leaders of `led`. Return the lookup's number; call `step` next.
        """
        led = tuple(led)
        names = tuple(sorted({*topics, *(one.topic for one in (*times, *led))}))
        self._asked += 1
        self._questions[self._asked] = _Question(names, dict(times), led)
        return self._asked

    def is_over(self, number: int) -> bool:
        return self._questions[number].is_over

    def take(self, number: int, trouble: str = "") -> LookedUp:
        """Return the results, and forget the number. Raises `Refused` or, if the lookup has not ended, RequestTimedOut,
        or CannotConnect if `trouble` says why no node can be asked.
        """
        question = self._end(number)
        if question.error is not None:
            raise question.error
        if not question.is_answered:
            names = ", ".join(question.topics)
            sentence = f"nothing was found out about {names} in time"
            raise CannotConnect(trouble) if trouble else RequestTimedOut(f"{sentence}{question.heard}")
        # In the order of the request, since nodes answer in an order of their own.
        offsets = {one: question.offsets[one] for one in question.times}
        return LookedUp(question.counts, offsets, {one: question.leaders[one] for one in question.led})

    def forget(self, number: int) -> None:
        """Drop a lookup whose caller no longer waits."""
        self._end(number)

    def _end(self, number: int) -> _Question:
        question = self._questions.pop(number)
        for call in question.calls:
            self._sent.pop(call, None)
        return question

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        """Handle a reply or the passing of time (`TimePassed`); return the requests to send."""
        self._now_ms = max(now_ms, self._now_ms)
        if isinstance(event, Replied | CallFailed):
            self._on_reply(event.call, event.reply if isinstance(event, Replied) else None)
        for call, sent in tuple(self._sent.items()):
            if sent.deadline_ms <= self._now_ms:
                self._effects.append(HangUp(sent.node))
                self._on_reply(call, None)
        for question in self._questions.values():
            if not (question.is_over or question.calls) and question.retry_at_ms <= self._now_ms:
                self._call(question, None, Metadata(tuple(MetadataTopic(name) for name in question.topics)))
        effects, self._effects = self._effects, []
        return effects

    @property
    def next_deadline_ms(self) -> int | None:
        due = [sent.deadline_ms for sent in self._sent.values()]
        due += [one.retry_at_ms for one in self._questions.values() if not (one.is_over or one.calls)]
        return min(due, default=None)

    # -- replies

    def _on_reply(self, call: int, reply: Message | None) -> None:
        sent = self._sent.pop(call, None)
        if sent is None:
            return
        question = sent.question
        question.calls.discard(call)
        if isinstance(reply, MetadataReply):
            self._on_metadata(question, reply)
        elif isinstance(reply, ListOffsetsReply):
            self._on_offsets(question, reply)
        elif isinstance(reply, WhollyRefused) and not reply.error_code.retriable:
            question.error = Refused(reply.error_code, reply.error_message)
        elif reply is None and sent.node is None:
            self._effects.append(HangUp(None))  # so that the next request goes to another node
        if not (question.calls or question.is_over):
            settings = self._settings
            question.retry_at_ms = self._now_ms + backoff_ms(
                settings.retry_backoff_ms, settings.retry_backoff_max_ms, question.failures, self._jitter()
            )
            question.failures += 1

    def _on_metadata(self, question: _Question, reply: MetadataReply) -> None:
        nodes = nodes_of(reply)
        question.leaders.clear()
        for topic in reply.topics:
            if topic.name in question.topics:
                self._on_topic(question, topic.name, topic, nodes)
        if question.error is not None:
            return
        by_node: dict[NodeAddress, list[TopicPartition]] = {}
        for one in sorted(question.times):
            if one not in question.offsets and one in question.leaders:
                by_node.setdefault(question.leaders[one], []).append(one)
        for node, ones in by_node.items():
            self._call(question, node, self._list_offsets(question, ones))

    def _on_topic(
        self, question: _Question, name: str, topic: MetadataTopicReply, nodes: Mapping[int, NodeAddress]
    ) -> None:
        code = topic.error_code
        if code != ErrorCode.NONE and not topic.partitions:
            question.heard = f" ({name}: {code.name})"
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                question.error = Refused(code, f"there is no topic {name!r}: create it with `muster topics create`")
            elif not code.retriable:
                question.error = Refused(code, f"topic {name!r}: {code.name}")
            return
        count = question.counts[name] = len(topic.partitions)
        for told in topic.partitions:
            if told.leader_id in nodes:
                question.leaders[TopicPartition(name, told.partition_index)] = nodes[told.leader_id]
        if waiting := [str(one) for one in question.led if one.topic == name and one not in question.leaders]:
            question.heard = f" (no leader of {', '.join(waiting)})"
        asked = (*question.times, *question.led)
        wrong = next((one for one in asked if one.topic == name and not 0 <= one.partition < count), None)
        if wrong is not None:
            sentence = f"topic {name!r} has partitions 0 to {count - 1}, not {wrong.partition}"
            question.error = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, sentence)

    def _on_offsets(self, question: _Question, reply: ListOffsetsReply) -> None:
        for topic in reply.topics:
            for answer in topic.partitions:
                one, code = TopicPartition(topic.name, answer.partition_index), answer.error_code
                if code == ErrorCode.NONE:
                    question.offsets[one] = answer.offset
                elif code.retriable:
                    question.heard = f" ({one}: {code.name})"
                else:
                    question.error = Refused(code, f"the offsets of {one}: {code.name}")

    # -- requests

    def _list_offsets(self, question: _Question, ones: Iterable[TopicPartition]) -> ListOffsets:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for one in ones:
            topics.setdefault(one.topic, []).append(ListOffsetsPartition(one.partition, question.times[one]))
        return ListOffsets(
            tuple(ListOffsetsTopic(name, tuple(parts)) for name, parts in topics.items()),
            int(self._settings.isolation == Isolation.READ_COMMITTED),
        )

    def _call(self, question: _Question, node: NodeAddress | None, message: Message) -> None:
        self._calls_made += 1
        question.calls.add(self._calls_made)
        self._sent[self._calls_made] = _SentLookup(question, node, self._now_ms + self._settings.request_timeout_ms)
        self._effects.append(SendRequest(self._calls_made, node, message))
