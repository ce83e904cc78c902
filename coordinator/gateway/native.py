"""What native clients are told of beside brokers: where records are, which they read there themselves; and what of
their requests is handed to the cluster, since it alone can do it."""

from typing import Final

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.gateway.brokers import Brokers
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.offline import is_in_front, metadata_of_brokers
from coordinator.gateway.session.apis import OF_GROUPS, names_groups_alone
from coordinator.handlers.core import INTERNAL, Core
from coordinator.handlers.metadata import metadata as metadata_of_nodes
from coordinator.topics.metadata import CLUSTER_OPERATIONS, operations
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.configs import AlterConfigs, DescribeConfigs, IncrementalAlterConfigs
from protocol.messages.node import ErrorReply
from protocol.messages.topics import (
    CreatePartitions,
    CreateTopics,
    CreateTopicsReply,
    DeleteTopics,
    DeleteTopicsReply,
    Metadata,
    MetadataBroker,
    MetadataReply,
    MetadataTopicReply,
)
from protocol.session import RequestRef

HANDED_ON: Final[tuple[type[Message], ...]] = (CreateTopics, DeleteTopics, CreatePartitions, *OF_GROUPS)
"""Settings too, unless they are of groups."""
_KAFKA: Final = "kafka"
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_MADE_FOR_MS: Final = 30_000
"""How long a topic that the cluster has made is one, whichever of its brokers has not heard of it yet."""
_MOST_MADE: Final = 10_000


def metadata(core: Core, ref: RequestRef, message: Metadata, moment: Moment) -> None:
    """The cluster's brokers at their own addresses, whose ids partitions' leaders have. Clients of Kafka's dialect ask
    their broker; while there is none they come here, and are told of brokers as their broker's answer would tell them.
    Who asks from inside is told of this node.
    """
    if ref.connection == INTERNAL:
        metadata_of_nodes(core, ref, message, moment)
        return
    topics = core.topics
    assert isinstance(topics, UpstreamTopics)
    known = tuple(_or_not_yet(topics, topic, moment.monotonic_ms) for topic in topics.metadata(message, moment))
    if is_in_front(core, ref):
        core.outbox.send(ref, metadata_of_brokers(topics, known))
        return
    reply = MetadataReply(
        brokers=tuple(
            MetadataBroker(one.node_id, one.host, one.port, one.rack, _KAFKA) for one in topics.brokers.known.values()
        ),
        cluster_id=core.cluster_id,
        topics=known,
        cluster_authorized_operations=operations(message.include_cluster_authorized_operations, CLUSTER_OPERATIONS),
    )
    core.outbox.send(ref, reply)


def _or_not_yet(topics: UpstreamTopics, topic: MetadataTopicReply, now_ms: int) -> MetadataTopicReply:
    """Who is told that a topic is not there gives up: not while nobody can be asked, nor when it has just been made."""
    if topic.error_code != _UNKNOWN:
        return topic
    if topics.brokers.is_reachable and topics.made.get(topic.name or "", now_ms) <= now_ms:
        return topic
    return replace(topic, error_code=ErrorCode.LEADER_NOT_AVAILABLE)


def _learn(topics: UpstreamTopics, message: Message, said: Message, now_ms: int) -> None:
    made = topics.made
    if isinstance(said, CreateTopicsReply) and isinstance(message, CreateTopics) and not message.validate_only:
        if len(made) > _MOST_MADE:
            made.clear()
        made.update((one.name, now_ms + _MADE_FOR_MS) for one in said.topics if not one.error_code)
    elif isinstance(said, DeleteTopicsReply):
        for gone in said.responses:
            made.pop(gone.name or "", None)


def is_ours(message: Message) -> bool:
    """Whether it need not be handed on."""
    if not isinstance(message, AlterConfigs | DescribeConfigs | IncrementalAlterConfigs):
        return False
    return names_groups_alone(message)


def not_now(brokers: Brokers, message: Message) -> ErrorReply:
    """It cannot be handed on."""
    why = brokers.reason or "too many wait for its answers"
    return ErrorReply(ErrorCode.BROKER_NOT_AVAILABLE, f"{type(message).__name__} is the cluster's to do: {why}")


def answer(topics: UpstreamTopics, message: Message, said: Message | None, now_ms: int) -> Message:
    """What the cluster said of what was handed on to it."""
    if said is not None:
        _learn(topics, message, said, now_ms)
        return said
    name = type(message).__name__
    return ErrorReply(ErrorCode.REQUEST_TIMED_OUT, f"the cluster did not answer {name} in time: it may be done or not")
