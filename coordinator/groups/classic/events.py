"""Events of a classic group. `joined` sorts a JoinGroup into one of four events before the table sees it. Messages that
need no later reply take shorter paths: Heartbeat is read-only, and commits are append-only (`APPEND_ONLY`).

`ref` is the request to answer; `refused` builds the typed reply that refuses it.
"""

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Protocol, dataclass_transform

import msgspec

from coordinator.groups.conversions import ClassicAgain, Superseded
from protocol.client_text import client_text
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    HoldGroup,
    HoldGroupReply,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    OffsetChange,
    Origin,
    PreviousHolder,
    SyncGroup,
    SyncGroupReply,
)
from protocol.messages.offsets import (
    OffsetDelete,
    OffsetDeleteReply,
)
from protocol.messages.ownership import (
    ClaimPartitions,
    ClaimPartitionsReply,
    ReleasePartitions,
    ReleasePartitionsReply,
)
from protocol.session import RequestRef

if TYPE_CHECKING:
    from coordinator.groups.classic.state import ClassicGroup


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))  # subclasses inherit `frozen`
class ClassicEvent(msgspec.Struct, frozen=True, gc=False):
    """Base of the events of a classic group."""


class Client(msgspec.Struct, frozen=True, gc=False):
    """Sender of a request: its client id, and its host as Kafka writes it (`/10.0.0.7`)."""

    client_id: str
    client_host: str
    client_port: int = -1
    listener: str = ""
    software: tuple[str, str] = ("", "")
    principal: str = ""
    certificate: str = ""

    def __str__(self) -> str:
        """Format for people, without the port: `billing-7 at 10.0.0.7`."""
        return client_text(self.client_id, self.client_host)


class Identified(Protocol):
    """A request that names a member."""

    @property
    def member_id(self) -> str: ...

    @property
    def group_instance_id(self) -> str | None: ...


class Joining(ClassicEvent):
    """A JoinGroup: the base of the four below."""

    ref: RequestRef
    request: JoinGroup
    client: Client

    @property
    def member_id(self) -> str:
        return self.request.member_id

    @property
    def group_instance_id(self) -> str | None:
        return self.request.group_instance_id

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        """Echo the id the request came with, except where a full group has just dropped it
        (docs/spec/group-protocol.md#2.1.1)."""
        kept = error_code not in (ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNKNOWN_SERVER_ERROR)
        return JoinGroupReply(error_code=error_code, member_id=self.request.member_id if kept else "")


class JoinFirst(Joining):
    """A JoinGroup without a member id, of a dynamic member or of an instance the group does not map."""


class JoinPending(Joining):
    """A JoinGroup with a pending id, handed out and not used yet."""


class JoinAgain(Joining):
    """A JoinGroup with the id of a member, or with an unknown one."""


class ReplaceStatic(Joining):
    """A JoinGroup without an id, for an instance the group maps: the instance was restarted. `is_fencing`: the process
    that held it is still connected."""

    is_fencing: bool = False


class Sync(ClassicEvent):
    """A SyncGroup."""

    ref: RequestRef
    request: SyncGroup

    @property
    def member_id(self) -> str:
        return self.request.member_id

    @property
    def group_instance_id(self) -> str | None:
        return self.request.group_instance_id

    @property
    def generation_id(self) -> int:
        return self.request.generation_id

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return SyncGroupReply(error_code=error_code)


class Leave(ClassicEvent):
    """A LeaveGroup. `client` is its sender, None if that is not known."""

    ref: RequestRef
    request: LeaveGroup
    client: Client | None = None

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return LeaveGroupReply(error_code=error_code)


class DeleteOffsets(ClassicEvent):
    """An OffsetDelete. `known` are those of its partitions that have an offset; `subscribed` the topics that members of
    a consumer group read (None: perhaps all)."""

    ref: RequestRef
    request: OffsetDelete
    known: frozenset[tuple[str, int]]
    subscribed: AbstractSet[str] | None = frozenset()
    client: Client | None = None
    previous: tuple[OffsetChange, ...] = ()
    """The present values of the offsets that would be deleted."""

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return OffsetDeleteReply(error_code=error_code)


class Deleted(ClassicEvent):
    """One group of a DeleteGroups. `offsets` are the group's remaining offsets, `already_deleted` the number
    already deleted. `previous`: the offsets of both that the note keeps."""

    ref: RequestRef
    group_id: str
    offsets: tuple[tuple[str, int], ...]
    already_deleted: int = 0
    client: Client | None = None
    previous: tuple[OffsetChange, ...] = ()

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return GroupDeleted(error_code=error_code)


class GroupDeleted(Message):
    """The answer to one `Deleted`; the node joins several into a DeleteGroupsReply."""

    error_code: ErrorCode = ErrorCode.NONE


