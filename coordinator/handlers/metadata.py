"""Answer Metadata."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.topics.metadata import CLUSTER_OPERATIONS, operations
from protocol.messages.topics import Metadata, MetadataBroker, MetadataReply
from protocol.session import RequestRef


def metadata(core: Core, ref: RequestRef, message: Metadata, moment: Moment) -> None:
    """Describe topics and the leaders of their partitions. A topic is shown only once its creation is durable."""
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
