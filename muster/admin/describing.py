"""Description of a group whose members use either of Kafka's two protocols."""

from typing import Final

from muster.blocking.cluster import ClusterClient
from muster.errors import Refused
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    GROUP_PROTOCOLS,
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from protocol.messages.groups import DescribedGroup, DescribedMember, DescribeGroups, DescribeGroupsReply

_DEAD: Final = "Dead"


def ask_description(cluster: ClusterClient, group_id: str) -> DescribedGroup:
    """Request the group's description from its coordinator; a missing group has GROUP_ID_NOT_FOUND. The native
    DescribeGroups describes every group. Kafka's describes only classic groups, and reports server-driven ones as
    missing; ConsumerGroupDescribe (KIP-848) describes those."""
    wanted = DescribeGroups((group_id,), with_facts=True)
    group = cluster.ask_coordinator(DescribeGroupsReply, group_id, wanted).groups[0]
    if group.group_state != _DEAD and group.error_code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return group
    try:
        reply = cluster.ask_coordinator(ConsumerGroupDescribeReply, group_id, ConsumerGroupDescribe((group_id,)))
    except Refused as refused:
        if refused.error_code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return DescribedGroup(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
    return _described(reply.groups[0])


def _described(group: DescribedConsumerGroup) -> DescribedGroup:
    if group.error_code:
        return DescribedGroup(group.group_id, group.error_code, group.error_message)
    return DescribedGroup(
        group.group_id,
        group_state=group.group_state,
        protocol_type=PROTOCOL_TYPE,
        protocol_data=group.assignor_name,
        members=tuple(_member(one) for one in group.members),
        generation_id=group.group_epoch,
        target_epoch=group.assignment_epoch,
    )


def _member(member: DescribedConsumer) -> DescribedMember:
    return DescribedMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member_metadata=encode_subscription(Subscription(member.subscribed_topic_names)),
        member_assignment=_encoded(member.assignment),
        topics=member.subscribed_topic_names,
        member_epoch=member.member_epoch,
        target_assignment=_encoded(member.target_assignment),
        group_protocol=GROUP_PROTOCOLS.get(member.member_type, ""),
    )


def _encoded(assignment: DescribedAssignment) -> bytes:
    return encode_assignment(
        Assignment(tuple(TopicPartitions(one.topic_name, one.partitions) for one in assignment.topic_partitions))
    )
