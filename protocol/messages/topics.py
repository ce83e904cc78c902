"""Metadata of topics: names, ids, partitions and their leaders."""

from msgspec.structs import force_setattr

from protocol.errors import ErrorCode
from protocol.messages import Int16, Int32, Message, Text

NO_TOPIC_ID = bytes(16)
OPERATIONS_NOT_REQUESTED = -2147483648


class MetadataTopic(Message):
    """Requested topic, by name, or by id if the name is None. Java's client sends an empty name beside an id."""

    name: Text | None = None
    topic_id: bytes = NO_TOPIC_ID

    def __post_init__(self) -> None:
        if self.name == "" and self.topic_id != NO_TOPIC_ID:
            force_setattr(self, "name", None)


class Metadata(Message):
    """Request metadata. `topics` None: all topics."""

    topics: tuple[MetadataTopic, ...] | None = None
    allow_auto_topic_creation: bool = False
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class MetadataBroker(Message):
    """Address of a broker. `speaks`: its dialect; empty for this connection's; "kafka" for a broker of the cluster
    behind musterd, which has records and no groups. Kafka's protocol has no such field.
    """

    node_id: int
    host: str
    port: int
    rack: str | None = None
    speaks: str = ""


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
    topic_authorized_operations: int = OPERATIONS_NOT_REQUESTED


class MetadataReply(Message):
    brokers: tuple[MetadataBroker, ...] = ()
    cluster_id: str | None = None
    controller_id: int = -1
    topics: tuple[MetadataTopicReply, ...] = ()
    throttle_time_ms: int = 0
    cluster_authorized_operations: int = OPERATIONS_NOT_REQUESTED
    error_code: ErrorCode = ErrorCode.NONE


class TopicConfig(Message):
    name: Text
    value: Text | None = None


class ReplicaAssignment(Message):
    """Brokers that hold a partition."""

    partition_index: Int32
    broker_ids: tuple[Int32, ...]


class CreatableTopic(Message):
    """Topic to create. `num_partitions` -1: the broker's default, or as many as `assignments` names."""

    name: Text
    num_partitions: Int32 = -1
    replication_factor: Int16 = -1
    configs: tuple[TopicConfig, ...] = ()
    assignments: tuple[ReplicaAssignment, ...] = ()


class CreateTopics(Message):
    topics: tuple[CreatableTopic, ...]
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


class CreatedTopicConfig(Message):
    """Setting of a created topic. `config_source`: see `protocol.messages.configs`."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


class CreatedTopic(Message):
    """Created topic. `configs`: all settings that apply, the topic's and the node's; None if they are not sent."""

    name: str
    topic_id: bytes = NO_TOPIC_ID
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatedTopicConfig, ...] | None = None


class CreateTopicsReply(Message):
    topics: tuple[CreatedTopic, ...] = ()
    throttle_time_ms: int = 0


class DeletableTopic(Message):
    """Topic to delete, by name, or by id if the name is None."""

    name: Text | None = None
    topic_id: bytes = NO_TOPIC_ID


class DeleteTopics(Message):
    topics: tuple[DeletableTopic, ...]
    timeout_ms: Int32 = 60_000


class DeletedTopic(Message):
    name: str | None
    topic_id: bytes = NO_TOPIC_ID
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class DeleteTopicsReply(Message):
    responses: tuple[DeletedTopic, ...] = ()
    throttle_time_ms: int = 0


class PartitionAssignment(Message):
    broker_ids: tuple[Int32, ...]


class GrowingTopic(Message):
    """Topic that gets more partitions: `count` in all. `assignments` None: the node's choice."""

    name: Text
    count: Int32
    assignments: tuple[PartitionAssignment, ...] | None = None


class CreatePartitions(Message):
    topics: tuple[GrowingTopic, ...]
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


class GrownTopic(Message):
    name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class CreatePartitionsReply(Message):
    results: tuple[GrownTopic, ...] = ()
    throttle_time_ms: int = 0


class NamedTopic(Message):
    name: Text


class TopicCursor(Message):
    """Position in the description of topics: the first partition not yet described."""

    topic_name: Text
    partition_index: Int32


class DescribeTopicPartitions(Message):
    """Describe topics in pages (KIP-966). No `topics`: all of them."""

    topics: tuple[NamedTopic, ...] = ()
    response_partition_limit: Int32 = 2_000
    cursor: TopicCursor | None = None


class DescribedPartition(Message):
    partition_index: int
    leader_id: int
    error_code: ErrorCode = ErrorCode.NONE
    leader_epoch: int = 0
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] = ()


class DescribedTopic(Message):
    name: str | None
    topic_id: bytes = NO_TOPIC_ID
    error_code: ErrorCode = ErrorCode.NONE
    is_internal: bool = False
    partitions: tuple[DescribedPartition, ...] = ()
    topic_authorized_operations: int = OPERATIONS_NOT_REQUESTED


class DescribeTopicPartitionsReply(Message):
    topics: tuple[DescribedTopic, ...] = ()
    next_cursor: TopicCursor | None = None
    throttle_time_ms: int = 0
