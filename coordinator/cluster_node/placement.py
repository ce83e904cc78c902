"""Placement of shards on the nodes of one cluster."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from coordinator.cluster_node.events import NodesFound
from coordinator.cluster_node.nodes import COORDINATOR_IDS, NOBODY, LetGo, NodeView, Taken
from coordinator.placement import AdvertisedAddress, Placement

_SETTLES_WITHIN_MS: Final = 2_000
"""Time for which lookups wait for the node that takes a shard over; then the last known state answers them."""
_ENDED_SESSION_MS: Final = 6_000
"""The longest part of an ended node's session for which lookups wait: clients give up after 10 s and more."""


class NodesPlacement(Placement):
    """Placement by the last known state of the nodes' group; `own` has this node's share of everything else.

    News of the nodes tell earlier than the group that an owner has let a shard go, and that the next one serves it.
    They may be late or missing, so they only delay lookups for a while, and end that. The end of an owner's process,
    which the group counts as a member for a session, delays them too.

    Kafka's clients keep one address per node id, and brokers use some ids: so coordinators have other ids, with the
    address of the node.
    """

    def __init__(self, own: Placement, is_served: Callable[[int], bool], session_ms: int) -> None:
        """`is_served` returns true if this node serves a shard now, which may just have been assigned to it.
        `session_ms`: the session timeout of the nodes' group."""
        super().__init__(own.node_id, own.shards, own.addresses)
        self._is_served = is_served
        self._session_ms = session_ms
        self._own = own
        self._nodes: dict[int, NodeView] = {}
        self._owners: tuple[int, ...] = ()
        self._servers: dict[int, Taken] = {}
        """The node that serves each shard, as far as news tell."""
        self._settles_by_ms: dict[int, int] = {}
        self._ended_until_ms: dict[int, int] = {}
        """Nodes whose process has ended, and until when their shards may have no other owner."""

    def found(self, event: NodesFound, now_ms: int) -> list[int]:
        """Replace the known members and owners. Return the shards whose owner is known to serve now."""
        self._nodes = {node.node_id: node for node in event.nodes}
        before, self._owners = self._owners, event.owners
        settled = []
        for shard, owner in enumerate(event.owners):
            server = self._servers.get(shard)
            if server is not None and server.node_id == owner != NOBODY and not self._has_ended(owner, now_ms):
                if self._settles_by_ms.pop(shard, 0):
                    settled.append(shard)
            elif not before or before[shard] != owner:
                self._settles_by_ms[shard] = max(now_ms + _SETTLES_WITHIN_MS, self._ended_until_ms.get(owner, 0))
        return settled

    def left(self) -> None:
        """Name this node no more if others are known: it has left them, and will end."""
        if len(self._nodes) > 1:
            self._nodes.pop(self.node_id, None)

    def let_go(self, news: LetGo, now_ms: int) -> None:
        """Expect another owner of the shard."""
        server = self._servers.get(news.shard)
        if server is None or server.tag <= news.tag:
            self._servers[news.shard] = Taken(news.shard, news.tag, NOBODY)
            self.expect(news.shard, now_ms)

    def taken(self, news: Taken) -> bool:
        """Note that the node serves the shard. Return true if that was expected: the node is then its owner, also for
        a node that has left the group and hears no more of it."""
        shard, server = news.shard, self._servers.get(news.shard)
        if server is not None and (server.tag > news.tag or server == news):
            return False
        self._servers[shard] = news
        self._ended_until_ms.pop(news.node_id, None)
        if not self._owners or not self._settles_by_ms.pop(shard, 0):
            return False
        if news.node_id in self._nodes and shard < len(self._owners):
            self._owners = (*self._owners[:shard], news.node_id, *self._owners[shard + 1 :])
        return True

    def ended(self, node_id: int, now_ms: int) -> None:
        """Let lookups of the node's groups wait: its process has ended."""
        session_ms = min(self._session_ms, _ENDED_SESSION_MS)
        until_ms = self._ended_until_ms[node_id] = now_ms + session_ms + _SETTLES_WITHIN_MS
        for shard, owner in enumerate(self._owners):
            if owner == node_id:
                self._settles_by_ms[shard] = until_ms

    def _has_ended(self, node_id: int, now_ms: int) -> bool:
        return self._ended_until_ms.get(node_id, 0) > now_ms

    def expect(self, shard: int, now_ms: int) -> None:
        """Let lookups of the shard wait for its next owner, unless they do already."""
        if self._settles_by_ms.get(shard, 0) <= now_ms:
            self._settles_by_ms[shard] = now_ms + _SETTLES_WITHIN_MS

    def is_moving(self, shard: int) -> bool:
        return shard in self._settles_by_ms

    def settles_by_ms(self, shard: int, now_ms: int) -> int:
        if not self._owners:
            self.expect(shard, now_ms)
        return self._settles_by_ms.get(shard, 0)

    def owner_of(self, shard: int) -> int:
        """Return the id of the node that owns the shard; -1 if none does."""
        return self._owners[shard] if shard < len(self._owners) else NOBODY

    def is_mine(self, shard: int) -> bool:
        """Until the owners are known, this node waits for every shard."""
        return not self._owners or self.owner_of(shard) == self.node_id

    def is_listed_by(self, shard: int, broker: int) -> bool:
        """Tools query every coordinator, also at listeners of brokers, and each lists the groups that it serves."""
        return self.is_mine(shard)

    def coordinator_of(self, shard: int, dialect: str) -> AdvertisedAddress | None:
        owner = self._nodes.get(self.owner_of(shard))
        if owner is None or (owner.node_id == self.node_id and not self._is_served(shard)):
            return None
        return _address(owner, dialect)

    def coordinators(self) -> dict[int, tuple[str, int]]:
        """Return the address of each node by its id in Kafka's protocol."""
        found = [_address(node, "kafka") for node in self._nodes.values()]
        return {one.node_id: (one.host, one.port) for one in found if one is not None}

    def listeners(self) -> dict[int, tuple[str, int]]:
        """Return the listener in front of each broker that all nodes return to their clients, so that no client is sent
        from one to another. The choice changes for few brokers when a node joins or leaves."""
        brokers = {broker for node in self._nodes.values() for broker in node.listeners}
        return {broker: self._chosen(broker).listeners[broker] for broker in brokers}

    def _chosen(self, broker: int) -> NodeView:
        able = [node for node in self._nodes.values() if broker in node.listeners]
        return max(able, key=lambda node: blake2b(f"{broker}@{node.node_id}".encode(), digest_size=8).digest())

    @property
    def unowned_shards(self) -> int:
        return self._owners.count(NOBODY)

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(sorted(self._nodes)) or (self.node_id,)

    def nodes(self, dialect: str) -> tuple[AdvertisedAddress, ...]:
        if dialect == "kafka":
            return self._own.nodes(dialect)
        found = [_address(node, dialect) for node in self._nodes.values()]
        return tuple(one for one in found if one is not None) or self._own.nodes(dialect)


def _address(node: NodeView, dialect: str) -> AdvertisedAddress | None:
    if dialect not in node.addresses:
        return None
    return AdvertisedAddress(node.node_id + (COORDINATOR_IDS if dialect == "kafka" else 0), *node.addresses[dialect])
