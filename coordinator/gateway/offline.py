"""What clients in front of the brokers are told in their place while none of them can be reached, as their answers
would tell it: every address is a listener of ours."""

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.handlers.core import Core
from coordinator.handlers.describe_cluster import BROKERS
from coordinator.handlers.describe_cluster import describe_cluster as describe_nodes
from protocol.messages.node import DescribeCluster, DescribeClusterReply, DescribedBroker
from protocol.messages.topics import OPERATIONS_NOT_REQUESTED, MetadataBroker, MetadataReply, MetadataTopicReply
from protocol.session import RequestRef


def is_in_front(core: Core, ref: RequestRef) -> bool:
    """Whether it was asked on a connection that leads to a broker."""
    connection = core.connections.get(ref.connection)
    return connection is not None and connection.broker is not None


def metadata_of_brokers(topics: UpstreamTopics, known: tuple[MetadataTopicReply, ...]) -> MetadataReply:
    """What is known of topics was told to others, so what they may do there is not."""
    brokers = topics.brokers.known.values()
    return MetadataReply(
        brokers=tuple(MetadataBroker(one.node_id, one.front_host, one.front_port, one.rack) for one in brokers),
        cluster_id=topics.deleted.cluster_id,
        controller_id=_controller(topics),
        topics=tuple(_for_anybody(topic) for topic in known),
    )


def describe_cluster(
    topics: UpstreamTopics, core: Core, ref: RequestRef, message: DescribeCluster, moment: Moment
) -> None:
    """The brokers, for who asks in front of one; what others are told is as without brokers."""
    if message.endpoint_type != BROKERS or not is_in_front(core, ref):
        describe_nodes(core, ref, message, moment)
        return
    known = topics.brokers.known.values()
    reply = DescribeClusterReply(
        topics.deleted.cluster_id or "",
        _controller(topics),
        tuple(DescribedBroker(one.node_id, one.front_host, one.front_port, one.rack) for one in known),
    )
    core.outbox.send(ref, reply)


def _for_anybody(topic: MetadataTopicReply) -> MetadataTopicReply:
    if topic.topic_authorized_operations == OPERATIONS_NOT_REQUESTED:
        return topic
    return replace(topic, topic_authorized_operations=OPERATIONS_NOT_REQUESTED)


def _controller(topics: UpstreamTopics) -> int:
    """Any of them: each hands on what is the controller's."""
    return min(topics.brokers.known, default=-1)
