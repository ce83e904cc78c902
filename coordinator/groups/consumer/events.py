"""Events of a consumer group. Those named Classic… concern members that use the classic protocol
(docs/spec/consumer-group-protocol.md#12).

`ref` is the request to answer; `refused` builds the typed reply that refuses it.
"""

from collections.abc import Callable, Mapping
from typing import Final, dataclass_transform

import msgspec

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply
from protocol.messages.groups import (
    Heartbeat,
    HeartbeatReply,
    HoldGroup,
    HoldGroupReply,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    Origin,
    SyncGroup,
    SyncGroupReply,
)
from protocol.session import RequestRef

TopicFilter = Callable[[str], bool]
"""Check of a topic's name."""


def sees_all(topic: str) -> bool:
    """Return true: no access rules apply."""
    return True


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))  # subclasses inherit `frozen`
class ConsumerEventBase(msgspec.Struct, frozen=True, gc=False):
    """Base of the events of a consumer group."""


UNNAMED: Final = Origin("", "")
"""A sender about whom nothing is known."""


class MemberRequest(ConsumerEventBase):
    """A valid ConsumerGroupHeartbeat. Its member id is never empty. `sees`: check of the topics that its sender may
    describe; None: not known now. `is_fencing`: it is a join, and the process that holds its instance id is still
    connected."""

    ref: RequestRef
    request: ConsumerGroupHeartbeat
    client_id: str
    client_host: str
    sees: TopicFilter | None = sees_all
    sender: Origin = UNNAMED
    is_fencing: bool = False

    @property
    def member_id(self) -> str:
        return self.request.member_id

    @property
    def instance_id(self) -> str | None:
        return self.request.instance_id

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return refuse_heartbeat(error_code, text)


class ConsumerJoin(MemberRequest):
    """A heartbeat with epoch 0: the member joins, or joins again."""


class ConsumerBeat(MemberRequest):
    """A heartbeat with a positive epoch."""


class ConsumerLeave(MemberRequest):
    """A heartbeat with epoch -1: the member leaves for good."""


class ConsumerAway(MemberRequest):
    """A heartbeat with epoch -2: the static member leaves temporarily."""


class ClassicRequest(ConsumerEventBase):
    """A request of one member that uses the classic protocol."""

    ref: RequestRef
    request: JoinGroup | SyncGroup | Heartbeat

    @property
    def member_id(self) -> str:
        return self.request.member_id

    @property
    def instance_id(self) -> str | None:
        return self.request.group_instance_id


class ClassicJoin(ClassicRequest):
    """A JoinGroup. Its member id may be empty. `is_fencing` as in `MemberRequest`."""

    request: JoinGroup
    client_id: str
    client_host: str
    sees: TopicFilter | None = sees_all
    sender: Origin = UNNAMED
    is_fencing: bool = False

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return JoinGroupReply(error_code=error_code)


class ClassicSync(ClassicRequest):
    """A SyncGroup; the assignments in it are ignored."""

    request: SyncGroup

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return SyncGroupReply(error_code=error_code)


class ClassicBeat(ClassicRequest):
    """A Heartbeat that may do more than extend the session."""

    request: Heartbeat

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return HeartbeatReply(error_code)


class ClassicLeave(ConsumerEventBase):
    """A LeaveGroup, of members of either protocol. `sender`: the client that sent it."""

    ref: RequestRef
    request: LeaveGroup
    sender: Origin

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return LeaveGroupReply(error_code=error_code)


class ConsumerGroupHeld(ConsumerEventBase):
    """A HoldGroup. `sender`: the client that sent it."""

    ref: RequestRef
    request: HoldGroup
    sender: Origin

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return HoldGroupReply(error_code=error_code)


class ClassicRejoinOverdue(ConsumerEventBase):
    """The classic member did not join again within its rebalance timeout."""

    group_id: str
    member_id: str


class ClassicSyncOverdue(ConsumerEventBase):
    """The classic member did not sync within its rebalance timeout after it joined."""

    group_id: str
    member_id: str


class ClassicMembersTaken(ConsumerEventBase):
    """The group was a classic one until the member joined. It has its other members' connections, -1 for none, and
    principals, None for no owner yet. `detail`: text of the note."""

    group_id: str
    member_id: str
    members: tuple[tuple[str, int, str | None], ...]
    detail: str


