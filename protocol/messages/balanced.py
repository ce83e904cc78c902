"""Client-balanced groups: members choose their partitions, the coordinator checks, records and reports
(docs/spec/client-balanced-groups.md#15.1).

`key` is a PartitionKey, `brokerId:topic:partitionId`. Requests with items are carried out item by item; the
`error_code` of a reply concerns the member or the group.
"""

from protocol.errors import ErrorCode
from protocol.messages import GroupId, Int32, Int64, Message, Millis, Text

SOURCE_COUNT_OFF = -1
CLIENT_MODE, SERVER_MODE = "client", "server"
NO_ASSIGNMENT = 0
FROM_STORED = -1
CLIENT_BALANCED, SERVER_BALANCED = "client-balanced", "server-balanced"
BALANCED_TYPES = (CLIENT_BALANCED, SERVER_BALANCED)
"""Types of groups whose members register their partitions: chosen by themselves, or assigned to them."""


class HeldKey(Message):
    """Key that a rejoining member still holds. `position`: the offset after the last confirmed one; -1: the stored
    position is used."""

    key: Text
    reg_epoch: Int64
    position: Int64 = -1


class StartMember(Message):
    """Become a member, or stay one. A negative `source_count` disables that check, and `node_id` is ignored. `attempt`
    counts the client's requests of this kind from 1, so that a late one, from an old connection, is recognized and has
    no effect. Without it (0) a member also keeps keys that it owns and does not name in `held`. `mode`: `client`, the
    members choose their partitions, or `server`, the coordinator assigns them."""

    group_id: GroupId
    consumer_id: Text
    topics: tuple[Text, ...]
    filters: dict[Text, tuple[Text, ...]] = {}
    instance_id: Text | None = None
    source_count: Int32 = SOURCE_COUNT_OFF
    node_id: Int32 = -1
    consume_position: Text = "latest"
    session_timeout_ms: Int32 = 30_000
    held: tuple[HeldKey, ...] = ()
    meta_version: Int64 = -1
    attempt: Int64 = 0
    mode: Text = CLIENT_MODE


class GrantedKey(Message):
    """Granted key. `position`: the next offset to read; `begin` and `end`: offsets of the partition."""

    key: str
    reg_epoch: int
    position: int
    begin: int
    end: int


class LostKey(Message):
    """Key that the member does not own, or no longer, and the reason."""

    key: str
    error_code: ErrorCode


class PartitionState(Message):
    """State of a configured partition. `reason` says why it is not subscribable."""

    key: str
    subscribable: bool
    reason: str | None = None


class StartMemberReply(Message):
    """Reply to StartMember. `error_message` is for people: it names the member or setting that conflicts."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    member_epoch: int = -1
    session_timeout_ms: int = -1
    heartbeat_ms: int = -1
    granted: tuple[GrantedKey, ...] = ()
    lost: tuple[LostKey, ...] = ()
    meta_version: int = -1


class OwnedKey(Message):
    key: Text
    reg_epoch: Int64
    position: Int64 = -1


class ReleasedKey(Message):
    """Released key. `offset`: the position after the consumed records, if any; None: after the last fetched batch."""

    key: Text
    reg_epoch: Int64
    consumed: bool = False
    offset: Int64 | None = None


class MemberHeartbeat(Message):
    """Heartbeat of a member. `owned`: the complete report; None: unchanged; `owned_version` counts its changes.
    `released`: keys of an unanswered unregistration. `ops_ack`: the last of the operator's orders that was carried out.
    `assignment_id`: the assignment that the member has carried out, in a server-balanced group; 0: none, or not all of
    it."""

    group_id: GroupId
    consumer_id: Text
    member_epoch: Int64
    owned_version: Int64 = 0
    owned: tuple[OwnedKey, ...] | None = None
    released: tuple[ReleasedKey, ...] = ()
    meta_version: Int64 = -1
    ops_ack: Int64 = 0
    assignment_id: Int64 = NO_ASSIGNMENT


class MemberHeartbeatReply(Message):
    """Reply to a heartbeat. `meta` is None if the member's version is current. `from_max_id`: order to seek to the end
    of all owned partitions; 0: none. `assignment`: keys that a member of a server-balanced group must register,
    releasing all others. None: the member's assignment is current, or there is none yet."""

    error_code: ErrorCode = ErrorCode.NONE
    lost: tuple[LostKey, ...] = ()
    meta_version: int = -1
    meta: tuple[PartitionState, ...] | None = None
    from_max_id: int = 0
    assignment_id: int = NO_ASSIGNMENT
    assignment: tuple[str, ...] | None = None


class PartitionMeta(Message):
    group_id: GroupId
    consumer_id: Text
    member_epoch: Int64
    meta_version: Int64 = -1


class PartitionMetaReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    meta_version: int = -1
    meta: tuple[PartitionState, ...] | None = None


class RegisterItem(Message):
    """Key to register. `offset` -1: start at the stored offset. `position_policy`: a value of `consume_position`;
    empty: the member's. `is_first`: the client was never granted the key."""

    key: Text
    offset: Int64 = FROM_STORED
    position_policy: Text = ""
    is_first: bool = True


class RegisterPartitions(Message):
    group_id: GroupId
    consumer_id: Text
    member_epoch: Int64
    items: tuple[RegisterItem, ...]


