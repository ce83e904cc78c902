"""What a topic may be called, how many partitions it may have, and which settings it may carry (Kafka's rules)."""

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from coordinator.config import Config
from partition_log.cleaning import Compact, Policy, Retain
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, TopicConfig

MIB = 1024 * 1024
MAX_NAME_BYTES = 249
"""With a dash and a partition's number behind it, still a folder's name on every file system."""
RESERVED = "__"
"""How the names of the service's own logs begin."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_SMALLEST_SEGMENT_BYTES = 16 * 1024
_LONG_MAX = 2**63 - 1
_INT_MAX = 2**31 - 1


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all embedded topics of a node share: limits, and what a topic has that says nothing itself.

    `largest_batch_bytes` bounds what a topic's own `max.message.bytes` may be; `max_decompressed_bytes` and
    `max_records_per_request` the records of one request, which must be opened to be checked, or searched by time.
    """

    node_id: int = 1
    default_partitions: int = 1
    auto_create: bool = True
    max_message_bytes: int = 1_048_588
    largest_batch_bytes: int = 16 * MIB
    max_decompressed_bytes: int = 16 * MIB
    max_records_per_request: int = 100_000
    max_new_topics_per_request: int = 500
    max_topics: int = 10_000
    max_partitions_per_topic: int = 10_000
    max_partitions: int = 200_000
    segment_bytes: int = 1024 * MIB
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = -1
    fetch_max_bytes: int = 55 * MIB
    fetch_max_wait_ms: int = 60_000


def settings_from(config: Config) -> TopicSettings:
    """The keys of the configuration that are about embedded topics."""
    return TopicSettings(
        node_id=config.node_id,
        default_partitions=config.num_partitions,
        auto_create=config.auto_create_topics_enable,
        max_message_bytes=config.message_max_bytes,
        largest_batch_bytes=max(config.message_max_bytes, config.offsets_topic_max_message_bytes),
        segment_bytes=config.log_segment_bytes,
        retention_ms=-1 if config.retention_ms is None else config.retention_ms,
        retention_bytes=config.log_retention_bytes,
        fetch_max_bytes=config.fetch_max_bytes,
        fetch_max_wait_ms=config.fetch_max_wait_ms,
    )


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why a topic is not made, for programs and for people."""

    error: ErrorCode
    message: str


# --------------------------------------------------------------------------------------------------- names and sizes


def refuse_name(name: str) -> Refusal | None:
    """Kafka's legal names, without those of our own logs."""
    if not name:
        reason = "the empty string is no name"
    elif name in {".", ".."}:
        reason = f"{name!r} is a folder's name for itself or its parent"
    elif len(name) > MAX_NAME_BYTES:
        reason = f"{len(name)} characters, at most {MAX_NAME_BYTES} are allowed"
    elif not _LEGAL.fullmatch(name):
        reason = f"{name!r} has more in it than letters, digits, '.', '_' and '-'"
    elif name.startswith(RESERVED):
        reason = f"names that begin with {RESERVED!r} are the service's own"
    else:
        return None
    return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def refuse_shape(wanted: CreatableTopic, settings: TopicSettings) -> Refusal | None:
    """Partitions and replicas: there is one node to put them on."""
    count, most = wanted.num_partitions, settings.max_partitions_per_topic
    if count != -1 and not 1 <= count <= most:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"{count} partitions; 1 to {most}, or -1 for the default")
    if wanted.replication_factor not in {-1, 1}:
        reason = f"{wanted.replication_factor} replicas; there is one node, so 1, or -1 for the default"
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    return None


# -------------------------------------------------------------------------------------------------- a topic's settings


class TopicConfigs(msgspec.Struct, frozen=True, gc=False):
    """What holds for one topic: its own settings, and the node's where it has none."""

    max_message_bytes: int
    segment_bytes: int
    retention_ms: int
    retention_bytes: int
    is_compacted: bool

    @property
    def policy(self) -> Policy:
        """How its partition logs forget. One that is compacted and deleted by age is only compacted so far."""
        if self.is_compacted:
            return Compact(segment_bytes=self.segment_bytes)
        return Retain(self.retention_ms, self.retention_bytes, self.segment_bytes)


def configs_of(given: Mapping[str, str], settings: TopicSettings) -> TopicConfigs:
    """Of settings that `refuse_configs` let through."""

    def number(name: str, default: int) -> int:
        return int(given[name]) if name in given else default

    return TopicConfigs(
        max_message_bytes=number("max.message.bytes", settings.max_message_bytes),
        segment_bytes=number("segment.bytes", settings.segment_bytes),
        retention_ms=number("retention.ms", settings.retention_ms),
        retention_bytes=number("retention.bytes", settings.retention_bytes),
        is_compacted="compact" in given.get("cleanup.policy", "delete"),
    )


def refuse_configs(configs: Iterable[TopicConfig], settings: TopicSettings) -> Refusal | None:
    """Every setting must be one that a topic has, with a value it can have."""
    for config in configs:
        check = _CHECKS.get(config.name)
        if check is None:
            known = ", ".join(_CHECKS)
            return Refusal(ErrorCode.INVALID_CONFIG, f"{config.name} is no setting of a topic; there are {known}")
        if config.value is None:
            return Refusal(ErrorCode.INVALID_CONFIG, f"{config.name} has no value")
        if allowed := check(config.value, settings):
            return Refusal(ErrorCode.INVALID_CONFIG, f"{config.name} = {config.value}: {allowed} is allowed")
    return None


def _is_within(text: str, lowest: int, highest: int) -> str:
    """Empty if it is, else what is allowed."""
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdecimal() and len(digits) < 20 and lowest <= int(text) <= highest:
        return ""
    return f"a whole number from {lowest} to {highest}"


def _is_policy(text: str) -> str:
    words = [word.strip() for word in text.split(",")]
    return "" if all(word in {"delete", "compact"} for word in words) else "delete, compact or both"


_CHECKS: Mapping[str, Callable[[str, TopicSettings], str]] = {
    "cleanup.policy": lambda text, _: _is_policy(text),
    "max.message.bytes": lambda text, settings: _is_within(text, 0, settings.largest_batch_bytes),
    "retention.bytes": lambda text, _: _is_within(text, -1, _LONG_MAX),
    "retention.ms": lambda text, _: _is_within(text, -1, _LONG_MAX),
    "segment.bytes": lambda text, _: _is_within(text, _SMALLEST_SEGMENT_BYTES, _INT_MAX),
}
