"""Description of a consumer group (docs/spec/consumer-group-protocol.md#11.1)."""

from collections.abc import Iterable, Mapping

from coordinator.groups.consumer.state import ConsumerGroup, ConsumerMember
from coordinator.groups.consumer.target import preferred_assignor
from protocol.messages.consumer_groups import (
    CLASSIC_MEMBER,
    CONSUMER_MEMBER,
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
)


def describe(group: ConsumerGroup) -> DescribedConsumerGroup:
    """Describe the group and its members."""
    return DescribedConsumerGroup(
        group.group_id,
        group_state=group.state.title,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group),
        members=tuple([_member(group, member) for member in group.members.values()]),
    )


def _member(group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumer:
    line, current = member.subscription, member.current
    held: dict[bytes, set[int]] = {}
    for topic_id, number, _ in current.held:
        held.setdefault(topic_id, set()).add(number)
    return DescribedConsumer(
        member_id=member.member_id,
        instance_id=line.instance_id,
        rack_id=line.rack_id,
        member_epoch=current.epoch,
        client_id=line.client_id,
        client_host=line.client_host,
        subscribed_topic_names=line.subscribed_topic_names,
        subscribed_topic_regex=line.subscribed_topic_regex or "",
        assignment=_named(group, held),
        target_assignment=_named(group, group.targets.get(member.member_id, {})),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _named(group: ConsumerGroup, assigned: Mapping[bytes, Iterable[int]]) -> DescribedAssignment:
    """Name the topics; those that no longer exist are left out."""
    topics = []
    for topic_id, numbers in assigned.items():
        name = group.topics.name_of(topic_id)
        if name is not None:
            topics.append(DescribedTopicPartitions(topic_id, name, tuple(sorted(numbers))))
    return DescribedAssignment(tuple(topics))
