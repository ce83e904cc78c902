"""Group membership: join, sync, heartbeat, leave, and administration of groups (docs/spec/group-protocol.md#2)."""

from typing import Final, Literal, get_args

from protocol.errors import ErrorCode
from protocol.messages import GroupId, Int32, Int64, Message, Text

NO_GENERATION = -1
OPERATIONS_NOT_REQUESTED = -2147483648
LONGEST_REASON: Final = 255
"""Characters of a reason to join or leave that are noted, as many as Kafka's clients send: longer notes would displace
those of other groups."""


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
    """Reply to JoinGroup. `members` is filled only for the leader."""

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
    """Request the assignment of a generation; the leader sends all members' assignments. `must_name_protocol`: version
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
    """Describe groups. `absent_is_error`: the newest version adds GROUP_ID_NOT_FOUND to the state Dead. `with_facts`:
    fill Muster's own fields about members and the phase. `hides_consumer_groups`: answer that consumer groups are
    absent, since Kafka's protocol describes them by another API."""

    groups: tuple[GroupId, ...]
    include_authorized_operations: bool = False
    absent_is_error: bool = True
    with_facts: bool = False
    hides_consumer_groups: bool = False


class ReportedFact(Message):
    """A fact that a member's application reports about itself."""

    name: Text
    text: Text


class DescribedMember(Message):
    """Description of a member. `session_timeout_ms` and the fields after it are Muster's own, and omitted in Kafka's
    protocol; durations are as of the reply, -1 if unknown.

    `waiting`: `join` or `sync` while that request of the member is parked, for `waiting_ms`. `disconnected_ms`: time
    since the member's last connection closed, if it has sent nothing since. `topics` and `protocols`: the member's
    subscription and its assignors. The fields from `member_epoch` on are those of server-driven members; assignments
    are encoded like `member_assignment`. `pending_revocation`: partitions that the member must revoke and has not, for
    `revoking_ms`. `reported`: facts reported by the member's application (ReportMember), `reported_ago_ms` ago.
    `is_draining`: an operator has asked it to drain. `group_protocol`: `classic` or `consumer`, the setting of its
    client; a server-driven group may have members of both. Empty if unknown, and of client-balanced members."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes = b""
    member_assignment: bytes = b""
    session_timeout_ms: int = -1
    rebalance_timeout_ms: int = -1
    session_left_ms: int = -1
    heard_ago_ms: int = -1
    waiting: str = ""
    waiting_ms: int = -1
    is_connected: bool | None = None
    disconnected_ms: int = -1
    client_port: int = -1
    client_software_name: str = ""
    client_software_version: str = ""
    principal: str = ""
    listener: str = ""
    topics: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    committed_ago_ms: int = -1
    member_epoch: int = -1
    target_assignment: bytes = b""
    pending_revocation: bytes = b""
    revoking_ms: int = -1
    reported: tuple[ReportedFact, ...] = ()
    reported_ago_ms: int = -1
    is_draining: bool = False
    group_protocol: str = ""


class DescribedGroup(Message):
    """Description of a group. `generation_id` and the fields after it are Muster's own, and omitted in Kafka's
    protocol. `shard`: number of the group's shard, -1 if the group is not described; `log`: the shard's log.

    `phase`: `delay` (an Empty group waits for more members), `join`, `sync`, `revoke` (members of a server-driven group
    have yet to revoke partitions; `generation_id` is its group epoch), `assign` (nobody has; the target is computed
    with the next heartbeat, or members have yet to take it up), or empty if the group waits for nothing. The
    phase has lasted `phase_ms` and ends in `phase_left_ms` at the latest, by the rebalance timeout of `limited_by`.
    `waiting_for`: the members that it waits for. `hold_left_ms`: remaining time of the hold on the group, -1 without
    one. A hold ends earlier once `hold_until_members` have joined, unless that is 0; `hold_joined` have. While a
    rebalance waits for the end of a hold, `phase` is `hold`. `described_ms`: wall time of the description, from which
    its durations count back."""

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
    phase: str = ""
    phase_ms: int = -1
    phase_left_ms: int = -1
    waiting_for: tuple[str, ...] = ()
    limited_by: str = ""
    target_epoch: int = -1
    hold_left_ms: int = -1
    hold_until_members: int = 0
    hold_joined: int = 0
    described_ms: int = -1
    log: str = ""


class DescribeGroupsReply(Message):
    groups: tuple[DescribedGroup, ...] = ()
    throttle_time_ms: int = 0


class ListGroups(Message):
    """List groups, sorted by id. Empty filters match every group; `after` and `limit` select a page."""

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


ALL_NOTES = 1_000_000
"""A number larger than that of the notes in any group's journal."""


