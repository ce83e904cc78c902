"""Produce and fetch. `records` are whole batches in Kafka's v2 format, opaque here."""

from protocol.errors import ErrorCode
from protocol.messages import Int8, Int16, Int32, Int64, Message, Text
from protocol.messages.topics import NO_TOPIC_ID


class ProducePartition(Message):
    index: Int32
    records: bytes


class ProduceTopic(Message):
    """Records for a topic, given by name, or by id if the name is empty."""

    name: Text
    partition_data: tuple[ProducePartition, ...]
    topic_id: bytes = NO_TOPIC_ID


class Produce(Message):
    """Append records. `acks` -1: answered when durable; 1: when appended; 0: never answered."""

    topic_data: tuple[ProduceTopic, ...]
    acks: Int16 = -1
    timeout_ms: Int32 = 30_000
    transactional_id: Text | None = None


class RecordError(Message):
    """Record of a batch that was rejected, and the reason."""

    batch_index: int
    batch_index_error_message: str | None = None


class ProducePartitionReply(Message):
    index: int
    error_code: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: tuple[RecordError, ...] = ()


class ProduceTopicReply(Message):
    name: str
    partition_responses: tuple[ProducePartitionReply, ...]
    topic_id: bytes = NO_TOPIC_ID


class ProduceReply(Message):
    responses: tuple[ProduceTopicReply, ...] = ()
    throttle_time_ms: int = 0


class FetchPartition(Message):
    partition: Int32
    fetch_offset: Int64
    partition_max_bytes: Int32 = 1_048_576
    current_leader_epoch: Int32 = -1
    log_start_offset: Int64 = -1
    owner_epoch: Int64 = -1


class FetchTopic(Message):
    topic: Text
    partitions: tuple[FetchPartition, ...]
    topic_id: bytes = NO_TOPIC_ID


class ForgottenTopic(Message):
    """Partitions removed from a fetch session."""

    topic: Text
    partitions: tuple[Int32, ...]
    topic_id: bytes = NO_TOPIC_ID


class Fetch(Message):
    """Long poll for records, answered when `min_bytes` are available, a partition has an error, or `max_wait_ms` have
    passed. `rack_id`: the reader's rack (KIP-392). A partition with an `owner_epoch` is read only while that grant of
    the ownership registry is in force (docs/spec/consumer-client.md#E2)."""

    topics: tuple[FetchTopic, ...]
    max_wait_ms: Int32 = 500
    min_bytes: Int32 = 1
    max_bytes: Int32 = 52_428_800
    isolation_level: Int8 = 0
    session_id: Int32 = 0
    session_epoch: Int32 = -1
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()
    rack_id: Text = ""
    group_id: Text = ""
    member_id: Text = ""


class AbortedTransaction(Message):
    producer_id: int
    first_offset: int


class FetchPartitionReply(Message):
    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    preferred_read_replica: int = -1


class FetchTopicReply(Message):
    topic: str
    partitions: tuple[FetchPartitionReply, ...]
    topic_id: bytes = NO_TOPIC_ID


class FetchReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    responses: tuple[FetchTopicReply, ...] = ()
    session_id: int = 0
    throttle_time_ms: int = 0


class InitProducerId(Message):
    """Get an id for an idempotent producer, or a new epoch for its present id (KIP-360)."""

    transactional_id: Text | None = None
    transaction_timeout_ms: Int32 = 60_000
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1


class InitProducerIdReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    producer_id: int = -1
    producer_epoch: int = -1
    throttle_time_ms: int = 0


class EpochPartition(Message):
    partition: Int32
    leader_epoch: Int32
    current_leader_epoch: Int32 = -1


class EpochTopic(Message):
    topic: Text
    partitions: tuple[EpochPartition, ...]


class OffsetForLeaderEpoch(Message):
    """Request the end offsets of leader epochs, with which consumers validate their positions after a change of leaders
    (KIP-320)."""

    topics: tuple[EpochTopic, ...]


class EpochEndOffset(Message):
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    leader_epoch: int = -1
    end_offset: int = -1


class EpochTopicReply(Message):
    topic: str
    partitions: tuple[EpochEndOffset, ...]


class OffsetForLeaderEpochReply(Message):
    topics: tuple[EpochTopicReply, ...] = ()
    throttle_time_ms: int = 0
