"""The topics of the log in the cluster: their settings, and the faults for which a node does not start or warns
(docs/spec/shared-log.md#Recommended, docs/spec/shared-log.md#Limits)."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from coordinator.cluster_log.settings import NOTES_TOPIC, OFFSETS_LOG_TOPIC, ClusterLogSettings
from protocol.messages.topics import CreatableTopic, MetadataTopicReply, TopicConfig

PROOF_TOPIC = "__muster_proof"
"""Topic with one partition, in which nodes test at their start that the brokers fence (`fence_proof`)."""
_SAFE_REPLICAS, _SAFE_IN_SYNC = 3, 2
_LEAST_LAG_MS = 3_600_000
_MESSAGE_BYTES = 2 << 20
"""Largest batch that the topic accepts: twice the size of a shard's batches, except those of a single append."""
_SEGMENT_BYTES = 104_857_600
"""Size of a segment, as in `__consumer_offsets`. The newest one is never cleaned, and a replay reads all of it."""
_LEAST_SEGMENT_BYTES = 4 << 20
_KEPT_FOR_TWICE = 2
"""Factor by which brokers must remember a producer longer than its owner is ever silent."""

Settings = Mapping[str, str | None]


class LogFacts(NamedTuple):
    """Facts that the cluster reports. Settings that it does not report are missing."""

    brokers: int
    topic: MetadataTopicReply
    settings: Settings
    broker_settings: Settings


def replicas(wanted: int, brokers: int) -> int:
    """Return the number of replicas of a new topic, at most the number of brokers."""
    return max(1, min(wanted, brokers))


def offsets_topic(shards: int, copies: int) -> CreatableTopic:
    """Return the topic of the shards' logs, with its settings."""
    return CreatableTopic(
        OFFSETS_LOG_TOPIC,
        shards,
        copies,
        configs=_configs(
            {
                "cleanup.policy": "compact",
                "min.compaction.lag.ms": str(_LEAST_LAG_MS),
                "max.message.bytes": str(_MESSAGE_BYTES),
                "segment.bytes": str(_SEGMENT_BYTES),
                **_replication(copies),
            }
        ),
    )


def proof_topic(copies: int) -> CreatableTopic:
    """Return the topic of the proof; its records may be deleted after an hour."""
    return CreatableTopic(
        PROOF_TOPIC,
        1,
        copies,
        configs=_configs({"cleanup.policy": "delete", "retention.ms": "3600000", **_replication(copies)}),
    )


def notes_topic(copies: int, kept_bytes: int) -> CreatableTopic:
    """Return the topic of notes, with the retention of a node's own notes."""
    kept = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": str(kept_bytes),
        "segment.bytes": str(max(kept_bytes // 8, _LEAST_SEGMENT_BYTES)),
        "max.message.bytes": str(_MESSAGE_BYTES),
    }
    return CreatableTopic(NOTES_TOPIC, 1, copies, configs=_configs({**kept, **_replication(copies)}))


def _replication(copies: int) -> dict[str, str]:
    return {
        "min.insync.replicas": str(_SAFE_IN_SYNC if copies >= _SAFE_REPLICAS else 1),
        "unclean.leader.election.enable": "false",
        "message.timestamp.type": "LogAppendTime",
    }


def _configs(settings: Mapping[str, str]) -> tuple[TopicConfig, ...]:
    return tuple(TopicConfig(name, value) for name, value in settings.items())


def refusal(facts: LogFacts, shards: int) -> str:
    """Return why the topic cannot hold the log; empty if it can."""
    partitions = len(facts.topic.partitions)
    if partitions != shards:
        return (
            f"topic {OFFSETS_LOG_TOPIC} has {partitions} partitions, and offsets.topic.num.partitions is {shards}: "
            "groups would not be found where they are; only the topic's number is allowed"
        )
    policy = facts.settings.get("cleanup.policy", "compact")
    if policy != "compact":
        return (
            f"topic {OFFSETS_LOG_TOPIC} has cleanup.policy={policy}, by which offsets would be lost: set it to compact"
        )
    return ""


def problems(facts: LogFacts, settings: ClusterLogSettings) -> Iterator[str]:
    """Yield a sentence for each unsafe setting of the topic or the brokers."""
    name = OFFSETS_LOG_TOPIC
    copies = min((len(one.replica_nodes) for one in facts.topic.partitions), default=0)
    in_sync = _number(facts.settings, "min.insync.replicas")
    if facts.brokers == 1:
        yield "the cluster has one broker: while it is away no commit is taken, and its disk holds every offset"
    elif copies < _SAFE_REPLICAS:
        yield f"topic {name} has {copies} replicas of a partition: {_SAFE_REPLICAS} outlive the loss of a broker"
    if copies > 1 and in_sync is not None and in_sync < _SAFE_IN_SYNC:
        yield (
            f"topic {name} has min.insync.replicas={in_sync}: a commit may be acknowledged that a single broker has, "
            "and is lost with it"
        )
    if facts.settings.get("unclean.leader.election.enable") == "true":
        yield f"topic {name} has unclean.leader.election.enable=true: an election may undo acknowledged commits"
    lag_ms = _number(facts.settings, "min.compaction.lag.ms")
    if lag_ms is not None and lag_ms < _LEAST_LAG_MS:
        yield (
            f"topic {name} has min.compaction.lag.ms={lag_ms}: records of an owner that the brokers forgot to fence "
            f"could be kept in place of newer ones; {_LEAST_LAG_MS} leaves time to repair them"
        )
    yield from _wrong_sizes(facts.settings)
    yield from _short_memories(facts.broker_settings, settings)


def _wrong_sizes(settings: Settings) -> Iterator[str]:
    message_bytes = _number(settings, "max.message.bytes")
    if message_bytes is not None and message_bytes < _MESSAGE_BYTES:
        yield (
            f"topic {OFFSETS_LOG_TOPIC} has max.message.bytes={message_bytes}: the brokers would refuse a large "
            f"group's records; {_MESSAGE_BYTES} or more is needed"
        )
    segment_bytes = _number(settings, "segment.bytes")
    if segment_bytes is not None and segment_bytes > _SEGMENT_BYTES:
        yield (
            f"topic {OFFSETS_LOG_TOPIC} has segment.bytes={segment_bytes}: the newest segment is never cleaned, so "
            f"that a take-over may read as much; {_SEGMENT_BYTES} keeps it short"
        )


def _short_memories(broker_settings: Settings, settings: ClusterLogSettings) -> Iterator[str]:
    for key, silent_ms in (
        ("producer.id.expiration.ms", settings.keep_alive_ms),
        ("transactional.id.expiration.ms", settings.renew_ms),
    ):
        kept_ms = _number(broker_settings, key)
        if kept_ms is not None and kept_ms < _KEPT_FOR_TWICE * silent_ms:
            yield (
                f"the brokers have {key}={kept_ms}: they forget a former owner too early to fence it; "
                f"{_KEPT_FOR_TWICE * silent_ms} or more is needed"
            )


def _number(settings: Settings, key: str) -> int | None:
    value = settings.get(key)
    return int(value) if value is not None and value.lstrip("-").isdigit() else None
