"""Records in and out: produce and fetch. `records` are whole batches in Kafka's v2 format, opaque here."""

from protocol.errors import ErrorCode
from protocol.messages import Int32, Int64, Message, Text
from protocol.messages.topics import NO_TOPIC_ID


class ProducePartition(Message):
    index: Int32
    records: bytes


class ProduceTopic(Message):
    name: Text
    partition_data: tuple[ProducePartition, ...]


class Produce(Message):
    """`acks` -1: answered when durable; 1: when appended; 0: never answered."""

    topic_data: tuple[ProduceTopic, ...]
    acks: Int32 = -1
    timeout_ms: Int32 = 30_000
    transactional_id: Text | None = None


class ProducePartitionReply(Message):
    index: int
    error_code: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


class ProduceTopicReply(Message):
    name: str
    partition_responses: tuple[ProducePartitionReply, ...]


class ProduceReply(Message):
    responses: tuple[ProduceTopicReply, ...] = ()
    throttle_time_ms: int = 0


class FetchPartition(Message):
    partition: Int32
    fetch_offset: Int64
    partition_max_bytes: Int32 = 1_048_576
    current_leader_epoch: Int32 = -1
    log_start_offset: Int64 = -1


class FetchTopic(Message):
    topic: Text
    partitions: tuple[FetchPartition, ...]
    topic_id: bytes = NO_TOPIC_ID


class Fetch(Message):
    """Long poll: answered when `min_bytes` are there, a partition has an error, or `max_wait_ms` are over."""

    topics: tuple[FetchTopic, ...]
    max_wait_ms: Int32 = 500
    min_bytes: Int32 = 1
    max_bytes: Int32 = 52_428_800
    isolation_level: Int32 = 0
    session_id: Int32 = 0
    session_epoch: Int32 = -1


class FetchPartitionReply(Message):
    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes = b""


class FetchTopicReply(Message):
    topic: str
    partitions: tuple[FetchPartitionReply, ...]
    topic_id: bytes = NO_TOPIC_ID


class FetchReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    responses: tuple[FetchTopicReply, ...] = ()
    session_id: int = 0
    throttle_time_ms: int = 0
