"""Answer DescribeGroups."""

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.core.admission import admit
from coordinator.core.core import Core
from coordinator.facts.consumer_facts import with_consumer_facts
from coordinator.facts.member_facts import with_facts
from coordinator.facts.report_facts import with_reports
from coordinator.facts.views import GROUP_OPERATIONS, describe_group
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.outbox import Awaited
from coordinator.runtime.shard import Shard
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribedGroup, DescribeGroups, DescribeGroupsReply
from protocol.session import RequestRef


def describe_groups(core: Core, ref: RequestRef, message: DescribeGroups, moment: Moment) -> None:
    """Describe the groups as they are now; waits for the last record of each, so that no crash can undo the answer
    (docs/spec/group-protocol.md#2.8)."""
    described, awaited = [], Awaited()
    listed, most = 0, core.config.max_entries_per_request
    for group_id in message.groups:
        refused = admit(core, group_id, may_be_empty=True)
        shard, group = core.find(group_id)
        if not refused and listed >= most:
            refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED  # a client with many large groups asks again for the rest
        if refused:
            described.append(DescribedGroup(group_id, error_code=refused))
        else:
            described.append(_describe(core, shard, group_id, group, message, moment))
            listed += len(described[-1].members)
            awaited.add_group(shard.outbox, group_id)
    awaited.hold(core.outbox, ref, DescribeGroupsReply(tuple(described)))


def _describe(
    core: Core, shard: Shard, group_id: str, group: Group | None, message: DescribeGroups, moment: Moment
) -> DescribedGroup:
    if message.hides_consumer_groups and group is not None and group.kind is GroupKind.CONSUMER:
        group = None
    described = describe_group(group_id, group, shard.index, message.absent_is_error)
    if message.with_facts and group is not None:
        consumer = group.serving_consumer
        if consumer is not None:
            described = with_consumer_facts(core, consumer, described, moment)
        else:
            described = with_facts(core, group, described, moment)
        described = replace(with_reports(core, described, moment), described_ms=moment.wall_ms, log=shard.log.name)
    if message.include_authorized_operations and not described.error_code:
        return replace(described, authorized_operations=GROUP_OPERATIONS)
    return described
