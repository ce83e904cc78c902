"""Answer LeaveGroup."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from coordinator.groups.classic.events import Leave
from coordinator.groups.classic.notes import origin_of_client
from coordinator.groups.consumer.events import ClassicLeave
from coordinator.runtime.group import GroupKind
from protocol.errors import ErrorCode
from protocol.messages.groups import LeaveGroup, LeaveGroupReply, LeftMember
from protocol.session import RequestRef


def leave_group(core: Core, ref: RequestRef, message: LeaveGroup, found: Found, moment: Moment) -> None:
    """Remove members (docs/spec/group-protocol.md#2.4)."""
    shard, group = found
    if group is None:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        left = tuple(LeftMember(entry.member_id, entry.group_instance_id, unknown) for entry in message.members)
        core.outbox.send(ref, LeaveGroupReply(members=left))
    elif group.kind is GroupKind.CONSUMER:
        shard.process(group, ClassicLeave(ref, message, origin_of_client(core.client(ref.connection))), moment)
    else:
        shard.process(group, Leave(ref, message, core.sender(ref)), moment)
