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
class _PendingLookup:
    topics: tuple[str, ...]
    times: Mapping[TopicPartition, int]
    led: tuple[TopicPartition, ...] = ()
    """Partitions whose leaders are requested."""
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    counts: dict[str, int] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    leaders: dict[TopicPartition, NodeAddress] = field(default_factory=dict)
    calls: set[int] = field(default_factory=set)
    retry_at_ms: int = 0
    failures: int = 0
    last_error: str = ""
    error: MusterError | None = None

    @property
    def is_answered(self) -> bool:
        has_numbers = len(self.counts) == len(self.topics) and len(self.offsets) == len(self.times)
        return has_numbers and all(one in self.leaders for one in self.led)

    @property
    def is_over(self) -> bool:
        return self.error is not None or self.is_answered


class _SentLookup(NamedTuple):
    lookup: _PendingLookup
    node: NodeAddress | None
    deadline_ms: int


class Lookups:
    """Numbered lookups, which are retried after retriable errors until they are taken or forgotten. Driven like
    `Fetcher`.
    """

    def __init__(self, settings: FetchSettings, jitter: Callable[[], float]) -> None:
        self._settings = settings
        self._jitter = jitter
        self._pending: dict[int, _PendingLookup] = {}
        self._sent: dict[int, _SentLookup] = {}
        self._last_number = self._calls_made = 0
        self._now_ms = 0
        self._effects: list[MemberEffect] = []

    def ask(
        self,
        topics: Iterable[str],
        times: Mapping[TopicPartition, int],
        led: Iterable[TopicPartition] = (),
        isolation: Isolation | None = None,
    ) -> int:
        """Look up the partition counts of these topics, the first offset of each partition at or after its time, and
        the leaders of `led`. Return the lookup's number; call `step` next. `isolation`: another than the settings'.
        """
        led = tuple(led)
        names = tuple(sorted({*topics, *(one.topic for one in (*times, *led))}))
        self._last_number += 1
        self._pending[self._last_number] = _PendingLookup(
            names, dict(times), led, self._settings.isolation if isolation is None else isolation
        )
        return self._last_number

    def is_over(self, number: int) -> bool:
        return self._pending[number].is_over

    def take(self, number: int, trouble: str = "") -> LookedUp:
        """Return the results, and forget the number. Raises `Refused` or, if the lookup has not ended, RequestTimedOut,
        or CannotConnect if `trouble` says why no node can be asked.
        """
        lookup = self._end(number)
        if lookup.error is not None:
            raise lookup.error
        if not lookup.is_answered:
            names = ", ".join(lookup.topics)
            sentence = f"nothing was found out about {names} in time"
            raise CannotConnect(trouble) if trouble else RequestTimedOut(f"{sentence}{lookup.last_error}")
        # In the order of the request, since nodes answer in an order of their own.
        offsets = {one: lookup.offsets[one] for one in lookup.times}
        return LookedUp(lookup.counts, offsets, {one: lookup.leaders[one] for one in lookup.led})

    def forget(self, number: int) -> None:
        """Drop a lookup whose caller no longer waits."""
        self._end(number)

    def _end(self, number: int) -> _PendingLookup:
        lookup = self._pending.pop(number)
        for call in lookup.calls:
            self._sent.pop(call, None)
        return lookup

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        """Handle a reply or the passing of time (`TimePassed`); return the requests to send."""
        self._now_ms = max(now_ms, self._now_ms)
        if isinstance(event, Replied | CallFailed):
            self._on_reply(event.call, event.reply if isinstance(event, Replied) else None)
        for call, sent in tuple(self._sent.items()):
            if sent.deadline_ms <= self._now_ms:
                self._effects.append(HangUp(sent.node))
                self._on_reply(call, None)
        for lookup in self._pending.values():
            if not (lookup.is_over or lookup.calls) and lookup.retry_at_ms <= self._now_ms:
                self._call(lookup, None, Metadata(tuple(MetadataTopic(name) for name in lookup.topics)))
        effects, self._effects = self._effects, []
        return effects

    @property
    def next_deadline_ms(self) -> int | None:
        due = [sent.deadline_ms for sent in self._sent.values()]
        due += [one.retry_at_ms for one in self._pending.values() if not (one.is_over or one.calls)]
        return min(due, default=None)

    # -- replies

    def _on_reply(self, call: int, reply: Message | None) -> None:
        sent = self._sent.pop(call, None)
        if sent is None:
            return
        lookup = sent.lookup
        lookup.calls.discard(call)
        if isinstance(reply, MetadataReply):
            self._on_metadata(lookup, reply)
        elif isinstance(reply, ListOffsetsReply):
            self._on_offsets(lookup, reply)
        elif isinstance(reply, WhollyRefused) and not reply.error_code.retriable:
            lookup.error = Refused(reply.error_code, reply.error_message)
        elif reply is None and sent.node is None:
            self._effects.append(HangUp(None))  # so that the next request goes to another node
        if not (lookup.calls or lookup.is_over):
            settings = self._settings
            lookup.retry_at_ms = self._now_ms + backoff_ms(
                settings.retry_backoff_ms, settings.retry_backoff_max_ms, lookup.failures, self._jitter()
            )
            lookup.failures += 1

    def _on_metadata(self, lookup: _PendingLookup, reply: MetadataReply) -> None:
        nodes = nodes_of(reply)
        lookup.leaders.clear()
        for topic in reply.topics:
            if topic.name in lookup.topics:
                self._on_topic(lookup, topic.name, topic, nodes)
        if lookup.error is not None:
            return
        by_node: dict[NodeAddress, list[TopicPartition]] = {}
        for one in sorted(lookup.times):
            if one not in lookup.offsets and one in lookup.leaders:
                by_node.setdefault(lookup.leaders[one], []).append(one)
        for node, ones in by_node.items():
            self._call(lookup, node, self._list_offsets(lookup, ones))

    def _on_topic(
        self, lookup: _PendingLookup, name: str, topic: MetadataTopicReply, nodes: Mapping[int, NodeAddress]
    ) -> None:
        code = topic.error_code
        if code != ErrorCode.NONE and not topic.partitions:
            lookup.last_error = f" ({name}: {code.name})"
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                lookup.error = Refused(code, f"there is no topic {name!r}: create it with `muster topics create`")
            elif not code.retriable:
                lookup.error = Refused(code, f"topic {name!r}: {code.name}")
            return
        count = lookup.counts[name] = len(topic.partitions)
        for told in topic.partitions:
            if told.leader_id in nodes:
                lookup.leaders[TopicPartition(name, told.partition_index)] = nodes[told.leader_id]
        if waiting := [str(one) for one in lookup.led if one.topic == name and one not in lookup.leaders]:
            lookup.last_error = f" (no leader of {', '.join(waiting)})"
        asked = (*lookup.times, *lookup.led)
        wrong = next((one for one in asked if one.topic == name and not 0 <= one.partition < count), None)
        if wrong is not None:
            sentence = f"topic {name!r} has partitions 0 to {count - 1}, not {wrong.partition}"
            lookup.error = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, sentence)

    def _on_offsets(self, lookup: _PendingLookup, reply: ListOffsetsReply) -> None:
        for topic in reply.topics:
            for answer in topic.partitions:
                one, code = TopicPartition(topic.name, answer.partition_index), answer.error_code
                if code == ErrorCode.NONE:
                    lookup.offsets[one] = answer.offset
                elif code.retriable:
                    lookup.last_error = f" ({one}: {code.name})"
                else:
                    lookup.error = Refused(code, f"the offsets of {one}: {code.name}")

    # -- requests

    def _list_offsets(self, lookup: _PendingLookup, ones: Iterable[TopicPartition]) -> ListOffsets:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for one in ones:
            topics.setdefault(one.topic, []).append(ListOffsetsPartition(one.partition, lookup.times[one]))
        return ListOffsets(
            tuple(ListOffsetsTopic(name, tuple(parts)) for name, parts in topics.items()),
            int(lookup.isolation == Isolation.READ_COMMITTED),
        )

    def _call(self, lookup: _PendingLookup, node: NodeAddress | None, message: Message) -> None:
        self._calls_made += 1
        lookup.calls.add(self._calls_made)
        self._sent[self._calls_made] = _SentLookup(lookup, node, self._now_ms + self._settings.request_timeout_ms)
        self._effects.append(SendRequest(self._calls_made, node, message))
