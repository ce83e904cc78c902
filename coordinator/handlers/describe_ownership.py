"""Answer DescribeOwnership (docs/spec/consumer-client.md#E2)."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from protocol.errors import ErrorCode
from protocol.messages.ownership import DescribeOwnership, DescribeOwnershipReply, OwnedPartition
from protocol.session import RequestRef


def describe_ownership(core: Core, ref: RequestRef, message: DescribeOwnership, found: Found, moment: Moment) -> None:
    """List the grants as of one instant; answered when they are durable."""
    group = found.group
    if group is None:
        core.outbox.send(ref, DescribeOwnershipReply(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
        return
    wanted = None if message.topics is None else frozenset(message.topics)
    items = [
        OwnedPartition(
            held.topic,
            held.partition,
            held.owner.member_id,
            held.owner.thread,
            held.owner.generation_id,
            held.epoch,
            held.owner.since_ms,
        )
        for held in group.classic.owners or ()
        if held.owner is not None and (wanted is None or held.topic in wanted)
    ]
    items.sort(key=lambda item: (item.topic, item.partition))
    found.shard.outbox.hold_for(message.group_id, ref, DescribeOwnershipReply(items=tuple(items)))
