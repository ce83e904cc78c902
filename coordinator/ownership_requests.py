"""Who answers the three calls of the ownership registry (consumer-client E2)."""

from coordinator.core import Core
from coordinator.gates import gate, write_gate
from coordinator.groups.classic.events import Claim, Release
from coordinator.moment import Moment
from protocol.errors import ErrorCode
from protocol.messages.ownership import (
    ClaimPartitions,
    ClaimPartitionsReply,
    DescribeOwnership,
    DescribeOwnershipReply,
    OwnedPartition,
    ReleasePartitions,
    ReleasePartitionsReply,
)
from protocol.session import RequestRef

_NO_OFFSET = -1


def claim_partitions(core: Core, ref: RequestRef, message: ClaimPartitions, moment: Moment) -> None:
    """Own partitions, all or none. What the group has committed is read in the same step as the grant is made: nothing
    a former owner commits can come in between."""
    refused = gate(core, message.group_id) or write_gate(core)
    shard, group = core.find(message.group_id)
    if refused or group is None:
        core.outbox.send(ref, ClaimPartitionsReply(error_code=refused or ErrorCode.UNKNOWN_MEMBER_ID))
        return
    committed = []
    for topic, partition in dict.fromkeys((item.topic, item.partition) for item in message.items):
        stored = shard.offsets.get(message.group_id, topic, partition)
        committed.append(_NO_OFFSET if stored is None else stored.offset)
    shard.process(group, Claim(ref, message, tuple(committed)), moment)


def release_partitions(core: Core, ref: RequestRef, message: ReleasePartitions, moment: Moment) -> None:
    """Own them no longer."""
    refused = gate(core, message.group_id) or write_gate(core)
    shard, group = core.find(message.group_id)
    if not refused and shard.is_balanced(message.group_id):
        refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # its members unregister
    if refused or group is None:
        core.outbox.send(ref, ReleasePartitionsReply(error_code=refused or ErrorCode.UNKNOWN_MEMBER_ID))
        return
    shard.process(group, Release(ref, message), moment)


def describe_ownership(core: Core, ref: RequestRef, message: DescribeOwnership, moment: Moment) -> None:
    """Who owns what, as of one instant; told when it is durable."""
    refused = gate(core, message.group_id)
    shard, group = core.find(message.group_id)
    if not refused and group is None:
        refused = ErrorCode.GROUP_ID_NOT_FOUND
    if refused or group is None:
        core.outbox.send(ref, DescribeOwnershipReply(error_code=refused))
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
        for held in group.owners or ()
        if held.owner is not None and (wanted is None or held.topic in wanted)
    ]
    items.sort(key=lambda item: (item.topic, item.partition))
    core.outbox.hold(shard.position_of(message.group_id), ref, DescribeOwnershipReply(items=tuple(items)))
