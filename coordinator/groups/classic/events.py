"""What can happen to a classic group. Four different things are a JoinGroup, so `joined` tells them apart before the
table sees them; a request that carries nothing to answer later (Heartbeat) is its own event.
Nor is a commit an event: nobody waits for it and nothing follows from it, so the table takes the message (`BRIEF`).

`ref` is the request to answer; `refused` gives the typed reply that refuses it.
"""

from typing import TYPE_CHECKING, Protocol, dataclass_transform

import msgspec

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
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
    from coordinator.groups.classic.state import Group


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))  # subclasses inherit `frozen`
class Event(msgspec.Struct, frozen=True, gc=False):
    """Base of all."""


class Client(msgspec.Struct, frozen=True, gc=False):
    """Who sent a request: the name it gave itself, and its host as Kafka writes it (`/10.0.0.7`)."""

    client_id: str
    client_host: str

    def __str__(self) -> str:
        """For people: `billing-7 at 10.0.0.7`."""
        return f"{self.client_id or '(unnamed)'} at {self.client_host.lstrip('/')}"


class Identified(Protocol):
    """A request that names a member."""

    @property
    def member_id(self) -> str: ...

    @property
    def group_instance_id(self) -> str | None: ...


class Joining(Event):
    """A JoinGroup, of one of the four kinds below."""

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
        """Errors echo the id the request came with, except where a full group has just dropped it
        (docs/spec/group-protocol.md#2.1.1)."""
        kept = error_code not in (ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNKNOWN_SERVER_ERROR)
        return JoinGroupReply(error_code=error_code, member_id=self.request.member_id if kept else "")


class JoinFirst(Joining):
    """A JoinGroup without a member id, of a dynamic member or of an instance the group does not map."""


class JoinPending(Joining):
    """Back with the id it was told to come with."""


class JoinAgain(Joining):
    """With an id that is, or claims to be, a member's."""


class ReplaceStatic(Joining):
    """Without an id, for an instance the group maps: the instance was restarted."""


class Sync(Event):
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


class Leave(Event):
    """A LeaveGroup."""

    ref: RequestRef
    request: LeaveGroup

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return LeaveGroupReply(error_code=error_code)


class DeleteOffsets(Event):
    """An OffsetDelete; `known` are the partitions of it that have an offset."""

    ref: RequestRef
    request: OffsetDelete
    known: frozenset[tuple[str, int]]

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return OffsetDeleteReply(error_code=error_code)


class Deleted(Event):
    """One group of a DeleteGroups; `offsets` are all it has, and `forgotten` those that have gone before."""

    ref: RequestRef
    group_id: str
    offsets: tuple[tuple[str, int], ...]
    forgotten: int = 0

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return GroupDeleted(error_code=error_code)


class GroupDeleted(Message):
    """The answer to one `Deleted`; the node puts several together into a DeleteGroupsReply."""

    error_code: ErrorCode = ErrorCode.NONE


class Claim(Event):
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


class Release(Event):
    """A ReleasePartitions."""

    ref: RequestRef
    request: ReleasePartitions

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return ReleasePartitionsReply(error_code=error_code)


class OwnershipEnded(Event):
    """The member joins again, is gone, or its lease is: it owns nothing any more."""

    group_id: str
    member_id: str


class JoinPhaseOver(Event):
    """Everyone has joined, or the rebalance timeout is over."""

    group_id: str


class InitialDelayOver(Event):
    """The initial delay is over; it is extended while members keep arriving (docs/spec/group-protocol.md#2.1.4)."""

    group_id: str
    elapsed_ms: int
    remaining_ms: int


class SyncOverdue(Event):
    """The sync phase of the generation has lasted for the rebalance timeout and somebody has not synced."""

    group_id: str
    generation_id: int


class SessionOverdue(Event):
    """Nothing was heard of the member for its session timeout."""

    group_id: str
    member_id: str


class PendingIdOverdue(Event):
    """The id was handed out a session timeout ago and never used."""

    group_id: str
    member_id: str


class AssignmentStored(Event):
    """A `GroupMetadata` record with members was applied: the leader's assignment is the group's."""

    group_id: str


class ReplacementStored(Event):
    """The record that gives an instance its new member id was applied."""

    ref: RequestRef
    request: JoinGroup
    member_id: str
    old_member_id: str
    old_leader: str | None
    old_session_timeout_ms: int
    connection: int
    owes_sync: bool

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return JoinGroupReply(error_code=error_code)


class RetentionDue(Event):
    """What the group has kept for as long as it may (docs/spec/group-protocol.md#4.4), or a part of it, as found just
    now. `places` go now, `expired` counts all that go in this run by topic, and after the last part `is_over`.
    `leaves_nothing`: the group has no offset then, nor has a transaction one for it."""

    group_id: str
    places: tuple[tuple[str, int], ...]
    expired: tuple[tuple[str, int], ...]
    is_over: bool
    leaves_nothing: bool


class Loaded(Event):
    """The group has just been loaded from the log (docs/spec/group-protocol.md#5.3)."""

    group_id: str


class Unloaded(Event):
    """This node no longer serves the group."""

    group_id: str


class AppendFailed(Event):
    """The records of the event's outcome could not be appended, and nothing of it happened. `error_code` is what
    clients are told (docs/spec/group-protocol.md#0.5)."""

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
)


def joined(group: "Group", ref: RequestRef, request: JoinGroup, client: Client) -> GroupEvent:
    """Which of the four kinds of JoinGroup this is."""
    if not request.member_id:
        mapped = request.group_instance_id is not None and request.group_instance_id in group.static_members
        return (ReplaceStatic if mapped else JoinFirst)(ref, request, client)
    kind = JoinPending if request.member_id in group.pending else JoinAgain
    return kind(ref, request, client)
