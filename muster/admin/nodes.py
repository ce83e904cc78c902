"""Requests to every node: each musterd lists its own groups, as each of Kafka's brokers does."""

from collections.abc import Callable
from typing import Final, TypeVar

from membership.events import NodeAddress
from membership.nodes import nodes_of
from muster.blocking.cluster import ClusterClient, expect
from muster.errors import MusterError
from protocol.messages import Message
from protocol.messages.groups import ListedGroup, ListGroups, ListGroupsReply
from protocol.messages.node import DescribeCluster, DescribeClusterReply, DescribeNode, DescribeNodeReply
from protocol.messages.topics import Metadata, MetadataReply

_ANSWER_WITHIN_S: Final = 5.0
_UNOWNED: Final = "unowned_shards"
"""Gauge of the shards that no node serves."""
M = TypeVar("M", bound=Message)
Node = NodeAddress | None
"""Address of a node; None stands for the bootstrap server, if that is the only one."""


def list_groups(cluster: ClusterClient, left_out: Callable[[str], None]) -> list[ListedGroup]:
    """Return the groups of all nodes, by id, each once, even if it moves meanwhile and two nodes list it. `left_out` is
    called with a sentence about nodes that do not answer, or shards that no node serves. Groups of brokers beside
    musterd are not included."""
    nodes = nodes_with_groups(cluster)
    told = ask_each(cluster, ListGroupsReply, ListGroups(), nodes, left_out)
    found = {group.group_id: group for reply in told.values() for group in reply.groups}
    if cluster.is_native and len(nodes) > 1:
        _report_unserved(cluster, [*told], left_out)
    return [found[group_id] for group_id in sorted(found)]


def nodes_with_groups(cluster: ClusterClient) -> list[Node]:
    """Return the nodes that coordinate groups."""
    if cluster.is_native:
        told = expect(DescribeClusterReply, cluster.ask(DescribeCluster())).brokers
        nodes = [NodeAddress(one.host, one.port, one.broker_id) for one in told]
        return [*nodes] if len(nodes) > 1 else [None]
    return [*nodes_of(expect(MetadataReply, cluster.ask(Metadata(topics=())))).values()] or [None]


def ask_each(
    cluster: ClusterClient, kind: type[M], message: Message, nodes: list[Node], left_out: Callable[[str], None]
) -> dict[Node, M]:
    """Send the request to all nodes at once; `left_out` is called for those that do not answer in time, or refuse.
    Raises the first of these failures if no node answers."""
    if nodes == [None]:
        return {None: expect(kind, cluster.ask(message))}
    found: dict[Node, M] = {}
    failures: dict[Node, MusterError] = {}
    for node, answer in cluster.ask_each(message, [one for one in nodes if one], _ANSWER_WITHIN_S).items():
        try:
            if isinstance(answer, MusterError):
                raise answer
            found[node] = expect(kind, answer)
        except MusterError as failure:
            failures[node] = failure
    if not found:
        raise next(iter(failures.values()))
    for silent, why in failures.items():
        left_out(f"the groups of {silent} are left out: {why}")
    return found


def _report_unserved(cluster: ClusterClient, nodes: list[Node], left_out: Callable[[str], None]) -> None:
    """Report the number of shards that no node serves, according to these nodes."""
    told = ask_each(cluster, DescribeNodeReply, DescribeNode(), nodes, left_out).values()
    unserved = sum(one.shards_total - one.shards_loaded for one in told)
    unserved += max(one.gauges.get(_UNOWNED, 0) for one in told)
    if unserved:
        shards = "1 shard" if unserved == 1 else f"{unserved} shards"
        left_out(f"the groups of {shards} are left out: no node serves them now")
