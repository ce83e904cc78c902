"""Answer ConsumerGroupDescribe (docs/spec/consumer-group-protocol.md#11.1)."""

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.core.admission import admit
from coordinator.core.core import Core
from coordinator.facts.views import GROUP_OPERATIONS
from coordinator.groups.consumer.describing import describe
from coordinator.runtime.outbox import Awaited
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    DescribedConsumerGroup,
)
from protocol.session import RequestRef


def consumer_group_describe(core: Core, ref: RequestRef, message: ConsumerGroupDescribe, moment: Moment) -> None:
    """Describe the groups as they are now; waits for the last record of each, so that no crash can undo the answer."""
    described, awaited, listed = [], Awaited(), 0
    for group_id in message.group_ids:
        refused = admit(core, group_id)
        if not refused:
            awaited.add_group(core.shard_of(group_id).outbox, group_id)
        one = _describe(core, group_id, refused, is_full=listed >= core.config.max_entries_per_request)
        if message.include_authorized_operations and not one.error_code:
            one = replace(one, authorized_operations=GROUP_OPERATIONS)
        described.append(one)
        listed += len(one.members)
    awaited.hold(core.outbox, ref, ConsumerGroupDescribeReply(tuple(described)))


def _describe(core: Core, group_id: str, refused: ErrorCode, *, is_full: bool) -> DescribedConsumerGroup:
    if refused or is_full:
        return DescribedConsumerGroup(group_id, refused or ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    group = core.find(group_id)[1]
    consumer = None if group is None else group.serving_consumer
    if consumer is not None:
        return describe(consumer)
    why = "not found" if group is None else "is not a consumer group"
    return DescribedConsumerGroup(group_id, ErrorCode.GROUP_ID_NOT_FOUND, error_message=f"Group {group_id} {why}.")
