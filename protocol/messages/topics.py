"""Topics as metadata: which exist, how many partitions, who serves them."""

from protocol.errors import ErrorCode
from protocol.messages import Int32, Message, Text

NO_TOPIC_ID = bytes(16)


class MetadataTopic(Message):
    """Asked for by name, or by id when the name is None."""

    name: Text | None = None
    topic_id: bytes = NO_TOPIC_ID


class Metadata(Message):
    """`topics` None: all of them."""

    topics: tuple[MetadataTopic, ...] | None = None
    allow_auto_topic_creation: bool = False


class MetadataBroker(Message):
    node_id: int
    host: str
    port: int
    rack: str | None = None


class MetadataPartitionReply(Message):
    partition_index: int
    leader_id: int
    error_code: ErrorCode = ErrorCode.NONE
    leader_epoch: int = 0
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


class MetadataTopicReply(Message):
    name: str | None
    topic_id: bytes = NO_TOPIC_ID
    error_code: ErrorCode = ErrorCode.NONE
    is_internal: bool = False
    partitions: tuple[MetadataPartitionReply, ...] = ()


class MetadataReply(Message):
    brokers: tuple[MetadataBroker, ...] = ()
    cluster_id: str | None = None
    controller_id: int = -1
    topics: tuple[MetadataTopicReply, ...] = ()
    throttle_time_ms: int = 0


class TopicConfig(Message):
    name: Text
    value: Text | None = None


class CreatableTopic(Message):
    """`num_partitions` -1: the broker's default."""

    name: Text
    num_partitions: Int32 = -1
    replication_factor: Int32 = -1
    configs: tuple[TopicConfig, ...] = ()


class CreateTopics(Message):
    topics: tuple[CreatableTopic, ...]
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


class CreatedTopic(Message):
    name: str
    topic_id: bytes = NO_TOPIC_ID
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1


class CreateTopicsReply(Message):
    topics: tuple[CreatedTopic, ...] = ()
    throttle_time_ms: int = 0
