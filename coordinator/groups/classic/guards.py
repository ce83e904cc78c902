"""The checks the table names, in the order clients can observe. A guard is pure and answers NONE to let pass."""

from coordinator.groups.classic.events import Claim, Identified, Joining, JoinPending, Sync
from coordinator.groups.classic.state import Group, GroupState
from protocol.errors import ErrorCode
from protocol.messages.groups import Heartbeat
from protocol.messages.offsets import OffsetCommit, TxnOffsetCommit

_NONE = ErrorCode.NONE


def has_room(group: Group, event: Joining) -> ErrorCode:
    """`group.max.size` (docs/spec/group-protocol.md#2.1.7). A static member coming back to a full group replaces
    itself, so `ReplaceStatic` has no such guard. Pending ids do not count."""
    maximum = group.settings.max_size
    member = group.members.get(event.member_id) if event.member_id else None
    if group.state is GroupState.PREPARING:
        fits = (member is not None and member.join_ref is not None) or group.awaiting_join < maximum
    else:
        fits = group.state is GroupState.EMPTY or member is not None or len(group.members) < maximum
    return _NONE if fits else ErrorCode.GROUP_MAX_SIZE_REACHED


def protocols_agree(group: Group, event: Joining) -> ErrorCode:
    """The protocol gate (docs/spec/group-protocol.md#2.1.5). A name listed twice would count for two members, so such a
    list is refused."""
    protocol_type, protocols = event.request.protocol_type, event.request.protocols
    if not protocol_type or not protocols or len({offer.name for offer in protocols}) < len(protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.EMPTY:
        return _NONE
    if protocol_type != group.protocol_type or not group.supports(protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return _NONE


def names_no_instance(group: Group, event: JoinPending) -> ErrorCode:
    """Only dynamic members are given an id to come back with; the id stays pending
    (docs/spec/group-protocol.md#2.1.2)."""
    return _NONE if event.group_instance_id is None else ErrorCode.UNKNOWN_SERVER_ERROR


def is_member(group: Group, event: Identified) -> ErrorCode:
    """The member check, in its order: instance unmapped, instance fenced, id unknown
    (docs/spec/group-protocol.md#0.2)."""
    if event.group_instance_id is not None:
        mapped = group.static_members.get(event.group_instance_id)
        if mapped is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if mapped != event.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return _NONE if event.member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def is_current_generation(group: Group, event: Sync | Heartbeat | Claim) -> ErrorCode:
    """The request speaks of the generation the group is in."""
    return _NONE if event.generation_id == group.generation_id else ErrorCode.ILLEGAL_GENERATION


def is_same_protocol(group: Group, event: Sync) -> ErrorCode:
    """What the request names and the group has must agree; what either leaves out does
    (docs/spec/group-protocol.md#2.2)."""
    for named, actual in (
        (event.request.protocol_type, group.protocol_type),
        (event.request.protocol_name, group.protocol_name),
    ):
        if named is not None and actual is not None and named != actual:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return _NONE


def may_commit(group: Group, request: OffsetCommit) -> ErrorCode:
    """Who may commit (docs/spec/group-protocol.md#2.5): in Empty those without a generation, else members of the
    present one."""
    if group.state is GroupState.EMPTY:
        return _NONE if request.generation_id < 0 else ErrorCode.UNKNOWN_MEMBER_ID
    if refused := is_member(group, request):
        return refused
    return _NONE if request.generation_id == group.generation_id else ErrorCode.ILLEGAL_GENERATION


def may_commit_in_transaction(group: Group, request: TxnOffsetCommit) -> ErrorCode:
    """Who says who it is must be a member of the present generation; old clients say nothing, and may
    (docs/spec/group-protocol.md#4.3)."""
    if request.generation_id < 0 and (
        group.state is GroupState.EMPTY or (not request.member_id and request.group_instance_id is None)
    ):
        return _NONE
    if refused := is_member(group, request):
        return refused
    return _NONE if request.generation_id == group.generation_id else ErrorCode.ILLEGAL_GENERATION
