"""Members that read records, and producers."""

from collections import Counter
from random import Random
from typing import Any

from membership.events import CallFailed, Fatal, MemberEvent, Polled, Replied, SendRequest
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchReply,
    FetchTopic,
    InitProducerId,
    Produce,
    ProducePartition,
    ProduceTopic,
)
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic
from protocol.record_batch import batches, decode_batch, encode_batch
from tests.simulation.beside.port import Connect, Port
from tests.simulation.beside.watch import Watch
from tests.simulation.beside.wires import FETCH_BY_ID
from tests.simulation.errors import Broken
from tests.simulation.faults import Seen
from tests.simulation.members import SimMember
from tests.simulation.network import Clock
from tests.simulation.wires import Dialect

_PARTITION_BYTES = 2_000
_PRODUCE_MS, _RECORDS = 300, 5
_NEVER = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CORRUPT_MESSAGE)


class Reader(SimMember):
    """`records`: the dialect of the connection over which it reads. None: over its group's connection too. `is_beside`:
    a member at the node in front of the brokers, not at one of these."""

    def __init__(
        self, *given: Any, watch: Watch, records: tuple[Dialect, Connect] | None, is_beside: bool = True
    ) -> None:
        super().__init__(*given)
        self.port: Port | None = None
        self.fatal: ErrorCode | None = None
        self._watch, self._is_beside = watch, is_beside
        if records is not None:
            self.port = Port(f"{self.name} records", records[0], self._clock, records[1], self._told)
        self._versions = self.dialect.versions if records is None else records[0].versions
        self._data: Message | None = None
        self._data_call = 0
        self._positions: dict[TopicPartition, int] = {}
        self._ids: dict[str, bytes] = {}
        self._wait_ms = self._random.choice((0, 100, 600))

    def _act(self) -> None:
        if not self.running:
            if self.port is not None:
                self.port.close()
            return
        if self._clock.now_ms >= self.stalled_until_ms:
            self._read_on_data()
            if self._random.random() < self.traits.commits:
                self._commit()
            self._step(Polled())
        self._later()

    # --- records ---

    def _read_on_data(self) -> None:
        if self.port is not None:
            self.port.look()
        wanted = {
            partition: position
            for partition, position in self.held.items()
            if position is not None and partition not in self._being_released
        }
        if self._data is not None or not wanted:
            return
        self._positions = wanted
        self._data = message = self._question(wanted)
        if self.port is not None:
            self.port.ask(message)
        else:
            self._data_call -= 1
            self._call(SendRequest(self._data_call, None, message))

    def _question(self, wanted: dict[TopicPartition, int]) -> Message:
        topics = sorted({partition.topic for partition in wanted})
        is_by_id = self._versions[Fetch] >= FETCH_BY_ID
        if is_by_id and not self._ids.keys() >= set(topics):
            return Metadata(tuple(map(MetadataTopic, topics)))
        return Fetch(
            tuple(
                FetchTopic(
                    "" if is_by_id else topic,
                    tuple(
                        FetchPartition(one.partition, position, _PARTITION_BYTES)
                        for one, position in wanted.items()
                        if one.topic == topic
                    ),
                    self._ids[topic] if is_by_id else bytes(16),
                )
                for topic in topics
            ),
            max_wait_ms=self._wait_ms,
        )

    def _step(self, event: MemberEvent) -> None:
        if isinstance(event, Replied | CallFailed) and event.call < 0:
            if event.call == self._data_call:
                self._told(None, event.reply if isinstance(event, Replied) else None)
            return
        if isinstance(event, Replied) and isinstance(event.reply, MetadataReply):
            self._told_topology(event.reply)
        super()._step(event)

    def _told_topology(self, reply: MetadataReply) -> None:
        if self._is_beside and self.dialect.versions:
            self._watch.topology(reply)

    def _told(self, _message: Message | None, reply: Any) -> None:
        self._data = None
        if not self.running or reply is None or self._clock.now_ms < self.stalled_until_ms:
            return
        if isinstance(reply, MetadataReply):
            self._told_topology(reply)
            self._ids = {topic.name or "": topic.topic_id for topic in reply.topics if not topic.error_code}
        elif isinstance(reply, FetchReply):
            self._fetched(reply)

    def _fetched(self, reply: FetchReply) -> None:
        names = {topic_id: name for name, topic_id in self._ids.items()}
        for topic in reply.responses:
            for part in topic.partitions:
                partition = TopicPartition(topic.topic or names[topic.topic_id], part.partition_index)
                if part.error_code in _NEVER:
                    raise Broken(f"{self.name} reads {partition}: {part.error_code.name}")
                if part.error_code:
                    self._seen.add(f"fetches refused: {part.error_code.name}")
                    self._ids = {}
                elif self.held.get(partition, -1) == self._positions.get(partition):
                    self._read_records(partition, part.records)

    def _read_records(self, partition: TopicPartition, records: bytes) -> None:
        begin = position = self._positions[partition]
        if partition in self._being_released:
            return
        for _header, batch in batches(records):
            for record in decode_batch(bytes(batch)):
                if record.offset < position:
                    continue
                if record.offset != position:
                    raise Broken(f"{self.name} reads {partition}: {record.offset} comes where {position} is next")
                self._watch.told(partition, record.offset, record.value or b"")
                position += 1
        if position > begin:
            self._seen.add("records read", position - begin)
            self.held[partition] = position
            self._exchange.reads(self, partition, position)

    def _end(self, effect: Any) -> None:
        if isinstance(effect, Fatal):
            self.fatal = effect.error_code
        super()._end(effect)


