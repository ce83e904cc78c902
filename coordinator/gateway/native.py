"""Metadata for native clients in front of a cluster, which fetch records from its brokers, and their requests that are
forwarded to the cluster."""

from typing import Final

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.core.core import INTERNAL, Core
from coordinator.gateway.brokers import Brokers
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.offline import is_proxied, proxied_metadata
from coordinator.gateway.session.apis import CONFIG_APIS, names_only_groups
from coordinator.handlers.metadata import metadata as metadata_of_nodes
from coordinator.topics.metadata import CLUSTER_OPERATIONS, operations
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.configs import AlterConfigs, DescribeConfigs, IncrementalAlterConfigs
from protocol.messages.node import ErrorReply
from protocol.messages.topics import (
    CreatePartitions,
    CreatePartitionsReply,
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

FORWARDED_APIS: Final[tuple[type[Message], ...]] = (CreateTopics, DeleteTopics, CreatePartitions, *CONFIG_APIS)
"""Requests that the cluster serves; those about configs unless they are about groups."""
_KAFKA: Final = "kafka"
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_CREATED_TTL_MS: Final = 30_000
"""Time for which a newly created topic counts as existing, even if some broker does not know it yet."""
_MAX_CREATED: Final = 10_000


def metadata(topics: UpstreamTopics, core: Core, ref: RequestRef, message: Metadata, moment: Moment) -> None:
    """Answer Metadata with the brokers at their own addresses, which match the partition leaders.

    Kafka clients' requests go to their broker; while no broker can be reached they are answered here, with the
    listeners' addresses. Internal requests get this node.
    """
    if ref.connection == INTERNAL:
        metadata_of_nodes(core, ref, message, moment)
        return
    known = tuple(
        _retriable_if_unsure(topics, topic, moment.monotonic_ms) for topic in topics.metadata(message, moment)
    )
    if is_proxied(core, ref):
        core.outbox.send(ref, proxied_metadata(topics, known))
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


def _retriable_if_unsure(topics: UpstreamTopics, topic: MetadataTopicReply, now_ms: int) -> MetadataTopicReply:
    """Replace UNKNOWN_TOPIC_OR_PARTITION, on which clients give up, by a retriable error while the cluster cannot be
    asked or the topic was just created."""
    if topic.error_code != _UNKNOWN:
        return topic
    if topics.brokers.is_reachable and topics.made.get(topic.name or "", now_ms) <= now_ms:
        return topic
    return replace(topic, error_code=ErrorCode.LEADER_NOT_AVAILABLE)


def _track_created(topics: UpstreamTopics, message: Message, reply: Message, now_ms: int) -> None:
    made = topics.made
    if isinstance(reply, CreateTopicsReply) and isinstance(message, CreateTopics) and not message.validate_only:
        if len(made) > _MAX_CREATED:
            made.clear()
        made.update((one.name, now_ms + _CREATED_TTL_MS) for one in reply.topics if not one.error_code)
        topics.outdate(one.name for one in reply.topics)
    elif isinstance(reply, CreatePartitionsReply):
        topics.outdate(one.name for one in reply.results)
    elif isinstance(reply, DeleteTopicsReply):
        for gone in reply.responses:
            made.pop(gone.name or "", None)
        topics.outdate(one.name or "" for one in reply.responses)


def is_local(message: Message) -> bool:
    """Return whether the request is served here."""
    if not isinstance(message, AlterConfigs | DescribeConfigs | IncrementalAlterConfigs):
        return False
    return names_only_groups(message)


def unavailable(brokers: Brokers, message: Message) -> ErrorReply:
    """Return the reply to a request that cannot be forwarded now."""
    why = brokers.reason or "too many requests wait for its replies"
    return ErrorReply(ErrorCode.BROKER_NOT_AVAILABLE, f"{type(message).__name__} is the cluster's to do: {why}")


def forwarded_reply(topics: UpstreamTopics, message: Message, reply: Message | None, now_ms: int) -> Message:
    """Return the cluster's reply to a forwarded request, or an error if there is none."""
    if reply is not None:
        _track_created(topics, message, reply, now_ms)
        return reply
    name = type(message).__name__
    return ErrorReply(ErrorCode.REQUEST_TIMED_OUT, f"the cluster did not answer {name} in time: it may be done or not")
