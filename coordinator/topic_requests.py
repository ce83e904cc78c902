"""Who answers the messages about topics: what there is, and its administration."""

from coordinator.balanced_requests import topics_changed
from coordinator.core import Core
from coordinator.deletions import CHORE
from coordinator.fetch_ends import fetch_ready
from coordinator.moment import Moment
from coordinator.topic_metadata import CLUSTER_OPERATIONS, operations
from coordinator.topic_rules import Refusal
from coordinator.upkeep import run_chore
from protocol.messages.data import OffsetForLeaderEpoch
from protocol.messages.topics import (
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    DescribeTopicPartitions,
    Metadata,
    MetadataBroker,
    MetadataReply,
)
from protocol.session import RequestRef


def metadata(core: Core, ref: RequestRef, message: Metadata, moment: Moment) -> None:
    """Topics and who leads their partitions. Nobody hears of a topic that a crash could undo, whoever made it."""
    topics = core.topics.metadata(message, moment)
    reply = MetadataReply(
        brokers=tuple(
            MetadataBroker(n.node_id, n.host, n.port) for n in core.placement.nodes(core.dialect(ref.connection))
        ),
        cluster_id=core.cluster_id,
        controller_id=core.placement.node_id,
        topics=topics,
        cluster_authorized_operations=operations(message.include_cluster_authorized_operations, CLUSTER_OPERATIONS),
    )
    core.outbox.hold(core.topics.position, ref, reply)


def describe_topic_partitions(core: Core, ref: RequestRef, message: DescribeTopicPartitions, moment: Moment) -> None:
    """The same in pages."""
    core.outbox.hold(core.topics.position, ref, core.topics.describe_partitions(message))


def create_topics(core: Core, ref: RequestRef, message: CreateTopics, moment: Moment) -> None:
    """New embedded topics, durable when answered."""
    reply, position = core.topics.create(message, moment)
    topics_changed(core, moment)
    core.outbox.hold(position, ref, reply)


def create_partitions(core: Core, ref: RequestRef, message: CreatePartitions, moment: Moment) -> None:
    """More partitions, durable when answered."""
    reply, position = core.topics.grow(message, moment)
    topics_changed(core, moment)
    core.outbox.hold(position, ref, reply)


def delete_topics(core: Core, ref: RequestRef, message: DeleteTopics, moment: Moment) -> None:
    """Answered when nothing is left of them, in the logs and in what groups have committed, and that is durable."""
    replies, names = [], set()
    for wanted, topic in core.topics.deletable(message):
        if isinstance(topic, Refusal):
            replies.append(DeletedTopic(wanted.name, wanted.topic_id, topic.error, topic.message))
            continue
        name, topic_id = topic.record.name, topic.record.topic_id
        nudged = core.topics.delete(topic, moment)
        if isinstance(nudged, Refusal):
            replies.append(DeletedTopic(name, topic_id, nudged.error, nudged.message))
            continue
        replies.append(DeletedTopic(name, topic_id))
        names.add(name)
        for key in nudged:
            for ready in core.purgatory.check_and_complete(key):
                fetch_ready(core, ready)
    if names:
        topics_changed(core, moment)
    core.deletions.wait(ref, replies, names, moment.monotonic_ms + max(message.timeout_ms, 0))
    run_chore(core, CHORE, moment)


def offset_for_leader_epoch(core: Core, ref: RequestRef, message: OffsetForLeaderEpoch, moment: Moment) -> None:
    """Where epochs of leaders end."""
    core.outbox.send(ref, core.topics.end_offsets(message))
