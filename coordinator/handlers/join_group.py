"""Answer JoinGroup: admit the request, create the group if need be, hand the join to the shard."""

from coordinator.clock import Moment
from coordinator.groups.classic.events import OwnershipEnded, joined
from coordinator.groups.classic.state import Group
from coordinator.handlers.admission import admit_join, admit_write
from coordinator.handlers.core import Core
from coordinator.runtime.shard import Shard
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroup, JoinGroupReply
from protocol.session import RequestRef

_FORGETS_MEMBER_ID = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
"""With these a refused JoinGroup does not echo its member id (docs/spec/group-protocol.md#0.3)."""


def join_group(core: Core, ref: RequestRef, message: JoinGroup, moment: Moment) -> None:
    """Become, or stay, a member (docs/spec/group-protocol.md#2.1)."""
    refused = admit_join(core, message)
    shard, group = core.find(message.group_id)
    if not refused and shard.is_balanced(message.group_id):
        refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # one mode a group (docs/spec/client-balanced-groups.md#12)
    if not refused and group is None:
        if message.member_id:
            refused = ErrorCode.UNKNOWN_MEMBER_ID
        else:
            found = _create(core, shard, message.group_id, moment)
            if isinstance(found, ErrorCode):
                refused = found
            else:
                group = found
    if refused or group is None:
        kept = "" if refused in _FORGETS_MEMBER_ID else message.member_id
        core.outbox.send(ref, JoinGroupReply(error_code=refused, member_id=kept))
        return
    if group.owners is not None and message.member_id in group.members and group.owners.of(message.member_id):
        # Who joins has stopped reading: this ends what a release that was lost did not
        # (docs/spec/consumer-client.md#E3).
        shard.process(group, OwnershipEnded(group.group_id, message.member_id), moment)
    shard.process(group, joined(group, ref, message, core.client(ref.connection)), moment)


def _create(core: Core, shard: Shard, group_id: str, moment: Moment) -> Group | ErrorCode:
    if core.count_groups() >= core.config.max_groups:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return admit_write(core) or shard.create(group_id, moment)
