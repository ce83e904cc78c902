"""Who is there, and whom to ask what any node can answer: the least loaded (docs/spec/consumer-client.md#A3)."""

from collections.abc import Iterable, Mapping

from muster.events import NodeAddress
from protocol.messages.topics import MetadataReply

Node = NodeAddress | None
"""None stands for whichever node of the bootstrap the edge is at."""


def nodes_of(reply: MetadataReply) -> dict[int, NodeAddress]:
    """The nodes that the reply names, by id: that of a partition's leader is one of these."""
    return {one.node_id: NodeAddress(one.host, one.port, one.node_id, one.speaks) for one in reply.brokers}


class Nodes:
    """The nodes heard of, which of them have answered since a connection to them was last lost, and when each was last
    tried in vain.
    """

    def __init__(self) -> None:
        self._known: tuple[Node, ...] = (None,)
        self._connected: set[Node] = set()
        self._failures = 0
        self._failed_at: dict[Node, int] = {}

    def learn(self, found: Iterable[NodeAddress]) -> None:
        """These there are, beside those of the bootstrap; what was known before is no longer there. Brokers that
        speak another dialect are not for this: one that is asked for a group's coordinator names itself.
        """
        self._known = (None, *sorted({one for one in found if not one.speaks}))
        self._connected.intersection_update(self._known)
        self._failed_at = {one: at for one, at in self._failed_at.items() if one in self._known}

    def answered(self, node: Node) -> None:
        if node in self._known:
            self._connected.add(node)

    def failed(self, node: Node) -> None:
        """There is no connection to it, or none any more."""
        self._connected.discard(node)
        self._failures += 1
        self._failed_at[node] = self._failures

    def least_loaded(self, in_flight: Mapping[Node, int], jitter: float) -> Node:
        """One that is connected, with the fewest of the requests `in_flight`; else one to which a connection is being
        made; else the one that failed longest ago. Among equals, `jitter` in [0, 1) decides.
        """

        def rank(node: Node) -> tuple[int, int]:
            waiting = in_flight.get(node, 0)
            if node in self._connected:
                return 0, waiting
            return (1, 0) if waiting else (2, self._failed_at.get(node, 0))

        start = int(jitter * len(self._known))
        return min(self._known[start:] + self._known[:start], key=rank)
