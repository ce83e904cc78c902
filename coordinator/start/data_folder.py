"""EDGE: opens and recovers the data folder."""

import resource
import uuid

import msgspec
import structlog

from coordinator.config.cluster import OffsetsLog
from coordinator.config.config import Config, ConfigError
from coordinator.gateway.io.cluster_identity import ClusterIdentity, embedded_topics
from partition_log.disk.disk import OsDisk
from partition_log.disk.unsynced_files import MOST as MOST_UNSYNCED_FILES
from partition_log.store.log_store import LogStore, StoreLimits

log = structlog.get_logger()

_SHARDS_KEY = "offsets.topic.num.partitions"
_IN_CLUSTER_KEY = "offsets.log.cluster"


def open_store(config: Config, disk: OsDisk, identity: ClusterIdentity) -> LogStore:
    """Open and recover the data folder. Raises ConfigError where it is not to be served with this configuration."""
    cluster_id = config.cluster_id or str(uuid.uuid4())
    in_cluster = config.offsets_log is OffsetsLog.CLUSTER
    made_now = {_SHARDS_KEY: config.offsets_topic_num_partitions} | ({_IN_CLUSTER_KEY: 1} if in_cluster else {})
    store = LogStore(
        disk,
        config.data_dir,
        _limits(config),
        cluster_id=cluster_id,
        node_id=config.node_id,
        made_with=made_now,
    )
    if config.upstream_servers is None and (problem := identity.problem_without_upstream()):
        raise ConfigError(problem)
    recovered = store.open()
    if config.upstream_servers is not None and (problem := identity.problem_with_upstream(embedded_topics(store))):
        store.close()
        raise ConfigError(problem)
    if bool(store.identity.made_with.get(_IN_CLUSTER_KEY)) is not in_cluster:
        store.close()
        other = OffsetsLog.LOCAL if in_cluster else OffsetsLog.CLUSTER
        raise ConfigError(
            f"offsets.log is {config.offsets_log}, but {config.data_dir} was made with {other}: its groups would not be"
            " found; give this node a data folder of its own, or move the groups with musterd log move"
        )
    made_with = store.identity.made_with.get(_SHARDS_KEY, config.offsets_topic_num_partitions)
    if made_with != config.offsets_topic_num_partitions:
        store.close()
        raise ConfigError(
            f"{_SHARDS_KEY} is {config.offsets_topic_num_partitions}, but {config.data_dir} was made with {made_with}:"
            " groups would not be found where they are; only that is allowed"
        )
    log.info("data folder recovered", folder=config.data_dir, **msgspec.structs.asdict(recovered))
    if store.disk_full:
        log.warning("the disk is full: what is there is served, writes are refused until there is room")
    return store


def _limits(config: Config) -> StoreLimits:
    allowed, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unsynced = MOST_UNSYNCED_FILES if allowed == resource.RLIM_INFINITY else allowed // 16
    return StoreLimits(
        unsynced_files=max(1, min(unsynced, MOST_UNSYNCED_FILES)),
        wal_segment_bytes=config.wal_segment_bytes,
        checkpoint_bytes=config.wal_checkpoint_bytes,
        max_batch_bytes=max(config.offsets_topic_max_message_bytes, config.message_max_bytes),
        producers_per_log=config.max_producers_per_partition,
    )