class ClassicMemberAdmitted(ConsumerEventBase):
    """The record of a classic member that joined was applied: its session begins. `must_sync`: it has become
    classic, or its assignment is another than before."""

    group_id: str
    member_id: str
    connection: int
    must_sync: bool
    sender: Origin = UNNAMED


class MemberAdmitted(ConsumerEventBase):
    """The record of a new member was applied: its session begins."""

    group_id: str
    member_id: str
    connection: int
    sender: Origin = UNNAMED


class ResolveRegexes(ConsumerEventBase):
    """The regular expressions of the group must be matched with all topics that the heartbeat's sender may describe."""

    group_id: str
    sees: TopicFilter = sees_all


class RegexesResolved(ConsumerEventBase):
    """Regular expressions were matched with the topics of `version`: the sorted names that match each. Results of many
    come in parts. `is_retry`: a part of the last results could not be written."""

    group_id: str
    matched: Mapping[str, tuple[str, ...]]
    version: int
    is_last: bool = True
    is_retry: bool = False


class ComputeTarget(ConsumerEventBase):
    """The target assignment of a large group must be computed, in slices. `member_id`: the sender of the heartbeat that
    caused it."""

    group_id: str
    member_id: str


class TargetsMoved(ConsumerEventBase):
    """Some of the members have new targets, each disjoint with those of all others."""

    group_id: str
    targets: tuple[tuple[str, Mapping[bytes, frozenset[int]]], ...]


class TargetComputed(ConsumerEventBase):
    """All members have the targets of the epoch. `moved_members`: number of members with a changed target;
    `kept_partitions`: number of partitions that stay in the target of the same member."""

    group_id: str
    epoch: int
    member_id: str
    assignor: str
    moved_members: int
    kept_partitions: int


class TargetAnnounced(ConsumerEventBase):
    """Some of the members must be notified of a new target."""

    group_id: str
    epoch: int
    member_ids: tuple[str, ...]


class TargetBehind(ConsumerEventBase):
    """The group epoch has grown, and no request has computed the target yet."""

    group_id: str


class AwaitedPartitionsFree(ConsumerEventBase):
    """Partitions, as (topic id, number), that no member holds any more; a member waits for each."""

    group_id: str
    partitions: tuple[tuple[bytes, int], ...]


class SessionExpired(ConsumerEventBase):
    """The member sent no heartbeat for its session timeout. `is_kept_waiting` as in `SessionOverdue` of classic
    groups."""

    group_id: str
    member_id: str
    is_kept_waiting: bool = False


class RevocationOverdue(ConsumerEventBase):
    """The member, at `epoch` when the timer started, did not revoke partitions within its rebalance timeout."""

    group_id: str
    member_id: str
    epoch: int


class ConsumerLoaded(ConsumerEventBase):
    """The group has just been loaded from the log."""

    group_id: str


class ConsumerUnloaded(ConsumerEventBase):
    """The node stops serving the group; clients look for its coordinator again."""

    group_id: str


class ConsumerAppendFailed(ConsumerEventBase):
    """The records of the event's outcome could not be appended, so nothing of the outcome happened."""

    event: "ConsumerEvent"
    error_code: ErrorCode


ConsumerEvent = (
    ConsumerJoin
    | ConsumerBeat
    | ConsumerLeave
    | ConsumerAway
    | ClassicJoin
    | ClassicSync
    | ClassicBeat
    | ClassicLeave
    | ConsumerGroupHeld
    | ClassicMemberAdmitted
    | ClassicRejoinOverdue
    | ClassicSyncOverdue
    | ClassicMembersTaken
    | MemberAdmitted
    | ResolveRegexes
    | RegexesResolved
    | ComputeTarget
    | TargetsMoved
    | TargetComputed
    | TargetAnnounced
    | TargetBehind
    | AwaitedPartitionsFree
    | SessionExpired
    | RevocationOverdue
    | ConsumerLoaded
    | ConsumerUnloaded
    | ConsumerAppendFailed
)


def refuse_heartbeat(error_code: ErrorCode, text: str = "") -> ConsumerGroupHeartbeatReply:
    """Build the reply that refuses a heartbeat: it has a message and nothing else
    (docs/spec/consumer-group-protocol.md#2.6)."""
    words = text or error_code.name.replace("_", " ").capitalize()
    return ConsumerGroupHeartbeatReply(error_code, f"{words}.")
