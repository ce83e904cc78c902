"""Partitions that become free, and members that wait for them. Members that can receive pushes are notified at once,
not with their next heartbeat (docs/spec/consumer-group-protocol.md#4.1). The cost depends on the number of freed
partitions, not on the group's size."""

from coordinator.groups.consumer.events import AwaitedPartitionsFree
from coordinator.groups.consumer.notes import ConsumerCause
from coordinator.groups.consumer.state import ConsumerGroup, ConsumerMember, Current
from coordinator.groups.consumer.subscriptions import subscribes
from coordinator.groups.outcome import Outcome
from protocol.messages import Message
from protocol.messages.consumer_groups import AssignmentChanged
from protocol.messages.groups import RebalanceStarted


def note_freed(group: ConsumerGroup, before: Current, after: Current, out: Outcome) -> None:
    """Have the members notified that wait for partitions freed by the step. Call it whenever a current assignment is
    written."""
    if not group.waiting:
        return
    freed = [
        (topic_id, number)
        for topic_id, number, _ in before.held
        if number in group.waiting.get(topic_id, {})
        and number not in after.assigned.get(topic_id, {})
        and number not in after.pending.get(topic_id, {})
    ]
    if freed:
        out.follow_ups.append(AwaitedPartitionsFree(group.group_id, tuple(freed)))


def notify_waiting(group: ConsumerGroup, event: AwaitedPartitionsFree, out: Outcome) -> None:
    """Notify members that can receive pushes and whose next heartbeat would give them partitions."""
    told: set[str] = set()
    for topic_id, number in event.partitions:
        member = group.members.get(group.waiting.get(topic_id, {}).get(number, ""))
        if member is None or member.connection < 0 or member.member_id in told:
            continue
        if is_free(group, topic_id, number) and _would_get(group, member, topic_id):
            told.add(member.member_id)
            out.pushes.append((member.connection, news(group, member, group.target_epoch)))


def _would_get(group: ConsumerGroup, member: ConsumerMember, topic_id: bytes) -> bool:
    if member.is_classic:
        return has_all_free(group, member)
    return subscribes(group, member.subscription)(topic_id)


def is_free(group: ConsumerGroup, topic_id: bytes, number: int) -> bool:
    """Return true if no member holds the partition."""
    return number not in group.holders.get(topic_id, {})


def has_all_free(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return true if all partitions that the member waits for are free: a classic member then joins again, once."""
    return all(is_free(group, *partition) for partition in group.awaited_by(member))


def news(group: ConsumerGroup, member: ConsumerMember, epoch: int) -> Message:
    """Build the push to a member with partitions to receive or to revoke: a classic member must join again."""
    if not member.is_classic:
        return AssignmentChanged(group.group_id, epoch)
    deadline_ms = max(member.subscription.rebalance_timeout_ms, 0)
    return RebalanceStarted(group.group_id, member.current.epoch, ConsumerCause.TARGET.value, "", deadline_ms)