class Claim(ClassicEvent):
    """A ClaimPartitions; `committed` is the group's offset of each different item, in their order, -1 for none."""

    ref: RequestRef
    request: ClaimPartitions
    committed: tuple[int, ...]

    @property
    def member_id(self) -> str:
        return self.request.member_id

    @property
    def group_instance_id(self) -> str | None:
        return None

    @property
    def generation_id(self) -> int:
        return self.request.generation_id

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return ClaimPartitionsReply(error_code=error_code)


class Release(ClassicEvent):
    """A ReleasePartitions."""

    ref: RequestRef
    request: ReleasePartitions

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return ReleasePartitionsReply(error_code=error_code)


class OwnershipEnded(ClassicEvent):
    """The end of all grants of a member: it joined again, was removed, or its lease ran out."""

    group_id: str
    member_id: str


class GroupHeld(ClassicEvent):
    """A HoldGroup. `sender`: the client that sent it."""

    ref: RequestRef
    request: HoldGroup
    sender: Origin

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return HoldGroupReply(error_code=error_code)


class HoldEnded(ClassicEvent):
    """The end of the hold for which a rebalance waited: it was released, its time is over, or members enough came."""

    group_id: str


class JoinPhaseOver(ClassicEvent):
    """The end of the join phase: all members joined, or the rebalance timeout is over."""

    group_id: str


class InitialDelayOver(ClassicEvent):
    """The end of the initial delay; it is extended while members keep arriving (docs/spec/group-protocol.md#2.1.4)."""

    group_id: str
    elapsed_ms: int
    remaining_ms: int


class SyncOverdue(ClassicEvent):
    """The sync phase of the generation has lasted for the rebalance timeout, and a member has not synced."""

    group_id: str
    generation_id: int


class SessionOverdue(ClassicEvent):
    """The member sent nothing for its session timeout. `is_kept_waiting`: its connection has requests that are
    not answered yet, so a later heartbeat cannot have been served."""

    group_id: str
    member_id: str
    is_kept_waiting: bool = False


class PendingIdOverdue(ClassicEvent):
    """The id was handed out a session timeout ago and never used."""

    group_id: str
    member_id: str


class AssignmentStored(ClassicEvent):
    """A `GroupMetadata` record with members was applied: the leader's assignment is the group's."""

    group_id: str


class ReplacementStored(ClassicEvent):
    """The record that gives an instance its new member id was applied."""

    ref: RequestRef
    request: JoinGroup
    member_id: str
    old_member_id: str
    old_leader: str | None
    old_session_timeout_ms: int
    connection: int
    owes_sync: bool
    client: Client | None = None
    previous: PreviousHolder | None = None
    is_fencing: bool = False

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return JoinGroupReply(error_code=error_code)


class RetentionDue(ClassicEvent):
    """Offsets of the group whose retention is over (docs/spec/group-protocol.md#4.4), or a part of them. `partitions`
    are deleted now; `expired` counts the deletions of the whole run, by topic; `is_over` marks the last part.
    `leaves_nothing`: after it the group has no offset, neither committed nor pending in a transaction."""

    group_id: str
    partitions: tuple[tuple[str, int], ...]
    expired: tuple[tuple[str, int], ...]
    is_over: bool
    leaves_nothing: bool


class Loaded(ClassicEvent):
    """The group has just been loaded from the log (docs/spec/group-protocol.md#5.3)."""

    group_id: str


class Unloaded(ClassicEvent):
    """The node stops serving the group; clients look for its coordinator again."""

    group_id: str


class AppendFailed(ClassicEvent):
    """The records of the event's outcome could not be appended, so nothing of the outcome happened. `error_code` is
    sent to clients (docs/spec/group-protocol.md#0.5)."""

    event: "GroupEvent"
    error_code: ErrorCode


GroupEvent = (
    JoinFirst
    | JoinPending
    | JoinAgain
    | ReplaceStatic
    | Sync
    | Leave
    | DeleteOffsets
    | Deleted
    | Claim
    | Release
    | OwnershipEnded
    | GroupHeld
    | HoldEnded
    | JoinPhaseOver
    | InitialDelayOver
    | SyncOverdue
    | SessionOverdue
    | PendingIdOverdue
    | AssignmentStored
    | ReplacementStored
    | RetentionDue
    | Loaded
    | Unloaded
    | AppendFailed
    | ClassicAgain
    | Superseded
)


def joined(group: "ClassicGroup", ref: RequestRef, request: JoinGroup, client: Client) -> GroupEvent:
    """Return the event of a JoinGroup: one of the four kinds."""
    if not request.member_id:
        mapped = request.group_instance_id is not None and request.group_instance_id in group.static_members
        return (ReplaceStatic if mapped else JoinFirst)(ref, request, client)
    kind = JoinPending if request.member_id in group.pending else JoinAgain
    return kind(ref, request, client)
