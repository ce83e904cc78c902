"""Fetching, without I/O: which node to ask for what, and what to make of the answers (consumer-client B2 to B6).

One fetch a node is under way, and none for a partition whose records were not handed out yet. A position moves only
when records are handed out, and only from the offset they were asked for: late, doubled or outdated answers die there.
"""

from collections import deque
from collections.abc import Iterator

import msgspec

from muster.errors import CorruptRecords, MusterError, OffsetOutOfRange, Refused
from muster.events import Call, CallFailed, Effect, HangUp, MemberEvent, NodeAddress, Replied
from muster.subscription import OffsetReset, Position, Subscription
from muster.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartition, FetchPartitionReply, FetchReply, FetchTopic
from protocol.messages.offsets import ListOffsets, ListOffsetsPartition, ListOffsetsReply, ListOffsetsTopic
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic
from protocol.record_batch import CorruptBatch, Record, batches, check_batch, decode_batch

TIMESTAMPS = {OffsetReset.EARLIEST: -2, OffsetReset.LATEST: -1}
_LASTING = frozenset({ErrorCode.KAFKA_STORAGE_ERROR})
"""Asked again, as a retriable error is, but without another replica only a repaired disk helps."""
_REPORTED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})


class FetchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Names and defaults are those of consumer-client A1."""

    reset: OffsetReset = OffsetReset.LATEST
    min_bytes: int = 1
    max_wait_ms: int = 500
    max_bytes: int = 52_428_800
    partition_max_bytes: int = 1_048_576
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


class ConsumerRecord(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class _Sent(msgspec.Struct, frozen=True):
    message: Message
    node: NodeAddress | None
    asked: dict[TopicPartition, int]
    deadline_ms: int


class _Chunk(msgspec.Struct):
    """Records of one partition, from one answer, not handed out yet."""

    partition: TopicPartition
    offset: int
    next_offset: int
    records: deque[Record]
    error: MusterError | None = None


class Fetcher:
    """Keeps one chunk of records ready for each partition of a `Subscription`."""

    def __init__(self, subscription: Subscription, settings: FetchSettings) -> None:
        self._subscription = subscription
        self._settings = settings
        self._leaders: dict[TopicPartition, NodeAddress] = {}
        self._chunks: deque[_Chunk] = deque()
        self._errors: deque[MusterError] = deque()
        self._sent: dict[int, _Sent] = {}
        self._calls_made = 0
        self._metadata_at_ms = 0
        self._metadata_failures = 0
        self._now_ms = 0
        self._effects: list[Effect] = []

    def step(self, event: MemberEvent, now_ms: int) -> list[Effect]:
        """Take in an answer, or just the time (`Woke`); ask for what is wanted next."""
        self._now_ms = max(now_ms, self._now_ms)
        if isinstance(event, Replied | CallFailed):
            sent = self._sent.pop(event.call, None)
            if sent is not None:
                self._hear(sent, event.reply if isinstance(event, Replied) else None)
        for number, sent in tuple(self._sent.items()):
            if sent.deadline_ms <= self._now_ms:
                del self._sent[number]
                self._effects.append(HangUp(sent.node))
                self._hear(sent, None)
        self._plan()
        effects, self._effects = self._effects, []
        return effects

    @property
    def next_deadline_ms(self) -> int | None:
        return min(self._deadlines(), default=None)

    @property
    def has_something(self) -> bool:
        """Whether `take` has records to give, or an error to raise."""
        return bool(self._chunks or self._errors)

    def take(self, max_records: int) -> list[ConsumerRecord]:
        """Hand out records and move the positions past them. Raises what a partition's answer said, once nothing is
        left to hand out before it.
        """
        taken: list[ConsumerRecord] = []
        while self._chunks and len(taken) < max_records:
            chunk = self._chunks[0]
            position = self._subscription.at(chunk.partition)
            if position is None or position.offset != chunk.offset:
                self._chunks.popleft()  # taken away, or sought away from, meanwhile
            elif chunk.error is not None and not chunk.records:
                if not taken:
                    raise chunk.error
                break
            else:
                _hand_out(chunk, position, taken, max_records)
                if not chunk.records and chunk.error is None:
                    self._chunks.popleft()
        if not taken and self._errors:
            raise self._errors.popleft()
        return taken

    # -- asking

    def _plan(self) -> None:
        assigned = self._subscription.assigned
        unknown = sorted({one.topic for one in assigned if one not in self._leaders})
        if unknown and self._metadata_at_ms <= self._now_ms and not self._is_asking(Metadata):
            self._call(Metadata(tuple(MetadataTopic(name) for name in unknown)), None, {})
        busy = {(sent.node, type(sent.message)) for sent in self._sent.values()}
        buffered = {chunk.partition for chunk in self._chunks}
        fetches: dict[NodeAddress, dict[TopicPartition, int]] = {}
        resets: dict[NodeAddress, dict[TopicPartition, int]] = {}
        for one in assigned:
            position, node = self._subscription.at(one), self._leaders.get(one)
            if position is None or node is None or position.retry_at_ms > self._now_ms:
                continue
            if position.offset is not None and one not in buffered and (node, Fetch) not in busy:
                fetches.setdefault(node, {})[one] = position.offset
            elif position.reset is not None and (node, ListOffsets) not in busy:
                resets.setdefault(node, {})[one] = TIMESTAMPS[position.reset]
        for node, asked in resets.items():
            topics = _by_topic(asked)
            self._call(
                ListOffsets(
                    tuple(
                        ListOffsetsTopic(topic, tuple(ListOffsetsPartition(n, at) for n, at in ones.items()))
                        for topic, ones in topics.items()
                    )
                ),
                node,
                asked,
            )
        for node, asked in fetches.items():
            self._call(self._fetch(asked), node, asked)

    def _fetch(self, asked: dict[TopicPartition, int]) -> Fetch:
        settings = self._settings
        return Fetch(
            tuple(
                FetchTopic(
                    topic, tuple(FetchPartition(n, offset, settings.partition_max_bytes) for n, offset in ones.items())
                )
                for topic, ones in _by_topic(asked).items()
            ),
            settings.max_wait_ms,
            settings.min_bytes,
            settings.max_bytes,
        )

    def _call(self, message: Message, node: NodeAddress | None, asked: dict[TopicPartition, int]) -> None:
        self._calls_made += 1
        wait_ms = self._settings.max_wait_ms if isinstance(message, Fetch) else 0
        deadline_ms = self._now_ms + self._settings.request_timeout_ms + wait_ms
        self._sent[self._calls_made] = _Sent(message, node, asked, deadline_ms)
        self._effects.append(Call(self._calls_made, node, message))

    def _is_asking(self, kind: type[Message]) -> bool:
        return any(isinstance(sent.message, kind) for sent in self._sent.values())

    def _deadlines(self) -> Iterator[int]:
        for sent in self._sent.values():
            yield sent.deadline_ms
        for one in self._subscription.assigned:
            position = self._subscription.at(one)
            if position is not None and position.retry_at_ms > self._now_ms:
                yield position.retry_at_ms
            if one not in self._leaders and not self._is_asking(Metadata):
                yield self._metadata_at_ms

    # -- hearing

    def _hear(self, sent: _Sent, reply: Message | None) -> None:
        if isinstance(reply, MetadataReply):
            self._hear_metadata(reply)
        elif isinstance(reply, FetchReply) and reply.error_code == ErrorCode.NONE:
            for topic in reply.responses:
                for answer in topic.partitions:
                    self._hear_partition(sent, TopicPartition(topic.topic, answer.partition_index), answer)
        elif isinstance(reply, ListOffsetsReply):
            self._hear_offsets(sent, reply)
        elif isinstance(sent.message, Metadata):
            self._look_later()
            self._effects.append(HangUp(None))
        else:
            for one in sent.asked:
                self._doubt_leader(one)

    def _hear_metadata(self, reply: MetadataReply) -> None:
        nodes = {node.node_id: NodeAddress(node.host, node.port, node.node_id) for node in reply.brokers}
        for topic in reply.topics:
            for one in topic.partitions:
                if topic.name is not None and one.leader_id in nodes:
                    self._leaders[TopicPartition(topic.name, one.partition_index)] = nodes[one.leader_id]
        if all(one in self._leaders for one in self._subscription.assigned):
            self._metadata_failures = 0
        else:
            self._look_later()

    def _hear_partition(self, sent: _Sent, one: TopicPartition, answer: FetchPartitionReply) -> None:
        position, asked = self._subscription.at(one), sent.asked.get(one)
        if position is None or asked is None or position.offset != asked:
            return
        code = answer.error_code
        position.trouble = ErrorCode.NONE if code.retriable and code not in _LASTING else code
        if code == ErrorCode.NONE:
            position.failures = 0
            if answer.records:
                self._buffer(one, asked, answer.records)
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._reset(one, asked)
        elif code in _REPORTED:
            self._errors.append(Refused(code, f"{one} cannot be read: {code.name}"))
            self._retry_later(position)
        elif code.retriable:
            self._doubt_leader(one)
        else:
            self._retry_later(position)

    def _hear_offsets(self, sent: _Sent, reply: ListOffsetsReply) -> None:
        for topic in reply.topics:
            for answer in topic.partitions:
                one = TopicPartition(topic.name, answer.partition_index)
                position = self._subscription.at(one)
                if position is None or position.reset is None or sent.asked.get(one) != TIMESTAMPS[position.reset]:
                    continue
                if answer.error_code == ErrorCode.NONE and answer.offset >= 0:
                    self._subscription.seek(one, answer.offset)
                else:
                    self._doubt_leader(one)

    def _buffer(self, one: TopicPartition, asked: int, data: bytes) -> None:
        records: deque[Record] = deque()
        next_offset, error = asked, None
        try:
            for header, batch in batches(data):
                if not header.is_control and header.next_offset > asked:
                    check_batch(batch)
                    records.extend(record for record in decode_batch(batch) if record.offset >= asked)
                next_offset = max(next_offset, header.next_offset)
        except CorruptBatch as corrupt:
            error = CorruptRecords(f"{one} at offset {next_offset} cannot be read: {corrupt}; seek past it to go on")
        if next_offset > asked or error is not None:
            self._chunks.append(_Chunk(one, asked, next_offset, records, error))

    def _reset(self, one: TopicPartition, asked: int) -> None:
        if self._settings.reset is OffsetReset.NONE:
            sentence = f"offset {asked} of {one} is out of range, and auto_offset_reset is 'none': seek to go on"
            self._errors.append(OffsetOutOfRange(one, asked, sentence))
            position = self._subscription.at(one)
            if position is not None:
                self._retry_later(position)
        else:
            self._subscription.await_reset(one, self._settings.reset)

    def _doubt_leader(self, one: TopicPartition) -> None:
        """It may be elsewhere by now: look, and ask again after a pause."""
        self._leaders.pop(one, None)
        position = self._subscription.at(one)
        if position is not None:
            self._retry_later(position)

    def _retry_later(self, position: Position) -> None:
        position.retry_at_ms = self._now_ms + self._backoff_ms(position.failures)
        position.failures += 1

    def _look_later(self) -> None:
        self._metadata_at_ms = self._now_ms + self._backoff_ms(self._metadata_failures)
        self._metadata_failures += 1

    def _backoff_ms(self, failures: int) -> int:
        return min(self._settings.retry_backoff_max_ms, self._settings.retry_backoff_ms << min(failures, 30))


def _hand_out(chunk: _Chunk, position: Position, taken: list[ConsumerRecord], max_records: int) -> None:
    topic, partition = chunk.partition
    while chunk.records and len(taken) < max_records:
        record = chunk.records.popleft()
        taken.append(
            ConsumerRecord(
                topic, partition, record.offset, record.timestamp_ms, record.key, record.value, record.headers
            )
        )
        position.offset = chunk.offset = record.offset + 1
    if not chunk.records:
        position.offset = chunk.offset = chunk.next_offset  # past control and compacted records as well


def _by_topic(asked: dict[TopicPartition, int]) -> dict[str, dict[int, int]]:
    by_topic: dict[str, dict[int, int]] = {}
    for one in sorted(asked):
        by_topic.setdefault(one.topic, {})[one.partition] = asked[one]
    return by_topic
