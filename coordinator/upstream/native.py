"""What native clients are told of beside brokers: where records are, which they read there themselves; and what of
their requests is handed to the cluster, since it alone can do it."""

from typing import Final

from msgspec.structs import replace

from coordinator.core import ASKED, Core
from coordinator.moment import Moment
from coordinator.topic_metadata import CLUSTER_OPERATIONS, operations
from coordinator.topic_requests import metadata as metadata_of_nodes
from coordinator.upstream.brokers import Brokers
from coordinator.upstream.topics import UpstreamTopics
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import Refused
from protocol.messages.topics import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Metadata,
    MetadataBroker,
    MetadataReply,
    MetadataTopicReply,
)
from protocol.session import RequestRef

HANDED_ON: Final = (CreateTopics, DeleteTopics, CreatePartitions)
_KAFKA: Final = "kafka"
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def metadata(core: Core, ref: RequestRef, message: Metadata, moment: Moment) -> None:
    """The cluster's brokers at their own addresses, whose ids partitions' leaders have. Of those of Kafka's dialect
    none come here: they ask their broker. Who asks from inside is told of this node.
    """
    if ref.connection == ASKED:
        metadata_of_nodes(core, ref, message, moment)
        return
    topics = core.topics
    assert isinstance(topics, UpstreamTopics)
    known = topics.metadata(message, moment)
    reply = MetadataReply(
        brokers=tuple(
            MetadataBroker(one.node_id, one.host, one.port, one.rack, _KAFKA) for one in topics.brokers.known.values()
        ),
        cluster_id=core.cluster_id,
        topics=known if topics.brokers.is_reachable else tuple(map(_maybe_there, known)),
        cluster_authorized_operations=operations(message.include_cluster_authorized_operations, CLUSTER_OPERATIONS),
    )
    core.outbox.send(ref, reply)


def _maybe_there(topic: MetadataTopicReply) -> MetadataTopicReply:
    """Nobody can be asked: who is told that it is not there gives up."""
    return replace(topic, error_code=ErrorCode.LEADER_NOT_AVAILABLE) if topic.error_code == _UNKNOWN else topic


def not_now(brokers: Brokers, message: Message) -> Refused:
    """It cannot be handed on."""
    why = brokers.reason or "too many wait for its answers"
    return Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"{type(message).__name__} is the cluster's to do: {why}")


def answer(message: Message, said: Message | None) -> Message:
    """What the cluster said of what was handed on to it."""
    if said is not None:
        return said
    name = type(message).__name__
    return Refused(ErrorCode.REQUEST_TIMED_OUT, f"the cluster did not answer {name} in time: it may be done or not")
