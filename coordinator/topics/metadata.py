"""Descriptions of topics: Metadata, and DescribeTopicPartitions in pages (KIP-966)."""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.topics.registry import Topic, TopicList
from coordinator.topics.rules import TopicSettings, refuse_name
from protocol.errors import ErrorCode
from protocol.messages.topics import (
    OPERATIONS_NOT_REQUESTED,
    CreatableTopic,
    DescribedPartition,
    DescribedTopic,
    DescribeTopicPartitions,
    DescribeTopicPartitionsReply,
    Metadata,
    MetadataPartitionReply,
    MetadataTopic,
    MetadataTopicReply,
    TopicCursor,
)

Sees = Callable[[str], bool] | None
"""Says whether who asks may describe a topic; None: all of them."""
TOPIC_OPERATIONS, CLUSTER_OPERATIONS = 3576, 8096
"""Operations that are allowed to all clients without an authorizer, as Kafka's bit fields: read, write, create, delete,
alter, describe, describe and alter configs of a topic; of the cluster create, alter, describe, cluster action, configs,
and idempotent writes."""
MOST_PARTITIONS = 2_000
"""Largest number of partitions in one page."""

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def metadata(
    topics: TopicList, settings: TopicSettings, message: Metadata, moment: Moment
) -> tuple[MetadataTopicReply, ...]:
    """Describe the topics asked for, in that order, once each; a missing topic is created if message and settings allow
    it. The reply waits for the list's `position`."""
    if message.topics is None:
        replies = [topic.reply for topic in topics.all()]
    else:
        may_create = message.allow_auto_topic_creation and settings.auto_create
        most = min(len(topics) + settings.max_new_topics_per_request, settings.max_topics * 9 // 10)
        replies = [
            # Clients repeat requests for unknown topics, and so may create many. The last tenth of the limit is left
            # for topics that are created on purpose.
            _describe(topics, wanted, moment, may_create=may_create and len(topics) < most)
            for wanted in dict.fromkeys(message.topics)
        ]
    if message.include_topic_authorized_operations:
        replies = [
            reply if reply.error_code else replace(reply, topic_authorized_operations=TOPIC_OPERATIONS)
            for reply in replies
        ]
    return tuple(replies)


def _describe(topics: TopicList, wanted: MetadataTopic, moment: Moment, *, may_create: bool) -> MetadataTopicReply:
    name = topics.name_of(wanted.topic_id) if wanted.name is None else wanted.name
    if name is None:
        return MetadataTopicReply(None, wanted.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
    topic = topics.find(name)
    if topic is not None:
        return topic.reply
    made = topics.make(CreatableTopic(name), moment) if may_create else refuse_name(name)
    if made is None:
        return MetadataTopicReply(name, error_code=_UNKNOWN)
    if isinstance(made, Topic):
        return made.reply
    # A topic that is still being deleted does not exist, and can be created once it is deleted.
    is_deleted = made.error is ErrorCode.TOPIC_ALREADY_EXISTS
    return MetadataTopicReply(name, error_code=_UNKNOWN if is_deleted else made.error)


# ---------------------------------------------------------------------------------------------------------- in pages


def describe_partitions(
    topics: TopicList, message: DescribeTopicPartitions, sees: Sees = None
) -> DescribeTopicPartitionsReply:
    """Describe topics by name, sorted, from the cursor on, with as many partitions as one page may have. Unknown topics
    take no space in it, nor do those that a request for all topics may not see; None: it may see all."""
    asked = [topic.name for topic in message.topics]
    cursor = message.cursor
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        return DescribeTopicPartitionsReply(
            tuple(DescribedTopic(name, error_code=ErrorCode.INVALID_REQUEST) for name in asked)
        )
    first = "" if cursor is None else cursor.topic_name
    names: Iterable[str] = topics.names_from(first) if sees is None else filter(sees, topics.names_from(first))
    if asked:
        names = sorted(name for name in set(asked) if name >= first)
    room = max(min(message.response_partition_limit, MOST_PARTITIONS), 1)
    described: list[DescribedTopic] = []
    for name in names:
        topic = topics.find(name)
        if topic is None:
            described.append(_absent(name))
            continue
        if room <= 0:
            return DescribeTopicPartitionsReply(tuple(described), TopicCursor(name, 0))
        begin = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        page = topic.reply.partitions[begin : begin + room]
        described.append(_page(topic, page))
        room -= len(page)
        if begin + len(page) < topic.record.partitions:
            return DescribeTopicPartitionsReply(tuple(described), TopicCursor(name, begin + len(page)))
    return DescribeTopicPartitionsReply(tuple(described))


def _absent(name: str) -> DescribedTopic:
    refused = refuse_name(name)
    error = _UNKNOWN if refused is None else refused.error
    return DescribedTopic(name, error_code=error, topic_authorized_operations=TOPIC_OPERATIONS)


def _page(topic: Topic, partitions: Sequence[MetadataPartitionReply]) -> DescribedTopic:
    return DescribedTopic(
        name=topic.record.name,
        topic_id=topic.record.topic_id,
        is_internal=topic.reply.is_internal,
        partitions=tuple(
            [
                DescribedPartition(
                    partition_index=part.partition_index,
                    leader_id=part.leader_id,
                    replica_nodes=part.replica_nodes,
                    isr_nodes=part.isr_nodes,
                    eligible_leader_replicas=(),
                    last_known_elr=(),
                )
                for part in partitions
            ]
        ),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def operations(asked: bool, all_of_them: int) -> int:
    """Return the bit field if it was requested."""
    return all_of_them if asked else OPERATIONS_NOT_REQUESTED
