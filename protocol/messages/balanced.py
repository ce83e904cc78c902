"""Client-balanced groups: members choose their partitions, the coordinator checks, records and reports
(docs/spec/client-balanced-groups.md#15.1).

`key` is a PartitionKey, `brokerId:topic:partitionId`. Calls with items are carried out item by item; the
`error_code` of a reply is for the member or the group.
"""

from protocol.errors import ErrorCode
from protocol.messages import Int32, Int64, Message, Millis, Text

SOURCE_COUNT_OFF = -1
FROM_STORED = -1


class HeldKey(Message):
    """What a member that joins again still holds. `position`: the offset after what it has confirmed; -1: it does not
    say, and goes on at the stored one."""

    key: Text
    reg_epoch: Int64
    position: Int64 = -1


class StartMember(Message):
    """Become, or stay, a member. A negative `source_count`: that check is off, and `node_id` is ignored. `attempt`
    counts the requests of this kind that the object has sent, from 1: one that comes late, on a connection given up
    long ago, is known by it and changes nothing. Without it (0) a member also keeps what it owns and does not name in
    `held`."""

    group_id: Text
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


class GrantedKey(Message):
    """`position` is the next offset, `begin` and `end` those of the partition."""

    key: str
    reg_epoch: int
    position: int
    begin: int
    end: int


class LostKey(Message):
    """A key that the member does not own, or no longer, and why."""

    key: str
    error_code: ErrorCode


class PartitionState(Message):
    """A configured partition. `reason` says why it is not subscribable."""

    key: str
    subscribable: bool
    reason: str | None = None


class StartMemberReply(Message):
    """`error_message` is for people: it names who or what stands against it."""

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
    """`offset`: the position after what was consumed, if anything was; None: after the batch that was fetched last."""

    key: Text
    reg_epoch: Int64
    consumed: bool = False
    offset: Int64 | None = None


class MemberHeartbeat(Message):
    """`owned` is the complete report, None that it is as it was; `owned_version` counts its changes. `released`: what
    an unregistration that was never answered gave up. `ops_ack`: the last operator's wish carried out."""

    group_id: Text
    consumer_id: Text
    member_epoch: Int64
    owned_version: Int64 = 0
    owned: tuple[OwnedKey, ...] | None = None
    released: tuple[ReleasedKey, ...] = ()
    meta_version: Int64 = -1
    ops_ack: Int64 = 0


class MemberHeartbeatReply(Message):
    """`meta` is None when the member's version is the present one. `from_max_id`: go to the end of what is owned; 0:
    nothing is wanted."""

    error_code: ErrorCode = ErrorCode.NONE
    lost: tuple[LostKey, ...] = ()
    meta_version: int = -1
    meta: tuple[PartitionState, ...] | None = None
    from_max_id: int = 0


class PartitionMeta(Message):
    group_id: Text
    consumer_id: Text
    member_epoch: Int64
    meta_version: Int64 = -1


class PartitionMetaReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    meta_version: int = -1
    meta: tuple[PartitionState, ...] | None = None


class RegisterItem(Message):
    """`offset` -1: go on at the stored one. `position_policy` is one of `consume_position`; empty: the member's.
    `is_first`: this object was never granted the key."""

    key: Text
    offset: Int64 = FROM_STORED
    position_policy: Text = ""
    is_first: bool = True


class RegisterPartitions(Message):
    group_id: Text
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
    group_id: Text
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
    """`last_consumed`: the batch that was fetched before is done with (local confirmation), and `consumed_to` is the
    position after it; False leaves the position where it was. Without `consumed_to` (-1) the batch is the one that was
    handed out last, whoever got it: a request that comes late may have been answered to nobody."""

    key: Text
    reg_epoch: Int64
    last_consumed: bool = True
    max_bytes: Int32 = 1_048_576
    consumed_to: Int64 = -1


class FetchRegistered(Message):
    """The next records of owned partitions; waits for up to `max_wait_ms` while there are none of any."""

    group_id: Text
    consumer_id: Text
    member_epoch: Int64
    items: tuple[FetchItem, ...]
    max_wait_ms: Millis = 0


class FetchedPartition(Message):
    """`records` is record batches as stored: those before `position` are to be passed over. `wait_ms`: how long to let
    the partition be."""

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
    """`offset`: the position after what was consumed; None: after the batch that was fetched last."""

    key: Text
    reg_epoch: Int64
    consumed: bool = True
    offset: Int64 | None = None
    metadata: Text | None = None


class ConfirmConsumed(Message):
    group_id: Text
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
    group_id: Text
    consumer_id: Text
    member_epoch: Int64
    released: tuple[ReleasedKey, ...] = ()


class LeaveMemberReply(Message):
    error_code: ErrorCode = ErrorCode.NONE


class DescribeBalanced(Message):
    """None: all client-balanced groups."""

    groups: tuple[Text, ...] | None = None
    with_lag: bool = True


class BalancedPartition(Message):
    """A configured partition. `owner` is None where nobody reads it. -1 for what is not known."""

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


class BalancedMember(Message):
    """`claimed_mismatch`: keys of its last report that the registry says are not its."""

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
    members: tuple[BalancedMember, ...] = ()
    partitions: tuple[BalancedPartition, ...] = ()


class DescribeBalancedReply(Message):
    groups: tuple[BalancedGroupView, ...] = ()


class ConsumeFromMax(Message):
    """Let online client-balanced groups go to the end of what they own, once. `actor`: a remark for the journal, which
    keeps it beside where the request came from."""

    groups: tuple[Text, ...]
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
    """Pushed when grants of the member were taken: its lease was over, its instance is another's now, or the
    partitions are gone."""

    group_id: str
    member_id: str
    keys: tuple[str, ...]
    cause: str


class PartitionsChanged(Message):
    """Pushed when what a client-balanced group may read has changed: ask for it."""

    group_id: str
    topics: tuple[str, ...]
