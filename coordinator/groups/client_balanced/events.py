"""Events of a client-balanced group. Topics and offsets that an action needs come with the event: the group itself
reads no topic.

`ref` is the request to answer; `refused` builds the typed reply that refuses it.
"""

from typing import Protocol, dataclass_transform

import msgspec

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import (
    ConfirmConsumed,
    ConfirmConsumedReply,
    FetchRegistered,
    FetchRegisteredReply,
    LeaveMember,
    LeaveMemberReply,
    MemberHeartbeat,
    MemberHeartbeatReply,
    PartitionMeta,
    PartitionMetaReply,
    PartitionState,
    RegisterPartitions,
    RegisterPartitionsReply,
    StartMember,
    StartMemberReply,
    UnregisterPartitions,
    UnregisterPartitionsReply,
)
from protocol.session import RequestRef


class PartitionOffsets(msgspec.Struct, frozen=True, gc=False):
    """A partition that exists: its first offset, its end offset, and the group's committed offset; -1 if nothing is
    committed."""

    begin: int
    end: int
    committed: int
    is_forbidden: bool = False

    def clamp(self, offset: int) -> int:
        """Return the nearest offset of the log."""
        return min(max(offset, self.begin), self.end)


OffsetsByKey = dict[str, PartitionOffsets]
"""Offsets by partition key."""


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))  # subclasses inherit `frozen`
class ClientBalancedEvent(msgspec.Struct, frozen=True, gc=False):
    """Base of the events of a client-balanced group."""


class OfMember(Protocol):
    """A request that names a member and its epoch."""

    @property
    def consumer_id(self) -> str: ...

    @property
    def member_epoch(self) -> int: ...


class ByMember(ClientBalancedEvent):
    """A request of a member that carries the member's id and epoch."""

    ref: RequestRef
    request: MemberHeartbeat | PartitionMeta | RegisterPartitions | LeaveMember

    @property
    def consumer_id(self) -> str:
        return self.request.consumer_id

    @property
    def member_epoch(self) -> int:
        return self.request.member_epoch


class Start(ClientBalancedEvent):
    """A StartMember whose own fields are valid. `meta`: the partitions of its topics, sorted, with the state of the
    topics in `as_of` and `shape`; None: the group's are current."""

    ref: RequestRef
    request: StartMember
    client_id: str
    client_host: str
    places: OffsetsByKey
    meta: tuple[PartitionState, ...] | None
    as_of: int
    shape: tuple[int, ...] = ()
    principal: str = ""

    @property
    def consumer_id(self) -> str:
        return self.request.consumer_id

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return StartMemberReply(error_code, text)


class Beat(ByMember):
    """A MemberHeartbeat that carries a report or a release."""

    request: MemberHeartbeat
    places: OffsetsByKey

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return MemberHeartbeatReply(error_code)


class AskMeta(ByMember):
    """A PartitionMeta."""

    request: PartitionMeta

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return PartitionMetaReply(error_code)


class Register(ByMember):
    """A RegisterPartitions."""

    request: RegisterPartitions
    places: OffsetsByKey

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return RegisterPartitionsReply(error_code)


class Unregister(ClientBalancedEvent):
    """An UnregisterPartitions."""

    ref: RequestRef
    request: UnregisterPartitions
    places: OffsetsByKey

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return UnregisterPartitionsReply(error_code)


class Fetching(ClientBalancedEvent):
    """A FetchRegistered: the group decides which items may read, and from which offsets."""

    ref: RequestRef
    request: FetchRegistered
    places: OffsetsByKey

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return FetchRegisteredReply(error_code)


class PlannedItem(msgspec.Struct, frozen=True, gc=False):
    """One item of a fetch: where to read, or the error."""

    key: str
    error_code: ErrorCode
    position: int = -1


class FetchPlanned(Message):
    """Reply to `Fetching`; the node then reads the records."""

    items: tuple[PlannedItem, ...] = ()


class ConfirmOffsets(ClientBalancedEvent):
    """A ConfirmConsumed."""

    ref: RequestRef
    request: ConfirmConsumed
    places: OffsetsByKey

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return ConfirmConsumedReply(error_code)


class BalancedLeave(ByMember):
    """A LeaveMember."""

    request: LeaveMember
    places: OffsetsByKey

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return LeaveMemberReply(error_code)


class Mark(ClientBalancedEvent):
    """One group of a ConsumeFromMax. `origin` is the operator's address, `remark` the reason given."""

    ref: RequestRef
    group_id: str
    origin: str
    remark: str

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return Marked(error_code, text)


class Marked(Message):
    """The reply to one `Mark`; the node merges several into a ConsumeFromMaxReply."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    from_max_id: int = 0


class MetaMade(ClientBalancedEvent):
    """The configured partitions as they are now, sorted by key, with the state of the topics in `as_of` and `shape`."""

    group_id: str
    meta: tuple[PartitionState, ...]
    as_of: int
    shape: tuple[int, ...] = ()


class BalanceDue(ClientBalancedEvent):
    """A balancing pass has come to the group."""

    group_id: str


class PartitionsFreed(ClientBalancedEvent):
    """Members released partitions, for which other members may wait."""

    group_id: str


class PositionsStored(ClientBalancedEvent):
    """The records of an outcome are applied: the grants have these positions from now on."""

    group_id: str
    positions: tuple[tuple[str, int, int, int], ...]
    """Topic, partition, epoch and position."""


class Admitted(ClientBalancedEvent):
    """The record of a member's start was applied."""

    group_id: str
    consumer_id: str
    connection: int
    principal: str = ""


class LeaseOverdue(ClientBalancedEvent):
    """The member sent nothing for its session timeout."""

    group_id: str
    consumer_id: str


class BalancedLoaded(ClientBalancedEvent):
    """The group has just been loaded from the log."""

    group_id: str


class BalancedUnloaded(ClientBalancedEvent):
    """The node stops serving the group; clients send FindCoordinator again."""

    group_id: str


class BalancedAppendFailed(ClientBalancedEvent):
    """The records of the event's outcome could not be appended, so the outcome was dropped."""

    event: "BalancedEvent"
    error_code: ErrorCode


BalancedEvent = (
    Start
    | Beat
    | AskMeta
    | Register
    | Unregister
    | Fetching
    | ConfirmOffsets
    | BalancedLeave
    | Mark
    | MetaMade
    | BalanceDue
    | PartitionsFreed
    | PositionsStored
    | Admitted
    | LeaseOverdue
    | BalancedLoaded
    | BalancedUnloaded
    | BalancedAppendFailed
)