class RegisteredPartition(Message):
    key: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    owner: str | None = None
    reg_epoch: int = -1
    position: int = -1
    begin: int = -1
    end: int = -1


class RegisterPartitionsReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    items: tuple[RegisteredPartition, ...] = ()


class UnregisterPartitions(Message):
    group_id: GroupId
    consumer_id: Text
    member_epoch: Int64
    items: tuple[ReleasedKey, ...]


class UnregisteredPartition(Message):
    key: str
    error_code: ErrorCode = ErrorCode.NONE
    committed_offset: int = -1


class UnregisterPartitionsReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    items: tuple[UnregisteredPartition, ...] = ()


class FetchItem(Message):
    """Key to fetch. `last_consumed`: the last batch is consumed (local confirmation), and `consumed_to` is the position
    after it; False leaves the position. Without `consumed_to` (-1) the last batch sent counts, even if the client did
    not receive it."""

    key: Text
    reg_epoch: Int64
    last_consumed: bool = True
    max_bytes: Int32 = 1_048_576
    consumed_to: Int64 = -1


class FetchRegistered(Message):
    """Fetch the next records of owned partitions; waits for up to `max_wait_ms` if none of them has records."""

    group_id: GroupId
    consumer_id: Text
    member_epoch: Int64
    items: tuple[FetchItem, ...]
    max_wait_ms: Millis = 0


class FetchedPartition(Message):
    """Records of a partition. `records`: batches as stored; the client skips records before `position`. `wait_ms`: time
    until the next fetch of this partition."""

    key: str
    error_code: ErrorCode = ErrorCode.NONE
    wait_ms: int = 0
    position: int = -1
    end: int = -1
    records: bytes = b""


class FetchRegisteredReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    items: tuple[FetchedPartition, ...] = ()


class ConfirmItem(Message):
    """Key to confirm. `offset`: the position after the consumed records; None: after the last fetched batch."""

    key: Text
    reg_epoch: Int64
    consumed: bool = True
    offset: Int64 | None = None
    metadata: Text | None = None


class ConfirmConsumed(Message):
    group_id: GroupId
    consumer_id: Text
    member_epoch: Int64
    items: tuple[ConfirmItem, ...]


class ConfirmedPartition(Message):
    key: str
    error_code: ErrorCode = ErrorCode.NONE
    committed_offset: int = -1
    end: int = -1


class ConfirmConsumedReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    items: tuple[ConfirmedPartition, ...] = ()


class LeaveMember(Message):
    group_id: GroupId
    consumer_id: Text
    member_epoch: Int64
    released: tuple[ReleasedKey, ...] = ()


class LeaveMemberReply(Message):
    error_code: ErrorCode = ErrorCode.NONE


class DescribeBalanced(Message):
    """Describe client-balanced groups; None: all of them."""

    groups: tuple[GroupId, ...] | None = None
    with_lag: bool = True


class BalancedPartition(Message):
    """Description of a configured partition. `owner` is None while it is unowned. Unknown numbers are -1."""

    key: str
    subscribable: bool
    reason: str | None = None
    owner: str | None = None
    node_id: int | None = None
    reg_epoch: int = -1
    since_ms: int = -1
    committed: int = -1
    in_flight: int = -1
    end: int = -1
    lag: int | None = None


class BalancedMemberView(Message):
    """Description of a member. `claimed_mismatch`: keys of its last report that it does not own in the registry."""

    consumer_id: str
    instance_id: str | None
    host: str
    node_id: int | None
    source_count: int | None
    member_epoch: int
    session_timeout_ms: int
    last_heartbeat_ms_ago: int
    keys: tuple[str, ...] = ()
    reported: tuple[OwnedKey, ...] | None = None
    claimed_mismatch: tuple[str, ...] = ()


class BalancedGroupView(Message):
    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    state: str = ""
    topics: tuple[str, ...] = ()
    filters: dict[str, tuple[str, ...]] = {}
    source_count: int | None = None
    meta_version: int = -1
    members: tuple[BalancedMemberView, ...] = ()
    partitions: tuple[BalancedPartition, ...] = ()
    mode: str = CLIENT_MODE


class DescribeBalancedReply(Message):
    groups: tuple[BalancedGroupView, ...] = ()


class ConsumeFromMax(Message):
    """Order online client-balanced groups to seek to the end of their partitions, once. `actor`: a remark for the
    journal, kept with the request's origin."""

    groups: tuple[GroupId, ...]
    actor: Text = ""


class AcceptedGroup(Message):
    group_id: str
    from_max_id: int


class RefusedGroup(Message):
    group_id: str
    error_code: ErrorCode
    error_message: str = ""


class ConsumeFromMaxReply(Message):
    accepted: tuple[AcceptedGroup, ...] = ()
    refused: tuple[RefusedGroup, ...] = ()


class PartitionsLost(Message):
    """Pushed when the member lost grants: its lease expired, another member took its instance, or the partitions were
    deleted."""

    group_id: str
    member_id: str
    keys: tuple[str, ...]
    cause: str


class PartitionsChanged(Message):
    """Pushed when the partitions of a client-balanced group have changed; the member then asks for them."""

    group_id: str
    topics: tuple[str, ...]
