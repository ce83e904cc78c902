"""A rig for a producer's core: a clock, and some nodes that check sequences as brokers do."""

from dataclasses import dataclass, field
from typing import Any

from membership.events import CallFailed, HangUp, NodeAddress, Replied, SendRequest, TimePassed
from membership.topic_partition import TopicPartition
from muster.core.producing import NOT_KNOWN, Delivered, ProducerSettings, Producing, Undelivered
from muster.core.producing.batch import Pending
from muster.errors import MusterError
from partition_log.producers.expiration import ProducerExpiration
from partition_log.producers.producer_state import Producers, sequence_of
from partition_log.producers.sequence_check import SequenceRejection, validate_sequences
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import (
    InitProducerId,
    InitProducerIdReply,
    Produce,
    ProducePartitionReply,
    ProduceReply,
    ProduceTopicReply,
)
from protocol.messages.topics import (
    Metadata,
    MetadataBroker,
    MetadataPartitionReply,
    MetadataReply,
    MetadataTopicReply,
)
from protocol.record_batch import Record, check_batch, decode_batch, stamp

NODES = tuple(NodeAddress("host", port, port) for port in range(3))
P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


@dataclass(eq=False)
class Log:
    leader: int = 0
    records: list[Record] = field(default_factory=list)
    producers: Producers = field(default_factory=lambda: ProducerExpiration(100).new_producers())
    most_records: int = 1_000
    refusals: list[ErrorCode] = field(default_factory=list)

    def put(self, data: bytes) -> ProducePartitionReply:
        """Store a batch. `refusals` are returned first; REQUEST_TIMED_OUT is returned for a stored batch."""
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is None:
            return self._put(data)
        if refusal == ErrorCode.REQUEST_TIMED_OUT:
            self._put(data)
        return ProducePartitionReply(0, refusal)

    def _put(self, data: bytes) -> ProducePartitionReply:
        header = check_batch(data)
        if header.record_count > self.most_records:
            return ProducePartitionReply(0, ErrorCode.MESSAGE_TOO_LARGE)
        verdict = validate_sequences(self.producers, [data], len(self.records))
        if verdict is SequenceRejection.OLD_EPOCH:
            return ProducePartitionReply(0, ErrorCode.INVALID_PRODUCER_EPOCH)
        if isinstance(verdict, SequenceRejection):
            return ProducePartitionReply(0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        stored_at = verdict[0]
        if stored_at is None:
            stored_at = len(self.records)
            mark = sequence_of(data)
            if mark is not None:
                self.producers.appended(mark, stored_at)
            self.records += decode_batch(stamp(data, stored_at))
            assert len(self.records) == stored_at + header.record_count
        return ProducePartitionReply(0, ErrorCode.NONE, stored_at)

    @property
    def values(self) -> list[str]:
        return [(record.value or b"").decode() for record in self.records]


class Brokers:
    """Replies of the nodes. All share the same logs; only a partition's leader accepts its records."""

    def __init__(self, partitions: int) -> None:
        self.logs = {TopicPartition("t", number): Log() for number in range(partitions)}
        self.ids = 0
        self.has_ids = self.has_topic = True
        self.speaks = ""

    def answer(self, node: int, message: Message) -> Message:
        if isinstance(message, Metadata):
            return self.metadata(message)
        if isinstance(message, InitProducerId):
            if not self.has_ids:
                return InitProducerIdReply(ErrorCode.UNSUPPORTED_VERSION)
            self.ids += 1
            return InitProducerIdReply(producer_id=self.ids, producer_epoch=0)
        assert isinstance(message, Produce)
        return ProduceReply(
            tuple(
                ProduceTopicReply(
                    topic.name,
                    tuple(self._put(node, TopicPartition(topic.name, one.index), one.records) for one in parts),
                )
                for topic in message.topic_data
                for parts in [topic.partition_data]
            )
        )

    def _put(self, node: int, one: TopicPartition, data: bytes) -> ProducePartitionReply:
        log = self.logs[one]
        put = log.put(data) if log.leader == node else ProducePartitionReply(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return ProducePartitionReply(one.partition, put.error_code, put.base_offset, error_message=put.error_message)

    def metadata(self, message: Metadata) -> MetadataReply:
        partitions = tuple(MetadataPartitionReply(one.partition, log.leader) for one, log in self.logs.items())
        assert message.topics is not None
        return MetadataReply(
            tuple(MetadataBroker(node.node_id, node.host, node.port, speaks=self.speaks) for node in NODES),
            topics=tuple(
                MetadataTopicReply("t", partitions=partitions)
                if topic.name == "t" and self.has_topic
                else MetadataTopicReply(topic.name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for topic in message.topics
            ),
        )


class ProducerRig:
    """A producer's core. Requests wait in `calls` until the test answers them."""

    def __init__(self, partitions: int = 3, **settings: Any) -> None:
        self.brokers = Brokers(partitions)
        self.settings = ProducerSettings(**settings)
        self.core = Producing(self.settings)
        self.now_ms = 0
        self.calls: dict[int, SendRequest] = {}
        self.hung_up: list[NodeAddress | None] = []
        self.offsets: dict[object, int] = {}
        self.errors: dict[object, MusterError] = {}
        self.told: list[object] = []

    def feed(self, event: Any) -> "ProducerRig":
        for effect in self.core.step(event, self.now_ms):
            if isinstance(effect, SendRequest):
                self.calls[effect.call] = effect
            elif isinstance(effect, HangUp):
                self.hung_up.append(effect.node)
            elif isinstance(effect, Delivered):
                self.told += effect.handles
                for place, handle in enumerate(effect.handles):
                    assert handle not in self.offsets
                    self.offsets[handle] = effect.base_offset + place if effect.base_offset >= 0 else -1
            else:
                assert isinstance(effect, Undelivered)
                self.told += effect.handles
                self.errors.update(dict.fromkeys(effect.handles, effect.error))
        return self

    def wake(self, after_ms: int = 0) -> "ProducerRig":
        self.now_ms += after_ms
        return self.feed(TimePassed())

    def ready(self) -> "ProducerRig":
        """Get the leaders and the producer's id."""
        assert self.core.append("t", 0, Pending(None, b"", (), 0, None), self.now_ms) == NOT_KNOWN
        return self.wake().answer(Metadata)

    def send(
        self, *values: str, partition: int | None = 0, key: bytes | None = None, headers: Any = (), at_ms: int = 7
    ) -> list[int]:
        """Send values, each of which is its own handle; return their partitions."""
        placed = []
        for value in values:
            record = Pending(key, value.encode(), headers, at_ms, value)
            number = self.core.append("t", partition, record, self.now_ms)
            assert number >= 0, "not taken"
            placed.append(number)
        return placed

    def flush(self) -> "ProducerRig":
        self.core.close_batches()
        self.wake()
        if any(isinstance(call.message, InitProducerId) for call in self.calls.values()):
            self.answer(InitProducerId)
        return self

    def waiting(self, kind: type[Message] = Produce) -> list[SendRequest]:
        return [call for call in self.calls.values() if isinstance(call.message, kind)]

    def take(self, kind: type[Message], place: int = 0) -> SendRequest:
        return self.calls.pop(self.waiting(kind)[place].call)

    def answer(self, kind: type[Message] = Produce, place: int = 0) -> "ProducerRig":
        """Answer as the node would."""
        call = self.take(kind, place)
        node = 0 if call.node is None else call.node.port
        return self.feed(Replied(call.call, self.brokers.answer(node, call.message)))

    def lose(self, place: int = 0, *, stored: bool) -> "ProducerRig":
        """Lose the connection before the reply, or before the request has arrived."""
        call = self.take(Produce, place)
        assert call.node is not None
        if stored:
            self.brokers.answer(call.node.port, call.message)
        return self.feed(CallFailed(call.call))

    def refuse(self, code: ErrorCode, place: int = 0, sentence: str | None = None) -> "ProducerRig":
        call = self.take(Produce, place)
        assert isinstance(call.message, Produce)
        return self.feed(
            Replied(
                call.call,
                ProduceReply(
                    tuple(
                        ProduceTopicReply(
                            topic.name,
                            tuple(
                                ProducePartitionReply(one.index, code, error_message=sentence)
                                for one in topic.partition_data
                            ),
                        )
                        for topic in call.message.topic_data
                    )
                ),
            )
        )

    def settle(self, rounds: int = 2_000) -> "ProducerRig":
        """Answer everything as nodes would, and let time pass, until nothing is pending."""
        for _ in range(rounds):
            while self.calls:
                self.answer(type(next(iter(self.calls.values())).message))
            due_ms = self.core.next_deadline_ms
            if due_ms is None:
                return self
            self.wake(max(0, due_ms - self.now_ms))
        raise AssertionError("it never comes to rest")

    def values(self, partition: int = 0) -> list[str]:
        return self.brokers.logs[TopicPartition("t", partition)].values


def batches(call: SendRequest) -> dict[int, tuple[int, int, int]]:
    """Return epoch, first sequence and number of records of each partition."""
    assert isinstance(call.message, Produce)
    found = {}
    for topic in call.message.topic_data:
        for one in topic.partition_data:
            header = check_batch(one.records)
            found[one.index] = (header.producer_epoch, header.base_sequence, header.record_count)
    return found
