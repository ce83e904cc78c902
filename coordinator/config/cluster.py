"""Keys of the configuration for several nodes over one Kafka cluster (docs/cluster.md)."""

from enum import StrEnum
from typing import Annotated

from coordinator.config.consumer_groups import ConsumerGroupConfig
from coordinator.config.keys import Wrong, about, whole

_LEAST_SESSION_MS = 3_000
"""A heartbeat gives a lease of a session without `ClusterLogSettings.lease_margin_ms`: a session as short as that would
give none."""


class OffsetsLog(StrEnum):
    """Places where groups and offsets are kept."""

    LOCAL = "local"
    CLUSTER = "cluster"


class StandbyShards(StrEnum):
    """Shards of other nodes that a node reads along, so that a take-over reads the rest only."""

    INHERITED = "inherited"
    ALL = "all"
    NONE = "none"


class ClusterConfig(ConsumerGroupConfig, frozen=True, kw_only=True):
    """Keys about the log of groups and offsets, and the nodes that share it."""

    offsets_log: Annotated[
        OffsetsLog,
        about(
            "Where groups and offsets are kept: in the data folder, or in the Kafka cluster behind upstream.servers, "
            "where several nodes share them.",
            section="Several nodes",
        ),
    ] = OffsetsLog.LOCAL
    upstream_nodes_group: Annotated[
        str, about("Consumer group of the Kafka cluster that assigns the shards to the nodes.")
    ] = "__muster_nodes"
    upstream_nodes_session_timeout_ms: Annotated[
        int,
        whole(
            "How long a node may be silent before others take over its shards; the brokers allow 6000.",
            _LEAST_SESSION_MS,
        ),
    ] = 6_000
    upstream_nodes_heartbeat_interval_ms: Annotated[
        int, whole("Interval of a node's heartbeats, whose replies bring its assignment.", 50)
    ] = 100
    standby_shards: Annotated[
        StandbyShards,
        about("Shards of other nodes that are replayed continuously, for a quick take-over; inherited: its next ones."),
    ] = StandbyShards.INHERITED
    upstream_log_replication_factor: Annotated[
        int, whole("Replicas of the topic that keeps groups and offsets in the Kafka cluster.", 1, 32_767)
    ] = 3


def check_cluster(config: ClusterConfig, wrong: Wrong, *, is_beside: bool) -> None:
    """Check the keys that depend on others. Raises ConfigError."""
    if config.offsets_log is OffsetsLog.LOCAL:
        return
    if not is_beside:
        raise wrong("offsets.log", "the log is kept by a Kafka cluster, which upstream.servers (--upstream) names")
    if config.upstream_nodes_heartbeat_interval_ms * 3 > config.upstream_nodes_session_timeout_ms:
        most = config.upstream_nodes_session_timeout_ms // 3
        raise wrong(
            "upstream.nodes.heartbeat.interval.ms",
            f"a third of upstream.nodes.session.timeout.ms ({most}) or less is allowed",
        )
