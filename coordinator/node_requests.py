"""Who answers the messages about the node and its topics."""

from coordinator.core import Core
from coordinator.moment import Moment
from coordinator.topic_metadata import CLUSTER_OPERATIONS, operations
from coordinator.views import describe_node
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID
from protocol.messages.node import (
    DescribeCluster,
    DescribeClusterReply,
    DescribedBroker,
    DescribeNode,
    FindCoordinator,
    FindCoordinatorReply,
    FoundCoordinator,
)
from protocol.messages.offsets import ListOffsets
from protocol.session import RequestRef

_GROUP_KEY, _TRANSACTION_KEY = 0, 1
BROKERS, _CONTROLLERS = 1, 2
"""What DescribeCluster may ask for."""


def find_coordinator(core: Core, ref: RequestRef, message: FindCoordinator, moment: Moment) -> None:
    """Who serves each group, as clients of the asking dialect reach it (group-protocol 2.11)."""
    dialect = core.dialect(ref.connection)
    found = []
    for key in message.coordinator_keys:
        if message.key_type == _TRANSACTION_KEY:
            # Of all refusals the one that ends every client: what librdkafka may take for passing it asks for ever.
            text = "transactions are not served here: produce without a transactional id"
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            found.append(FoundCoordinator(key, error_code=error, error_message=text))
            continue
        if message.key_type != _GROUP_KEY:
            text = f"coordinators of key type {message.key_type} are not served"
            found.append(FoundCoordinator(key, error_code=ErrorCode.INVALID_REQUEST, error_message=text))
            continue
        if len(key) > LONGEST_GROUP_ID:
            text = f"a group id has at most {LONGEST_GROUP_ID} characters, not {len(key)}"
            found.append(FoundCoordinator(key, error_code=ErrorCode.INVALID_GROUP_ID, error_message=text))
            continue
        node = core.placement.node_of_shard(core.placement.shard_of(key), dialect)
        found.append(FoundCoordinator(key, node.node_id, node.host, node.port))
    core.outbox.send(ref, FindCoordinatorReply(tuple(found)))


def describe(core: Core, ref: RequestRef, message: DescribeNode, moment: Moment) -> None:
    """The node's health in numbers."""
    core.outbox.send(ref, describe_node(core))


def describe_cluster(core: Core, ref: RequestRef, message: DescribeCluster, moment: Moment) -> None:
    """Every node, as clients of the asking dialect reach it."""
    core.outbox.send(ref, _cluster(core, ref, message))


def _cluster(core: Core, ref: RequestRef, message: DescribeCluster) -> DescribeClusterReply:
    if message.endpoint_type != BROKERS:
        error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        text = f"endpoint type {message.endpoint_type} is not known"
        if message.endpoint_type == _CONTROLLERS:
            error, text = ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is an endpoint of brokers, not of controllers"
        return DescribeClusterReply("", error_code=error, error_message=text)
    nodes = core.placement.nodes(core.dialect(ref.connection))
    return DescribeClusterReply(
        core.cluster_id,
        controller_id=core.placement.node_id,
        brokers=tuple(DescribedBroker(node.node_id, node.host, node.port) for node in nodes),
        cluster_authorized_operations=operations(message.include_cluster_authorized_operations, CLUSTER_OPERATIONS),
    )


def list_offsets(core: Core, ref: RequestRef, message: ListOffsets, moment: Moment) -> None:
    """First, last, and by time; durable when told."""
    reply, position = core.topics.list_offsets(message)
    core.outbox.hold(position, ref, reply)
