"""Replies under access rules: denials of parts of requests, and changes of replies for the client's principal."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from coordinator.accounts.permission import (
    AUTO_CREATED,
    CLUSTER,
    CLUSTER_OPERATIONS,
    GROUP,
    GROUP_OPERATIONS,
    LIST_ALL,
    TOPIC,
    TOPIC_OPERATIONS,
    CodeOf,
    Permission,
    authorized_operations,
    describe_topic,
)
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclOperation
from protocol.messages.balanced import DescribeBalanced, DescribeBalancedReply
from protocol.messages.consumer_groups import ConsumerGroupDescribe, ConsumerGroupDescribeReply, DescribedConsumerGroup
from protocol.messages.data import FetchPartitionReply, FetchTopic, FetchTopicReply
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from protocol.messages.node import DescribeCluster, DescribeClusterReply
from protocol.messages.offsets import (
    EndSample,
    ListEndSamples,
    ListEndSamplesReply,
    ListGroupOffsets,
    ListGroupOffsetsReply,
    OffsetDeletePartitionReply,
    OffsetDeleteTopic,
    OffsetDeleteTopicReply,
    OffsetFetch,
    OffsetFetchGroupReply,
    OffsetFetchReply,
    OffsetFetchTopicReply,
)
from protocol.messages.topics import (
    DeletableTopic,
    DeletedTopic,
    DescribeTopicPartitions,
    DescribeTopicPartitionsReply,
    Metadata,
    MetadataReply,
    MetadataTopic,
    MetadataTopicReply,
)

_DESCRIBE: Final = AclOperation.DESCRIBE
_HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."

Finish = Callable[[Any, Any, Message | None, CodeOf], Message]
"""Makes the client's reply from the request, the node's reply, and the denials, if there are any."""

# -------------------------------------------------------------------------------------------------- denials of parts


def deny_offset_deletion(topic: OffsetDeleteTopic, code: ErrorCode) -> tuple[Any, ...]:
    partitions = tuple(OffsetDeletePartitionReply(index, code) for index in topic.partition_indexes)
    return (OffsetDeleteTopicReply(topic.name, partitions),)


def deny_fetch(topic: FetchTopic, code: ErrorCode) -> tuple[Any, ...]:
    partitions = tuple(FetchPartitionReply(part.partition, code) for part in topic.partitions)
    return (FetchTopicReply(topic.topic, partitions, topic.topic_id),)


def deny_deletion(topic: DeletableTopic, code: ErrorCode) -> tuple[Any, ...]:
    return (DeletedTopic(topic.name, topic.topic_id, code),)


def deny_metadata(topic: MetadataTopic, code: ErrorCode) -> tuple[Any, ...]:
    return (MetadataTopicReply(topic.name, topic.topic_id, code),)


def code_of_creation(message: Metadata, part: MetadataTopic, code_of: CodeOf) -> ErrorCode:
    """Decide on a topic that a Metadata request would create."""
    if not message.allow_auto_topic_creation or part.name is None:
        return ErrorCode.NONE
    return code_of(Permission(AUTO_CREATED, part.name, AclOperation.CREATE))


# ------------------------------------------------------------------------------------------------- replies to finish


def with_denials(reply: Any, field: str, denied: Message | None) -> Any:
    return reply if denied is None else replace(reply, **{field: (*getattr(reply, field), *getattr(denied, field))})


def finish_metadata(message: Metadata, reply: MetadataReply, denied: Message | None, code_of: CodeOf) -> Message:
    topics: tuple[MetadataTopicReply, ...] = reply.topics
    if message.topics is None:
        topics = tuple(one for one in topics if not code_of(describe_topic(one)))
    if message.include_topic_authorized_operations:
        topics = tuple(
            replace(one, topic_authorized_operations=_of_topic(one.name, code_of)) if one.name else one
            for one in topics
        )
    if message.include_cluster_authorized_operations:
        reply = replace(reply, cluster_authorized_operations=_of_cluster(code_of))
    merged: Message = with_denials(replace(reply, topics=topics), "topics", denied)
    return merged


def finish_pages(
    message: DescribeTopicPartitions, reply: DescribeTopicPartitionsReply, denied: Message | None, code_of: CodeOf
) -> Message:
    topics = tuple(
        replace(one, topic_authorized_operations=_of_topic(one.name or "", code_of))
        for one in reply.topics
        if message.topics or not code_of(describe_topic(one))
    )
    merged: Message = with_denials(replace(reply, topics=topics), "topics", denied)
    return merged


def finish_cluster(
    message: DescribeCluster, reply: DescribeClusterReply, denied: Message | None, code_of: CodeOf
) -> Message:
    if not message.include_cluster_authorized_operations or reply.error_code:
        return reply
    return replace(reply, cluster_authorized_operations=_of_cluster(code_of))


def _of_topic(name: str, code_of: CodeOf) -> int:
    return authorized_operations(TOPIC, name, TOPIC_OPERATIONS, code_of)


def _of_cluster(code_of: CodeOf) -> int:
    """Return the operations on the cluster; none for a principal that may not describe it."""
    if code_of(Permission(CLUSTER, "", _DESCRIBE)):
        return 0
    return authorized_operations(CLUSTER, "", CLUSTER_OPERATIONS, code_of)


def finish_list(field: str) -> Finish:
    """Keep the lines, in this field, of groups that the client may describe."""

    def finish(message: Message, reply: Any, denied: Message | None, code_of: CodeOf) -> Message:
        if not hasattr(reply, field) or not code_of(LIST_ALL):  # a long list is bytes, already filtered
            return reply  # type: ignore[no-any-return]
        lines = (line for line in getattr(reply, field) if not code_of(Permission(GROUP, line.group_id, _DESCRIBE)))
        kept: Message = replace(reply, **{field: tuple(lines)})
        return kept

    return finish


def finish_group_offsets(
    message: ListGroupOffsets, reply: ListGroupOffsetsReply, denied: Message | None, code_of: CodeOf
) -> Message:
    """Keep the groups, and in them the topics, that the client may describe."""

    def shown(topics: dict[str, Any]) -> dict[str, Any]:
        return {name: topics[name] for name in topics if not code_of(Permission(TOPIC, name, _DESCRIBE))}

    described = (one for one in reply.groups if not code_of(Permission(GROUP, one.group_id, _DESCRIBE)))
    groups = (replace(one, topics=shown(one.topics), in_order=shown(one.in_order)) for one in described)
    return replace(reply, groups=tuple(groups))


def finish_end_samples(
    message: ListEndSamples, reply: ListEndSamplesReply, denied: Message | None, code_of: CodeOf
) -> Message:
    """Keep the samples of groups and topics that the client may describe."""

    def is_shown(sample: EndSample) -> bool:
        return not code_of(Permission(GROUP, sample.group_id, _DESCRIBE)) and not code_of(
            Permission(TOPIC, sample.topic, _DESCRIBE)
        )

    return replace(reply, samples=tuple(filter(is_shown, reply.samples)))


def finish_balanced(
    message: DescribeBalanced, reply: DescribeBalancedReply, denied: Message | None, code_of: CodeOf
) -> Message:
    """Keep the groups that the client may describe; those that it named and may not describe are denied."""
    merged: Message = with_denials(finish_list("groups")(message, reply, None, code_of), "groups", denied)
    return merged


def finish_groups(
    message: DescribeGroups, reply: DescribeGroupsReply, denied: Message | None, code_of: CodeOf
) -> Message:
    """Set the authorized operations to those of the client's principal."""
    if message.include_authorized_operations:
        described = tuple(
            replace(group, authorized_operations=_of_group(group.group_id, code_of))
            for group in reply.groups
            if not group.error_code
        )
        reply = replace(reply, groups=described + tuple(group for group in reply.groups if group.error_code))
    merged: Message = with_denials(reply, "groups", denied)
    return merged