class ListNotes(Message):
    """Read a group's journal, oldest first: `limit` notes after number `after`."""

    group_id: GroupId
    after: Int64 = -1
    limit: Int32 = 100


class Origin(Message, omit_defaults=True):
    """Sender of a request, or owner of a member. `principal` is empty without a login. `certificate`: subject, by RFC
    2253, and serial number of the certificate that it showed; empty without one."""

    client_id: str
    client_host: str
    client_port: int = -1
    listener: str = ""
    principal: str = ""
    certificate: str = ""


class SlowestMember(Message, omit_defaults=True):
    """The member that joined last, `waited_ms` after the rebalance began; or that revoked late, after so long."""

    member_id: str
    client_id: str
    client_host: str
    waited_ms: int


class PreviousHolder(Message, omit_defaults=True):
    """The member that had the instance id before. `heard_ago_ms`: time since its last request; -1 if unknown."""

    member_id: str
    client_id: str
    client_host: str
    heard_ago_ms: int = -1


class OffsetChange(Message, omit_defaults=True):
    """Change of a committed offset; -1 is none."""

    topic: Text
    partition_index: Int32
    previous_offset: Int64 = -1
    offset: Int64 = -1


class ListedNote(Message):
    """Note of a group's journal. `number` counts the group's notes; `cause` is one of a fixed set, `detail` a sentence
    for people.

    `kind`: `rebalance` (begun), `completed`, `assigned` (the leader's assignments came), `dropped` (members left
    out), `replaced` (a static member came back without a rebalance), `expired` (offsets, or the group, reached the
    end of their retention), `member` (a member of a client-balanced group joined, left or lost partitions; a static
    member took another's place in a server-driven group, or in a rebalance under way), `epoch`
    and `target` (a server-driven group moved on), `converted` (it changed its protocol), `moved` (another node
    coordinates it), `revoked` (a member of a server-driven group gave up partitions late), `rewound` (a member
    committed backwards), `admin`.

    Repeated events, for instance of two processes that fence each other, are one note: the event happened `times` times
    since `since_ms`, the last time at `wall_ms`. Each time its count has doubled the note becomes the newest, with a
    new number.

    `origin`: the client behind `initiator`. A completed rebalance took `took_ms`; `joined` are its first ten new
    members. For a removed member, `idle_ms` is the time since its last join, sync or commit: if that equals its
    `rebalance_timeout_ms`, its application did not poll in time. `act`: set if a client changed more than its own
    membership: `reset`, `rewind`, `undo`, `import`, `delete offsets`, `delete group`, `evict`, `takeover` (it fenced
    `previous`, a connected process with its instance id), `create topic`, `add partitions`, `delete topic`, `alter
    settings`; those about topics have the group id "". `changes`: the changed offsets. `assigned` and `target`: of the
    partitions that a member had in the previous generation or target, `moved_partitions` have another owner now, or
    none, and `kept_partitions` the same."""

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
    origin: Origin | None = None
    took_ms: int = -1
    slowest: SlowestMember | None = None
    joined: tuple[str, ...] = ()
    previous: PreviousHolder | None = None
    idle_ms: int = -1
    rebalance_timeout_ms: int = -1
    act: str = ""
    changes: tuple[OffsetChange, ...] = ()
    moved_partitions: int = -1
    kept_partitions: int = -1


