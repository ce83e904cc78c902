"""Answer DescribeGroups."""

from coordinator.clock import Moment
from coordinator.groups.classic.state import Group
from coordinator.handlers.admission import admit
from coordinator.handlers.core import Core
from coordinator.handlers.views import describe_balanced_group, describe_group
from coordinator.runtime.shard import Shard
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribedGroup, DescribeGroups, DescribeGroupsReply
from protocol.session import RequestRef


def describe_groups(core: Core, ref: RequestRef, message: DescribeGroups, moment: Moment) -> None:
    """What the groups are like now; waits for the last record of each, so that no crash can undo what was told
    (docs/spec/group-protocol.md#2.8)."""
    described, position = [], 0
    listed, most = 0, core.config.max_entries_per_request
    for group_id in message.groups:
        refused = admit(core, group_id, may_be_empty=True)
        shard, group = core.find(group_id)
        if not refused and listed >= most:
            refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED  # who asks for many large groups asks again for the rest
        if refused:
            described.append(DescribedGroup(group_id, error_code=refused))
        else:
            described.append(_describe(shard, group_id, group, message))
            listed += len(described[-1].members)
            position = max(position, shard.position_of(group_id))
    core.outbox.hold(position, ref, DescribeGroupsReply(tuple(described)))


def _describe(shard: Shard, group_id: str, group: Group | None, message: DescribeGroups) -> DescribedGroup:
    if group is not None and shard.is_balanced(group_id):
        return describe_balanced_group(shard.balanced[group_id], group, shard.index)
    return describe_group(group_id, group, shard.index, message.absent_is_error)
