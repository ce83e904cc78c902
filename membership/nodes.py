"""The known nodes, and the choice of the least loaded one for requests to any node
(docs/spec/consumer-client.md#A3)."""

from collections.abc import Iterable, Mapping

from membership.events import NodeAddress
from protocol.messages.topics import MetadataReply

Node = NodeAddress | None
"""Address of a node; None stands for the bootstrap server that the edge has connected to."""


def nodes_of(reply: MetadataReply) -> dict[int, NodeAddress]:
    """Return the nodes of the reply, by id; leaders of partitions are given by these ids."""
    return {one.node_id: NodeAddress(one.host, one.port, one.node_id, one.speaks) for one in reply.brokers}


class Nodes:
    """The known nodes, those that have answered since their last connection was lost, and the order of failures."""

    def __init__(self) -> None:
        self._known: tuple[Node, ...] = (None,)
        self._connected: set[Node] = set()
        self._failures = 0
        self._failed_at: dict[Node, int] = {}

    def learn(self, found: Iterable[NodeAddress]) -> None:
        """Replace the known nodes, except the bootstrap server. Brokers with another dialect are omitted, since such a
        broker would answer a FindCoordinator with itself.
        """
        self._known = (None, *sorted({one for one in found if not one.speaks}))
        self._connected.intersection_update(self._known)
        self._failed_at = {one: at for one, at in self._failed_at.items() if one in self._known}

    def answered(self, node: Node) -> None:
        if node in self._known:
            self._connected.add(node)

    def failed(self, node: Node) -> None:
        """Note that a connection to the node failed or was lost."""
        self._connected.discard(node)
        self._failures += 1
        self._failed_at[node] = self._failures

    def least_loaded(self, in_flight: Mapping[Node, int], jitter: float) -> Node:
        """Return the connected node with the fewest requests in flight; else a node whose connection is being made;
        else the one that failed longest ago. Among equals, `jitter` in [0, 1) decides.
        """

        def rank(node: Node) -> tuple[int, int]:
            waiting = in_flight.get(node, 0)
            if node in self._connected:
                return 0, waiting
            return (1, 0) if waiting else (2, self._failed_at.get(node, 0))

        start = int(jitter * len(self._known))
        return min(self._known[start:] + self._known[:start], key=rank)
