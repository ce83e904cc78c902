"""Committed offsets (docs/spec/group-protocol.md#2.5 to #2.7 and #4)."""

from protocol.errors import ErrorCode
from protocol.messages import GroupId, Int8, Int16, Int32, Int64, Message, Millis, Text
from protocol.messages.topics import NO_TOPIC_ID


class OffsetCommitPartition(Message):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    committed_metadata: str | None = None
    commit_timestamp_ms: Millis = -1
    owner_epoch: Int64 = -1


class OffsetCommitTopic(Message):
    """Offsets of a topic, given by name, or by id if the name is empty, as in all messages below."""

    name: Text
    partitions: tuple[OffsetCommitPartition, ...]
    topic_id: bytes = NO_TOPIC_ID


class OffsetCommit(Message):
    """Commit offsets. `generation_id` is the member's epoch in a group that the coordinator balances; its members'
    requests without support for such epochs (`knows_member_epochs`) are refused. `retention_time_ms` -1: the broker's.
    `absent_group_error`: the error for a generation >= 0 on an absent group."""

    group_id: GroupId
    topics: tuple[OffsetCommitTopic, ...]
    generation_id: Int32 = -1
    member_id: Text = ""
    group_instance_id: Text | None = None
    retention_time_ms: Millis = -1
    absent_group_error: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND
    knows_member_epochs: bool = True


class OffsetCommitPartitionReply(Message):
    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE


class OffsetCommitTopicReply(Message):
    name: str
    partitions: tuple[OffsetCommitPartitionReply, ...]
    topic_id: bytes = NO_TOPIC_ID


class OffsetCommitReply(Message):
    topics: tuple[OffsetCommitTopicReply, ...] = ()
    throttle_time_ms: int = 0


class ListGroupOffsets(Message):
    """Request the offsets that the lag of these groups includes; groups that are not served here are omitted."""

    groups: tuple[GroupId, ...]


class GroupOffsets(Message):
    """Committed offsets by topic and partition. Topics without a commit are included if their partitions are assigned
    to a member, or configured for a client-balanced group. `in_order` has the topics of which partitions 0, 1, 2 and
    so on have a commit, and no others: a tuple takes half the time of a dictionary."""

    group_id: str
    members: int
    topics: dict[str, dict[int, int]]
    in_order: dict[str, tuple[int, ...]] = {}


class ListGroupOffsetsReply(Message):
    groups: tuple[GroupOffsets, ...] = ()


class EndSample(Message):
    """Committed offsets of a group in a topic at a wall time, and the ends of the logs, both by partition."""

    wall_ms: int
    group_id: str
    topic: str
    offsets: dict[int, int]
    ends: dict[int, int]


class ListEndSamples(Message):
    """Request a page of the samples that the node has written: from a position, or from a wall time if the position is
    -1."""

    position: Int64 = -1
    since_ms: Int64 = 0


class ListEndSamplesReply(Message):
    """Samples by time. `has_more`: repeat the request from `position`."""

    error_code: ErrorCode = ErrorCode.NONE
    samples: tuple[EndSample, ...] = ()
    position: int = -1
    has_more: bool = False


class OffsetFetchTopic(Message):
    name: Text
    partition_indexes: tuple[Int32, ...]
    topic_id: bytes = NO_TOPIC_ID


class OffsetFetchGroup(Message):
    """Group whose offsets are requested. `topics` None: all partitions with an offset. `wants_topic_ids`: the reply
    names topics by id, and omits topics without one (version 10). `with_origins`: include the sender of each commit."""

    group_id: GroupId
    topics: tuple[OffsetFetchTopic, ...] | None = None
    member_id: Text | None = None
    member_epoch: Int32 = -1
    wants_topic_ids: bool = False
    with_origins: bool = False


class OffsetFetch(Message):
    groups: tuple[OffsetFetchGroup, ...]
    require_stable: bool = False


class OffsetFetchPartitionReply(Message):
    partition_index: int
    committed_offset: int = -1
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: ErrorCode = ErrorCode.NONE
    commit_timestamp_ms: int = -1


class CommitOrigin(Message):
    """Sender of a partition's last commit, and the offset before it (-1: none). A sender that is not a member has no
    `member_id`. `repeated_since_ms`: wall time of the first commit of this offset if later ones repeated it, else
    -1."""

    partition_index: int
    previous_offset: int
    member_id: str = ""
    generation_id: int = -1
    client_id: str = ""
    client_host: str = ""
    client_port: int = -1
    principal: str = ""
    repeated_since_ms: int = -1
    certificate: str = ""


