"""The ownership registry: grants to read a partition for its group (docs/spec/consumer-client.md#E2)."""

from protocol.errors import ErrorCode
from protocol.messages import GroupId, Int32, Int64, Message, Text


class ClaimItem(Message):
    """Partition, and the thread of the member that will read it."""

    topic: Text
    partition: Int32
    thread: Int32


class ClaimPartitions(Message):
    """Claim partitions, all or none. Each must be assigned to the member and thread in this generation."""

    group_id: GroupId
    member_id: Text
    generation_id: Int32
    items: tuple[ClaimItem, ...]


class ClaimedPartition(Message):
    """Claimed partition. `owner`: the present owner if the error is OWNED. `committed_offset`: the offset at the time
    of the grant, -1 for none."""

    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    owner: str | None = None
    epoch: int = -1
    committed_offset: int = -1


class ClaimPartitionsReply(Message):
    """Reply to ClaimPartitions. `error_code` concerns the member or the group. If one item is refused, none is granted,
    and `items` has the code of each."""

    error_code: ErrorCode = ErrorCode.NONE
    items: tuple[ClaimedPartition, ...] = ()


class ReleaseItem(Message):
    """Partition to release, granted with this epoch."""

    topic: Text
    partition: Int32
    epoch: Int64


class ReleasePartitions(Message):
    """Release partitions, each with a result of its own; `all`: all that the member owns. The generation may be an
    older one."""

    group_id: GroupId
    member_id: Text
    generation_id: Int32 = -1
    items: tuple[ReleaseItem, ...] = ()
    all: bool = False


class ReleasedPartition(Message):
    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE


class ReleasePartitionsReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    items: tuple[ReleasedPartition, ...] = ()


class DescribeOwnership(Message):
    """Describe the owners of a group's partitions; None: of all topics."""

    group_id: GroupId
    topics: tuple[Text, ...] | None = None


class OwnedPartition(Message):
    """Partition with an owner. `since_ms`: wall time of the grant."""

    topic: str
    partition: int
    member_id: str
    thread: int
    generation_id: int
    epoch: int
    since_ms: int


class DescribeOwnershipReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    items: tuple[OwnedPartition, ...] = ()