class Producer:
    """Numbered records into all topics, one batch after another; idempotent or not."""

    def __init__(
        self, name: str, dialect: Dialect, clock: Clock, connect: Connect, watch: Watch, seen: Seen, random: Random
    ) -> None:
        self.is_stopped = False
        self.port = Port(name, dialect, clock, connect, self._heard)
        self.pending: tuple[TopicPartition, list[bytes], bytes] | None = None
        self._name, self._clock, self._watch, self._seen, self._random = name, clock, watch, seen, random
        self._is_idempotent = random.random() < 0.6
        self._producer = (-1, -1)
        self._sequences: Counter[TopicPartition] = Counter()
        self._number = 0
        self._places: list[TopicPartition] = []

    def start(self, places: list[TopicPartition]) -> None:
        self._places = places
        self._act()

    def _act(self) -> None:
        self._clock.after(int(_PRODUCE_MS * (0.3 + 1.4 * self._random.random())), self._act)
        self.port.look()
        if self.port.message is not None:
            return
        if self._is_idempotent and self._producer[0] < 0:
            self.port.ask(InitProducerId())
            return
        if self.pending is None and not self.is_stopped:
            self.pending = self._next()
        if self.pending is not None:
            partition, _values, batch = self.pending
            self.port.ask(Produce((ProduceTopic(partition.topic, (ProducePartition(partition.partition, batch),)),)))

    def _next(self) -> tuple[TopicPartition, list[bytes], bytes]:
        partition = self._random.choice(self._places)
        values = []
        for _ in range(self._random.randrange(1, _RECORDS)):
            self._number += 1
            values.append(f"{self._name} {self._number}".encode())
        producer_id, epoch = self._producer
        batch = encode_batch(
            [(None, value) for value in values],
            timestamp_ms=1,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences[partition] if self._is_idempotent else -1,
        )
        return partition, values, batch

    def _heard(self, message: Message, reply: Any) -> None:
        if reply is None:
            self._seen.add("produces without an answer", isinstance(message, Produce))
        elif isinstance(message, InitProducerId):
            if not reply.error_code:
                self._producer = reply.producer_id, reply.producer_epoch
        else:
            self._written(reply.responses[0].partition_responses[0])

    def _written(self, answer: Any) -> None:
        assert self.pending is not None
        partition, values, _batch = self.pending
        if not answer.error_code:
            self._watch.written(partition, answer.base_offset, values)
            self._seen.add("records written", len(values))
            self._sequences[partition] += len(values)
            self.pending = None
        elif answer.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self.pending = None  # it is made later
        elif answer.error_code.retriable:
            self._seen.add("produces refused")
        else:
            raise Broken(f"{self._name} writes {partition}: {answer.error_code.name}")
