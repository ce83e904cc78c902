"""The ownership registry: who may read a partition for its group (docs/spec/consumer-client.md#E2)."""

from protocol.errors import ErrorCode
from protocol.messages import Int32, Int64, Message, Text


class ClaimItem(Message):
    """A partition, and the thread of the member that is to read it."""

    topic: Text
    partition: Int32
    thread: Int32 = 0


class ClaimPartitions(Message):
    """Own these, all or none. Each must be assigned to the member, and that thread, in this generation."""

    group_id: Text
    member_id: Text
    generation_id: Int32
    items: tuple[ClaimItem, ...]


class ClaimedPartition(Message):
    """`owner` names who has it when it is refused as OWNED. `committed_offset`, -1 for none, is that of the moment of
    the grant."""

    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    owner: str | None = None
    epoch: int = -1
    committed_offset: int = -1


class ClaimPartitionsReply(Message):
    """`error_code` is for the member or the group; a claim that any item refuses has the code of each item in `items`
    and grants none."""

    error_code: ErrorCode = ErrorCode.NONE
    items: tuple[ClaimedPartition, ...] = ()


class ReleaseItem(Message):
    """What is released must be the grant of this epoch."""

    topic: Text
    partition: Int32
    epoch: Int64


class ReleasePartitions(Message):
    """Own these no longer, each by itself; `all`: whatever the member owns. The generation may be an older one."""

    group_id: Text
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
    """Who owns what of a group; None: of all topics."""

    group_id: Text
    topics: tuple[Text, ...] | None = None


class OwnedPartition(Message):
    """`since_ms` is a wall clock's."""

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
