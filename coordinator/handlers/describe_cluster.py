"""Answer DescribeCluster."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.topics.metadata import CLUSTER_OPERATIONS, operations
from protocol.errors import ErrorCode
from protocol.messages.node import DescribeCluster, DescribeClusterReply, DescribedBroker
from protocol.session import RequestRef

BROKERS, _CONTROLLERS = 1, 2
"""Endpoint types of DescribeCluster."""


def describe_cluster(core: Core, ref: RequestRef, message: DescribeCluster, moment: Moment) -> None:
    """List every node, with addresses for clients of the asking dialect."""
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
