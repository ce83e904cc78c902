"""Group membership: join, sync, heartbeat, leave, and administration of groups (docs/spec/group-protocol.md#2)."""

from protocol.errors import ErrorCode
from protocol.messages import GroupId, Int32, Int64, Message, Text

NO_GENERATION = -1
OPERATIONS_NOT_REQUESTED = -2147483648


class JoinProtocol(Message):
    """Assignor that a member supports, with its metadata, which is opaque to the coordinator."""

    name: Text
    metadata: bytes = b""


class JoinGroup(Message):
    """Become a member, or stay one. A negative `rebalance_timeout_ms` stands for the session timeout."""

    group_id: GroupId
    session_timeout_ms: Int32
    member_id: Text = ""
    protocol_type: Text = ""
    protocols: tuple[JoinProtocol, ...] = ()
    rebalance_timeout_ms: Int32 = -1
    group_instance_id: Text | None = None
    reason: Text | None = None
    wants_member_id_first: bool = True
    accepts_skip_assignment: bool = True


class JoinGroupMember(Message):
    """Member in the list that the leader gets."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupReply(Message):
    """Reply to JoinGroup. `members` is filled for the leader alone."""

    error_code: ErrorCode = ErrorCode.NONE
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinGroupMember, ...] = ()
    throttle_time_ms: int = 0


class SyncGroupAssignment(Message):
    """Assignment that the leader made for one member."""

    member_id: Text
    assignment: bytes


class SyncGroup(Message):
    """Ask for the assignment of a generation; the leader sends all members' assignments. `must_name_protocol`: version
    5 and newer."""

    group_id: GroupId
    generation_id: Int32
    member_id: Text
    group_instance_id: Text | None = None
    protocol_type: Text | None = None
    protocol_name: Text | None = None
    assignments: tuple[SyncGroupAssignment, ...] = ()
    must_name_protocol: bool = False


class SyncGroupReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""
    throttle_time_ms: int = 0


class Heartbeat(Message):
    group_id: GroupId
    generation_id: Int32
    member_id: Text
    group_instance_id: Text | None = None


class HeartbeatReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    throttle_time_ms: int = 0


class LeavingMember(Message):
    member_id: Text = ""
    group_instance_id: Text | None = None
    reason: Text | None = None


class LeaveGroup(Message):
    group_id: GroupId
    members: tuple[LeavingMember, ...] = ()


class LeftMember(Message):
    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode


class LeaveGroupReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    members: tuple[LeftMember, ...] = ()
    throttle_time_ms: int = 0


class DescribeGroups(Message):
    """Describe groups. `absent_is_error`: the newest version adds GROUP_ID_NOT_FOUND to the state Dead."""

    groups: tuple[GroupId, ...]
    include_authorized_operations: bool = False
    absent_is_error: bool = True


class DescribedMember(Message):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Message):
    """Description of a group. `generation_id` and the five fields behind it are not Kafka's, and left out on its wire.
    `shard`: the group's partition of `__consumer_offsets`, -1 if the group is not described."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    authorized_operations: int = OPERATIONS_NOT_REQUESTED
    generation_id: int = NO_GENERATION
    leader: str = ""
    rebalance_timeout_ms: int = 0
    state_since_ms: int = -1
    pending_members: int = 0
    shard: int = -1


class DescribeGroupsReply(Message):
    groups: tuple[DescribedGroup, ...] = ()
    throttle_time_ms: int = 0


class ListGroups(Message):
    """List groups, sorted by id. Empty filters match every group; `after` and `limit` ask for a page."""

    states_filter: tuple[Text, ...] = ()
    types_filter: tuple[Text, ...] = ()
    after: Text | None = None
    limit: int = -1


class ListedGroup(Message):
    group_id: str
    protocol_type: str
    group_state: str
    group_type: str = "classic"


class ListGroupsReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[ListedGroup, ...] = ()
    throttle_time_ms: int = 0


class DeleteGroups(Message):
    groups_names: tuple[GroupId, ...]


class DeletedGroup(Message):
    group_id: str
    error_code: ErrorCode


class DeleteGroupsReply(Message):
    results: tuple[DeletedGroup, ...] = ()
    throttle_time_ms: int = 0


class ListNotes(Message):
    """Ask for a group's journal, oldest first: `limit` notes after number `after`."""

    group_id: GroupId
    after: Int64 = -1
    limit: Int32 = 100


class ListedNote(Message):
    """Note of a group's journal. `number` counts the group's notes; `cause` is one of a fixed set, `detail` a sentence
    for people.

    `kind`: `rebalance` (begun), `completed`, `dropped` (members left out), `replaced` (a static member came back
    without a rebalance), `expired` (offsets, or the group, reached the end of their retention), `member` (a member of
    a client-balanced group joined, left or lost partitions), `admin`.

    Repeated events, as when two processes fence each other, make one note: it happened `times` times since `since_ms`,
    the last time at `wall_ms`. The note becomes the newest, with a new number, each time its count has doubled."""

    number: int
    generation_id: int
    cause: str
    initiator: str
    wall_ms: int
    detail: str = ""
    members: int = 0
    group_state: str = ""
    kind: str = "rebalance"
    times: int = 1
    since_ms: int = -1


class ListNotesReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    notes: tuple[ListedNote, ...] = ()


class RebalanceStarted(Message):
    """Pushed when the group enters PreparingRebalance; the member has `deadline_ms` from now to rejoin."""

    group_id: str
    generation_id: int
    cause: str
    initiator: str
    deadline_ms: int


class MemberRemoved(Message):
    """Pushed when the coordinator has removed this member."""

    group_id: str
    member_id: str
    cause: str


class CoordinatorMoved(Message):
    """Pushed when the node stops serving the group; clients look for its coordinator again."""

    group_id: str
    node_id: int
    host: str
    port: int
