"""Answer LeaveGroup."""

from coordinator.clock import Moment
from coordinator.groups.classic.events import Leave
from coordinator.handlers.admission import admit
from coordinator.handlers.core import Core
from protocol.errors import ErrorCode
from protocol.messages.groups import LeaveGroup, LeaveGroupReply, LeftMember
from protocol.session import RequestRef


def leave_group(core: Core, ref: RequestRef, message: LeaveGroup, moment: Moment) -> None:
    """Members go (docs/spec/group-protocol.md#2.4)."""
    refused = admit(core, message.group_id)
    shard, group = core.find(message.group_id)
    if refused:
        core.outbox.send(ref, LeaveGroupReply(error_code=refused))
    elif group is None:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        left = tuple(LeftMember(entry.member_id, entry.group_instance_id, unknown) for entry in message.members)
        core.outbox.send(ref, LeaveGroupReply(members=left))
    else:
        shard.process(group, Leave(ref, message), moment)
