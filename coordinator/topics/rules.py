"""Rules for names, partitions and replicas of topics (Kafka's rules)."""

import re
from collections.abc import Collection, Sequence

import msgspec

from coordinator.config.config import Config
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, GrowingTopic

MIB = 1024 * 1024
MAX_NAME_BYTES = 249
"""Largest length of a name: with a dash and a partition's number it is still a valid folder name on every file
system."""
OFFSETS_TOPIC = "__consumer_offsets"
OWN_NAMES = (OFFSETS_TOPIC, "__transaction_state", "__share_group_state", "__cluster_metadata")
OWN_PREFIX = "__muster_"
"""Prefix of the service's own logs; names that Kafka's clients regard as internal topics."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings shared by all embedded topics of a node: limits, and defaults of topics' settings.

    `largest_batch_bytes` bounds a topic's own `max.message.bytes`; `max_decompressed_bytes` and `max_records_per_batch`
    bound a batch, which must be decompressed to be checked; `max_work_us` is the time in microseconds that these checks
    may take for one request, over many steps.
    """

    default_partitions: int = 1
    auto_create: bool = True
    max_message_bytes: int = 1_048_588
    largest_batch_bytes: int = 16 * MIB
    max_decompressed_bytes: int = 16 * MIB
    max_records_per_batch: int = 100_000
    max_work_us: int = 3_000_000
    max_new_topics_per_request: int = 500
    max_topics: int = 10_000
    max_partitions_per_topic: int = 10_000
    max_partitions: int = 200_000
    segment_bytes: int = 1024 * MIB
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = -1
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    min_dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    max_lag_ms: int = 2**63 - 1
    fetch_max_bytes: int = 55 * MIB
    fetch_max_wait_ms: int = 60_000


def settings_from(config: Config) -> TopicSettings:
    """Take the settings of embedded topics from the configuration."""
    return TopicSettings(
        default_partitions=config.num_partitions,
        auto_create=config.auto_create_topics_enable,
        max_message_bytes=config.message_max_bytes,
        largest_batch_bytes=max(config.message_max_bytes, config.offsets_topic_max_message_bytes),
        segment_bytes=config.log_segment_bytes,
        retention_ms=-1 if config.retention_ms is None else config.retention_ms,
        retention_bytes=config.log_retention_bytes,
        delete_retention_ms=config.log_cleaner_delete_retention_ms,
        min_dirty_ratio=config.log_cleaner_min_cleanable_ratio,
        min_lag_ms=config.log_cleaner_min_compaction_lag_ms,
        max_lag_ms=config.log_cleaner_max_compaction_lag_ms,
        fetch_max_bytes=config.fetch_max_bytes,
        fetch_max_wait_ms=config.fetch_max_wait_ms,
    )


class TopicRefusal(msgspec.Struct, frozen=True, gc=False):
    """Error of a change to a topic: a code for programs and a text for people."""

    error: ErrorCode
    message: str


# --------------------------------------------------------------------------------------------------- names and sizes


def refuse_name(name: str) -> TopicRefusal | None:
    """Check a name by Kafka's rules; the names of the service's own logs are refused too."""
    if not name:
        reason = "the empty string is no name"
    elif name in {".", ".."}:
        reason = f"{name!r} is a folder's name for itself or its parent"
    elif len(name) > MAX_NAME_BYTES:
        reason = f"{len(name)} characters, at most {MAX_NAME_BYTES} are allowed"
    elif not _LEGAL.fullmatch(name):
        reason = f"{name!r} has more in it than letters, digits, '.', '_' and '-'"
    elif is_own(name):
        reason = f"{name} is the service's own"
    else:
        return None
    return TopicRefusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def is_own(name: str) -> bool:
    """Return true if a log of that name is not a topic's."""
    return name in OWN_NAMES or name.startswith(OWN_PREFIX)


def collapsed(name: str) -> str:
    """Replace the characters that names of metrics cannot have. Kafka allows only one of two topics with equal results,
    since they would share metrics."""
    return name.replace(".", "_")


def refuse_shape(wanted: CreatableTopic, settings: TopicSettings, nodes: Collection[int]) -> TopicRefusal | None:
    """Check partitions and replicas: each partition has one."""
    if wanted.assignments:
        return _refuse_assigned(wanted, settings, nodes)
    count, most = wanted.num_partitions, settings.max_partitions_per_topic
    if count != -1 and not 1 <= count <= most:
        return TopicRefusal(ErrorCode.INVALID_PARTITIONS, f"{count} partitions; 1 to {most}, or -1 for the default")
    if wanted.replication_factor not in {-1, 1}:
        reason = f"{wanted.replication_factor} replicas; there is one node, so 1, or -1 for the default"
        return TopicRefusal(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    return None


def _refuse_assigned(wanted: CreatableTopic, settings: TopicSettings, nodes: Collection[int]) -> TopicRefusal | None:
    for value, what in ((wanted.replication_factor, "replication factor"), (wanted.num_partitions, "partition count")):
        if value != -1:
            reason = f"the partitions are assigned by hand, so the {what} must be -1, and is {value}"
            return TopicRefusal(ErrorCode.INVALID_REQUEST, reason)
    if len(wanted.assignments) > settings.max_partitions_per_topic:
        reason = f"{len(wanted.assignments)} partitions; at most {settings.max_partitions_per_topic} are allowed"
        return TopicRefusal(ErrorCode.INVALID_PARTITIONS, reason)
    indexes = sorted(assigned.partition_index for assigned in wanted.assignments)
    if indexes != list(range(len(indexes))):
        return TopicRefusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "each partition from 0 on must be assigned once")
    return refuse_replicas([assigned.broker_ids for assigned in wanted.assignments], nodes)


def refuse_replicas(replicas: Sequence[Sequence[int]], nodes: Collection[int]) -> TopicRefusal | None:
    """Check the replicas of each partition. Each partition must name one existing node, since nothing is replicated."""
    for broker_ids in replicas:
        absent = [node for node in broker_ids if node not in nodes]
        if absent:
            reason = f"there is no node {absent[0]}"
        elif len(broker_ids) != 1:
            reason = f"a partition is on one node, not on {len(broker_ids)}"
        else:
            continue
        return TopicRefusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    return None


def refuse_growth(
    wanted: GrowingTopic, partitions: int, settings: TopicSettings, nodes: Collection[int]
) -> TopicRefusal | None:
    """Check a new number of partitions, which may only grow."""
    most = settings.max_partitions_per_topic
    if wanted.count <= partitions or wanted.count > most:
        reason = f"{wanted.name} has {partitions} partitions; more, and at most {most}, are allowed, not {wanted.count}"
        return TopicRefusal(ErrorCode.INVALID_PARTITIONS, reason)
    if wanted.assignments is None:
        return None
    added = wanted.count - partitions
    if len(wanted.assignments) != added:
        reason = f"{added} partitions are added, and {len(wanted.assignments)} assigned"
        return TopicRefusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    return refuse_replicas([assigned.broker_ids for assigned in wanted.assignments], nodes)
