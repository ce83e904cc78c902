"""Replies for proxied clients while no broker can be reached, as their broker would send them, with the listeners as
addresses."""

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.handlers.describe_cluster import BROKERS
from coordinator.handlers.describe_cluster import describe_cluster as describe_nodes
from protocol.messages.node import DescribeCluster, DescribeClusterReply, DescribedBroker
from protocol.messages.topics import OPERATIONS_NOT_REQUESTED, MetadataBroker, MetadataReply, MetadataTopicReply
from protocol.session import RequestRef


def is_proxied(core: Core, ref: RequestRef) -> bool:
    """Return whether the request came on a proxied connection."""
    connection = core.connections.get(ref.connection)
    return connection is not None and connection.broker is not None


def proxied_metadata(topics: UpstreamTopics, known: tuple[MetadataTopicReply, ...]) -> MetadataReply:
    """Return known topics at the listeners. Authorized operations are left out: they are another principal's."""
    return MetadataReply(
        brokers=tuple(MetadataBroker(*one) for one in topics.brokers.described()),
        cluster_id=topics.deleted.cluster_id,
        controller_id=_controller(topics),
        topics=tuple(_without_operations(topic) for topic in known),
    )


def describe_cluster(
    topics: UpstreamTopics, core: Core, ref: RequestRef, message: DescribeCluster, moment: Moment
) -> None:
    """Answer with the brokers on a proxied connection, with this node on others."""
    if message.endpoint_type != BROKERS or not is_proxied(core, ref):
        describe_nodes(core, ref, message, moment)
        return
    reply = DescribeClusterReply(
        topics.deleted.cluster_id or "",
        _controller(topics),
        tuple(DescribedBroker(*one) for one in topics.brokers.described()),
    )
    core.outbox.send(ref, reply)


def _without_operations(topic: MetadataTopicReply) -> MetadataTopicReply:
    if topic.topic_authorized_operations == OPERATIONS_NOT_REQUESTED:
        return topic
    return replace(topic, topic_authorized_operations=OPERATIONS_NOT_REQUESTED)


def _controller(topics: UpstreamTopics) -> int:
    """Return any broker's id: each forwards requests to the controller."""
    return min(topics.brokers.known, default=-1)