def finish_consumer_groups(
    message: ConsumerGroupDescribe, reply: ConsumerGroupDescribeReply, denied: Message | None, code_of: CodeOf
) -> Message:
    """Hide groups with a topic that the client may not describe, and set the authorized operations of the others."""
    groups = []
    for group in reply.groups:
        if any(code_of(Permission(TOPIC, topic, _DESCRIBE)) for topic in topics_of(group)):
            groups.append(DescribedConsumerGroup(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HIDDEN_TOPICS))
        elif message.include_authorized_operations and not group.error_code:
            groups.append(replace(group, authorized_operations=_of_group(group.group_id, code_of)))
        else:
            groups.append(group)
    merged: Message = with_denials(replace(reply, groups=tuple(groups)), "groups", denied)
    return merged


def topics_of(group: DescribedConsumerGroup) -> Iterator[str]:
    """Yield the names of the members' topics, some of them more than once. As in Kafka a topic that a member subscribes
    to counts once it is assigned."""
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (one.topic_name for one in assignment.topic_partitions)


def _of_group(group_id: str, code_of: CodeOf) -> int:
    return authorized_operations(GROUP, group_id, GROUP_OPERATIONS, code_of)


def fetches_all_topics(message: OffsetFetch) -> set[str]:
    """Return the groups of which all topics are fetched: topics that may not be described are then left out, not
    denied."""
    return {group.group_id for group in message.groups if group.topics is None}


def finish_offsets(message: OffsetFetch, reply: OffsetFetchReply, denied: Message | None, code_of: CodeOf) -> Message:
    denied_groups = {group.group_id: group for group in denied.groups} if isinstance(denied, OffsetFetchReply) else {}
    unrestricted = fetches_all_topics(message)
    groups = [
        OffsetFetchGroupReply(
            group.group_id,
            (*_describable(group, unrestricted, code_of), *_denied_topics(denied_groups.pop(group.group_id, None))),
            group.error_code,
        )
        for group in reply.groups
    ]
    return replace(reply, groups=(*groups, *denied_groups.values()))


def _describable(
    group: OffsetFetchGroupReply, unrestricted: set[str], code_of: CodeOf
) -> Iterable[OffsetFetchTopicReply]:
    if group.group_id not in unrestricted:
        return group.topics
    return (topic for topic in group.topics if not code_of(describe_topic(topic)))


def _denied_topics(denied: OffsetFetchGroupReply | None) -> Iterable[OffsetFetchTopicReply]:
    return () if denied is None else denied.topics
