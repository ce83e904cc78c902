"""What can happen to a client-balanced group. What an action needs to know of topics and offsets comes with the event:
the group sees partitions that exist, and yields records.

`ref` is the request to answer; `refused` gives the typed reply that refuses it.
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


class Place(msgspec.Struct, frozen=True, gc=False):
    """A partition that exists: its first offset, the one after its last, and what the group has committed for it; -1
    if nothing."""

    begin: int
    end: int
    committed: int
    is_forbidden: bool = False

    def clamp(self, offset: int) -> int:
        """The nearest offset that can be read from."""
        return min(max(offset, self.begin), self.end)


Places = dict[str, Place]
"""By partition key."""


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))  # subclasses inherit `frozen`
class Event(msgspec.Struct, frozen=True, gc=False):
    """Base of all."""


class OfMember(Protocol):
    """A request that names a member and its epoch."""

    @property
    def consumer_id(self) -> str: ...

    @property
    def member_epoch(self) -> int: ...


class ByMember(Event):
    """A request of a member's that comes as what it was told to be."""

    ref: RequestRef
    request: MemberHeartbeat | PartitionMeta | RegisterPartitions | LeaveMember

    @property
    def consumer_id(self) -> str:
        return self.request.consumer_id

    @property
    def member_epoch(self) -> int:
        return self.request.member_epoch


class Start(Event):
    """A StartMember whose own fields are in order. `meta`: the partitions of its topics, sorted, of topics
    that were as `as_of` and `shape` say; None: the group has them."""

    ref: RequestRef
    request: StartMember
    client_id: str
    client_host: str
    places: Places
    meta: tuple[PartitionState, ...] | None
    as_of: int
    shape: tuple[int, ...] = ()

    @property
    def consumer_id(self) -> str:
        return self.request.consumer_id

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return StartMemberReply(error_code, text)


class Beat(ByMember):
    """A MemberHeartbeat that is more than a sign of life."""

    request: MemberHeartbeat
    places: Places

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
    places: Places

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return RegisterPartitionsReply(error_code)


class Unregister(Event):
    """An UnregisterPartitions."""

    ref: RequestRef
    request: UnregisterPartitions
    places: Places

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return UnregisterPartitionsReply(error_code)


class Fetching(Event):
    """A FetchRegistered: may it, and from where?"""

    ref: RequestRef
    request: FetchRegistered
    places: Places

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return FetchRegisteredReply(error_code)


class PlannedItem(msgspec.Struct, frozen=True, gc=False):
    """One item of a fetch: where to read, or why not."""

    key: str
    error_code: ErrorCode
    position: int = -1


class FetchPlanned(Message):
    """What `Fetching` comes to; the node reads the records."""

    items: tuple[PlannedItem, ...] = ()


class Confirm(Event):
    """A ConfirmConsumed."""

    ref: RequestRef
    request: ConfirmConsumed
    places: Places

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return ConfirmConsumedReply(error_code)


class Leave(ByMember):
    """A LeaveMember."""

    request: LeaveMember
    places: Places

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return LeaveMemberReply(error_code)


class Mark(Event):
    """One group of a ConsumeFromMax. `origin` is where it came from, `remark` what was said of it."""

    ref: RequestRef
    group_id: str
    origin: str
    remark: str

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        return Marked(error_code, text)


class Marked(Message):
    """The answer to one `Mark`; the node puts several together into a ConsumeFromMaxReply."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    from_max_id: int = 0


class MetaMade(Event):
    """The configured partitions as they are now, sorted by key: of topics that were as `as_of` and `shape` say."""

    group_id: str
    meta: tuple[PartitionState, ...]
    as_of: int
    shape: tuple[int, ...] = ()


class Settled(Event):
    """What an outcome's records promised is on record: grants are at these positions from now on."""

    group_id: str
    positions: tuple[tuple[str, int, int, int], ...]
    """Topic, partition, epoch and position."""


class Admitted(Event):
    """The record that makes, or keeps, somebody a member was applied."""

    group_id: str
    consumer_id: str
    connection: int


class LeaseOverdue(Event):
    """Nothing was heard of the member for its session timeout."""

    group_id: str
    consumer_id: str


class Loaded(Event):
    """The group has just been loaded from the log."""

    group_id: str


class Unloaded(Event):
    """This node no longer serves the group."""

    group_id: str


class AppendFailed(Event):
    """The records of the event's outcome could not be appended, and nothing of it happened."""

    event: "BalancedEvent"
    error_code: ErrorCode


BalancedEvent = (
    Start
    | Beat
    | AskMeta
    | Register
    | Unregister
    | Fetching
    | Confirm
    | Leave
    | Mark
    | MetaMade
    | Settled
    | Admitted
    | LeaseOverdue
    | Loaded
    | Unloaded
    | AppendFailed
)
