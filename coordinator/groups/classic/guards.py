"""Guards of the state table, in the order that clients can observe. A guard is pure; NONE lets the event pass."""

from operator import attrgetter
from typing import Final

from coordinator.groups.classic.events import Claim, Identified, Joining, JoinPending, Sync
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.state import ClassicGroup
from protocol.errors import ErrorCode
from protocol.messages.groups import Heartbeat
from protocol.messages.offsets import OffsetCommit, TxnOffsetCommit

_NONE: Final = ErrorCode.NONE
_EMPTY: Final = GroupState.EMPTY
_NAME = attrgetter("name")


def has_room(group: ClassicGroup, event: Joining) -> ErrorCode:
    """Check `group.max.size` (docs/spec/group-protocol.md#2.1.7). A static member that rejoins a full group replaces
    itself, so `ReplaceStatic` has no such guard. Pending ids do not count."""
    maximum = group.settings.max_size
    member = group.members.get(event.request.member_id)
    if group.state is GroupState.PREPARING:
        fits = (member is not None and member.join_ref is not None) or group.awaiting_join < maximum
    else:
        fits = group.state is GroupState.EMPTY or member is not None or len(group.members) < maximum
    return _NONE if fits else ErrorCode.GROUP_MAX_SIZE_REACHED


def protocols_agree(group: ClassicGroup, event: Joining) -> ErrorCode:
    """Check the protocols (docs/spec/group-protocol.md#2.1.5). A list with a duplicate name is refused: the name would
    count for two members."""
    protocol_type, protocols = event.request.protocol_type, event.request.protocols
    if not protocol_type or not protocols or len(set(map(_NAME, protocols))) < len(protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.EMPTY:
        return _NONE
    if protocol_type != group.protocol_type or not group.supports(protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return _NONE


def names_no_instance(group: ClassicGroup, event: JoinPending) -> ErrorCode:
    """Refuse a group.instance.id: only dynamic members use a pending id, and the id stays pending
    (docs/spec/group-protocol.md#2.1.2)."""
    return _NONE if event.group_instance_id is None else ErrorCode.UNKNOWN_SERVER_ERROR


def is_member(group: ClassicGroup, event: Identified) -> ErrorCode:
    """Check the member, in Kafka's order: instance unmapped, instance fenced, id unknown
    (docs/spec/group-protocol.md#0.2)."""
    if event.group_instance_id is not None:
        mapped = group.static_members.get(event.group_instance_id)
        if mapped is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if mapped != event.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return _NONE if event.member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def is_current_generation(group: ClassicGroup, event: Sync | Heartbeat | Claim) -> ErrorCode:
    """Check that the request names the present generation."""
    return _NONE if event.generation_id == group.generation_id else ErrorCode.ILLEGAL_GENERATION


def is_same_protocol(group: ClassicGroup, event: Sync) -> ErrorCode:
    """Check that protocol type and name of the request agree with the group's, where both are given
    (docs/spec/group-protocol.md#2.2)."""
    for named, actual in (
        (event.request.protocol_type, group.protocol_type),
        (event.request.protocol_name, group.protocol_name),
    ):
        if named is not None and actual is not None and named != actual:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return _NONE


def may_commit(group: ClassicGroup, request: OffsetCommit) -> ErrorCode:
    """Check a commit's sender (docs/spec/group-protocol.md#2.5): in Empty it must be a client without a generation,
    else a member of the present generation."""
    if group.state is _EMPTY:
        return _NONE if request.generation_id < 0 else ErrorCode.UNKNOWN_MEMBER_ID
    if refused := is_member(group, request):
        return refused
    return _NONE if request.generation_id == group.generation_id else ErrorCode.ILLEGAL_GENERATION


def may_commit_in_transaction(group: ClassicGroup, request: TxnOffsetCommit) -> ErrorCode:
    """Check the member if the request names one: it must be of the present generation. Old clients name no member, and
    may commit (docs/spec/group-protocol.md#4.3)."""
    if request.generation_id < 0 and (
        group.state is GroupState.EMPTY or (not request.member_id and request.group_instance_id is None)
    ):
        return _NONE
    if refused := is_member(group, request):
        return refused
    return _NONE if request.generation_id == group.generation_id else ErrorCode.ILLEGAL_GENERATION
