"""EDGE: builds a node's part in the cluster's log from the configuration."""

from collections.abc import Mapping
from pathlib import Path

from coordinator import __version__
from coordinator.cluster_log.settings import ClusterLogSettings
from coordinator.cluster_node.cluster_shards import ClusterShards
from coordinator.cluster_node.nodes import NodeView
from coordinator.config.cluster import OffsetsLog
from coordinator.config.config import Config
from coordinator.gateway.cluster.nodes_group import FollowedShards
from coordinator.gateway.io.cluster.cluster_edge import ClusterEdge, ClusterPlan
from coordinator.gateway.io.cluster.link import ClusterLink
from coordinator.gateway.io.security import nodes_tls
from coordinator.gateway.io.supervisor import Supervisor
from coordinator.io.server import Server, read_clock


class ClusterPart:
    """A node's part in the cluster's log: `shards` whose logs are there, and the edge that serves them. Empty for a
    node with a log of its own."""

    def __init__(self, config: Config, server: Server, beside: Supervisor | None) -> None:
        self.shards: ClusterShards | None = None
        self._edge: ClusterEdge | None = None
        self._node_id = config.node_id
        self._beside = beside
        if config.offsets_log is OffsetsLog.LOCAL or config.upstream_servers is None or beside is None:
            return
        settings = ClusterLogSettings(session_ms=config.upstream_nodes_session_timeout_ms, node_id=config.node_id)
        self.shards = ClusterShards(settings, read_clock(), config.max_unflushed_bytes)
        peers_tls = nodes_tls(config)
        plan = ClusterPlan(
            config.node_id,
            config.offsets_topic_num_partitions,
            config.upstream_log_replication_factor,
            config.upstream_nodes_group,
            config.upstream_nodes_heartbeat_interval_ms,
            FollowedShards(config.standby_shards.value),
            settings,
            notes_bytes=config.journal_retention_bytes,
            peers_tls=None if peers_tls is None else peers_tls.context,
            folder=Path(config.data_dir),
        )
        servers = config.upstream_servers.host_ports
        self._edge = ClusterEdge(server, plan, ClusterLink(servers, beside.open_client, beside.cluster_mismatch))

    async def join(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        """Join the other nodes, which learn these addresses by dialect, and return once the shards' owners are known.
        Raises ConfigError."""
        if self._edge is not None and self._beside is not None:
            await self._edge.start(NodeView(self._node_id, dict(addresses), self._beside.listeners, __version__))

    async def leave(self) -> None:
        """Hand over this node's shards, while the node still answers."""
        if self._edge is not None:
            await self._edge.leave()

    async def stop(self) -> None:
        """Close the connections."""
        if self._edge is not None:
            await self._edge.stop()