class OffsetFetchTopicReply(Message):
    name: str
    partitions: tuple[OffsetFetchPartitionReply, ...]
    topic_id: bytes = NO_TOPIC_ID
    origins: tuple[CommitOrigin, ...] = ()


class OffsetFetchGroupReply(Message):
    group_id: str
    topics: tuple[OffsetFetchTopicReply, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE


class OffsetFetchReply(Message):
    groups: tuple[OffsetFetchGroupReply, ...] = ()
    throttle_time_ms: int = 0


class OffsetDeleteTopic(Message):
    name: Text
    partition_indexes: tuple[Int32, ...]


class OffsetDelete(Message):
    group_id: GroupId
    topics: tuple[OffsetDeleteTopic, ...]


class OffsetDeletePartitionReply(Message):
    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE


class OffsetDeleteTopicReply(Message):
    name: str
    partitions: tuple[OffsetDeletePartitionReply, ...]


class OffsetDeleteReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    topics: tuple[OffsetDeleteTopicReply, ...] = ()
    throttle_time_ms: int = 0


class DescribeExpiry(Message):
    """Request the expiry of a group's offsets, or the reason why they are kept: `limit` partitions, at most 2,000,
    after the named one, by topic and partition."""

    group_id: GroupId
    limit: Int32 = 1_000
    after_topic: Text = ""
    after_partition: Int32 = -1


class ExpiringOffset(Message):
    """Expiry of an offset. `expires_ms`: the wall time from which the next run deletes it; -1 if it is kept, for the
    reason `kept_because`. `committed_offset` is -1 if only a transaction has an offset."""

    topic: str
    partition_index: int
    committed_offset: int = -1
    commit_timestamp_ms: int = -1
    expires_ms: int = -1
    kept_because: str = ""


class DescribeExpiryReply(Message):
    """Expiry of a group's offsets, in wall times. Only the first page fills the two fields of the group itself.
    `has_more`: repeat the request after the last of these."""

    error_code: ErrorCode = ErrorCode.NONE
    group_state: str = ""
    group_expires_ms: int = -1
    group_kept_because: str = ""
    next_run_ms: int = -1
    retention_ms: int = -1
    offsets: tuple[ExpiringOffset, ...] = ()
    has_more: bool = False


class ListOffsetsPartition(Message):
    """Requested offset. `timestamp`: -2 earliest, -1 latest, -3 the record with the largest timestamp; else the first
    record at or after it."""

    partition_index: Int32
    timestamp: Int64 = -1
    current_leader_epoch: Int32 = -1


class ListOffsetsTopic(Message):
    name: Text
    partitions: tuple[ListOffsetsPartition, ...]


class ListOffsets(Message):
    """Request offsets of partitions. `max_age_ms`: in front of a cluster, the age up to which known offsets are
    returned."""

    topics: tuple[ListOffsetsTopic, ...]
    isolation_level: Int8 = 0
    max_age_ms: Millis = 0


class ListOffsetsPartitionReply(Message):
    """Offset of a partition. `age_ms`: its largest possible age; -1 for an embedded topic, whose offsets are
    current."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1
    age_ms: int = -1


class ListOffsetsTopicReply(Message):
    name: str
    partitions: tuple[ListOffsetsPartitionReply, ...]


class ListOffsetsReply(Message):
    topics: tuple[ListOffsetsTopicReply, ...] = ()
    throttle_time_ms: int = 0


class TxnOffsetCommitPartition(Message):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    committed_metadata: str | None = None


class TxnOffsetCommitTopic(Message):
    name: Text
    partitions: tuple[TxnOffsetCommitPartition, ...]
    topic_id: bytes = NO_TOPIC_ID


class TxnOffsetCommit(Message):
    """Offsets that count once the producer's transaction is committed (docs/spec/group-protocol.md#4.3)."""

    transactional_id: Text
    group_id: GroupId
    producer_id: Int64
    producer_epoch: Int16
    topics: tuple[TxnOffsetCommitTopic, ...]
    generation_id: Int32 = -1
    member_id: Text = ""
    group_instance_id: Text | None = None
    absent_group_error: ErrorCode = ErrorCode.ILLEGAL_GENERATION


class TxnOffsetCommitReply(Message):
    topics: tuple[OffsetCommitTopicReply, ...] = ()
    throttle_time_ms: int = 0


class EndTransaction(Message):
    """End a producer's transaction in one partition of the offsets log, by its marker, as a transaction coordinator
    does (Kafka's WriteTxnMarkers)."""

    producer_id: Int64
    producer_epoch: Int16
    is_committed: bool
    partition_index: Int32
    coordinator_epoch: Int32 = 0


class EndTransactionReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