class AuditedNote(Message):
    """A note about an act, with its group."""

    group_id: str
    note: ListedNote


class ListAudit(Message):
    """List the acts noted since a wall time in all groups, by time: the first `limit`."""

    since_ms: Int64 = 0
    limit: Int32 = 1_000


class ListAuditReply(Message):
    """Acts, by time. `has_more`: repeat the request from the time of the last one."""

    error_code: ErrorCode = ErrorCode.NONE
    notes: tuple[AuditedNote, ...] = ()
    has_more: bool = False


Act = Literal["reset", "delete offsets", "import", "undo"]
"""Name of a change of committed offsets."""
ACTS: Final[tuple[str, ...]] = get_args(Act)


class ApplyOffsets(Message):
    """Change committed offsets of a group without members, all or none: each from `previous_offset`, which must be the
    present one, to `offset` (-1: none). `act`, one of `ACTS`, is the name of the change in the note. `actor` and
    `actor_host` are noted for requests from within the process, which have no connection."""

    group_id: GroupId
    changes: tuple[OffsetChange, ...]
    act: Text = "reset"
    actor: Text = ""
    actor_host: Text = ""


class ApplyOffsetsReply(Message):
    """`number`: that of the note, by which the changes can be undone; -1 if nothing was changed. Else `conflicts` has
    the partitions with another offset, which is in `previous_offset`, or `members` has the group's members, or
    `error_message` the problem."""

    error_code: ErrorCode = ErrorCode.NONE
    number: int = -1
    conflicts: tuple[OffsetChange, ...] = ()
    members: tuple[str, ...] = ()
    error_message: str = ""


class HoldGroup(Message):
    """Collect changes of a group's members for `for_ms`, then make them one rebalance; earlier, once `until_members`
    have joined since, unless that is 0. A hold replaces an earlier one; 0 ms release the group. `actor` and
    `actor_host` are those of ApplyOffsets."""

    group_id: GroupId
    for_ms: Int32
    until_members: Int32 = 0
    actor: Text = ""
    actor_host: Text = ""


class HoldGroupReply(Message):
    """`left_ms`: the remaining time of the hold, 0 without one. With an error, `error_message` has the problem."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    left_ms: int = 0


class ListSuspects(Message):
    """List the groups that may have a problem: those that changed, or got a note, since a wall time; those in a phase;
    and those with a member that is silent or not connected."""

    since_ms: Int64 = 0


class ListSuspectsReply(Message):
    """Groups by id. `wall_ms`: the time for the next request. `expired`: groups that are gone, since their retention
    ended at that wall time or later; the newest, if they are many."""

    error_code: ErrorCode = ErrorCode.NONE
    groups: tuple[str, ...] = ()
    wall_ms: int = 0
    expired: tuple[str, ...] = ()


class RefusedRequest(Message):
    """A request that was refused `times` times since `since_ms`, the last time at `wall_ms`. `api`: its name; `detail`:
    the refused value, and the expected ones."""

    group_id: str
    api: str
    error_code: ErrorCode
    client_id: str
    client_host: str
    client_port: int = -1
    principal: str = ""
    detail: str = ""
    times: int = 1
    since_ms: int = -1
    wall_ms: int = -1


class ListRefusals(Message):
    """List clients whose JoinGroup was refused lately, or that were fenced, by these groups, or by all if none is
    named. The groups need not exist."""

    groups: tuple[GroupId, ...] = ()


class ListRefusalsReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    refusals: tuple[RefusedRequest, ...] = ()


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
    """Pushed when the node stops serving the group; clients send FindCoordinator again."""

    group_id: str
    node_id: int
    host: str
    port: int
