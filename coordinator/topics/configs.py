"""Settings that a topic may carry: Kafka's names, the values allowed here, and the defaults.

A setting is listed if it has its effect, or if its guarantee holds in any case: a single replica is never out of sync,
and every acknowledged record has been synced. Any other setting is refused by name, since a client must not rely on a
setting without effect.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from coordinator.topics.rules import TopicRefusal, TopicSettings
from partition_log.cleanup_policy import Compact, Policy, Retain
from protocol.errors import ErrorCode
from protocol.messages.configs import ConfigSource, ConfigSynonym, ConfigType, DescribedConfig
from protocol.messages.topics import CreatedTopicConfig, TopicConfig

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
_SMALLEST_SEGMENT_BYTES = 16 * 1024
_POLICIES = ("compact", "delete")

Check = Callable[[str, TopicSettings], str]
"""Check of a value: returns an empty text if it is allowed, else the allowed values."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `node_value` is its value where the topic has none; `broker_key` is the node's key for it, if there
    is one."""

    type: ConfigType
    about: str
    check: Check
    node_value: Callable[[TopicSettings], str]
    broker_key: str | None = None


def _within(lowest: int, highest: int) -> Check:
    def check(text: str, _settings: TopicSettings) -> str:
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdecimal() and len(digits) < 20 and lowest <= int(text) <= highest:
            return ""
        return f"a whole number from {lowest} to {highest}"

    return check


def _one_of(*words: str) -> Check:
    return lambda text, _settings: "" if text in words else " or ".join(words)


def _is_ratio(text: str, _settings: TopicSettings) -> str:
    whole, _, rest = text.partition(".")
    is_number = text.isascii() and len(text) < 20 and whole.isdecimal() and (rest.isdecimal() or not rest)
    return "" if is_number and 0 <= float(text) <= 1 else "a number from 0 to 1"


def _are_policies(text: str, _settings: TopicSettings) -> str:
    return "" if all(word in _POLICIES for word in words_of(text)) else "delete, compact, both or none"


def _max_message_bytes(text: str, settings: TopicSettings) -> str:
    return _within(0, settings.largest_batch_bytes)(text, settings)


def _always(value: str) -> Callable[[TopicSettings], str]:
    return lambda _settings: value


SETTINGS: Mapping[str, Setting] = {
    "cleanup.policy": Setting(
        type=ConfigType.LIST,
        about="delete: old segments go, by age and by size; compact: the last record of each key stays; neither: all.",
        check=_are_policies,
        node_value=_always("delete"),
    ),
    "compression.type": Setting(
        type=ConfigType.STRING,
        about="Batches are kept as their producer compressed them.",
        check=_one_of("producer"),
        node_value=_always("producer"),
    ),
    "delete.retention.ms": Setting(
        type=ConfigType.LONG,
        about="How long compaction keeps a record without a value at least.",
        check=_within(0, LONG_MAX),
        node_value=lambda settings: str(settings.delete_retention_ms),
        broker_key="log.cleaner.delete.retention.ms",
    ),
    "flush.messages": Setting(
        type=ConfigType.LONG,
        about="Records after which a log is synced. All that is acknowledged with acks=all has been synced already.",
        check=_within(1, LONG_MAX),
        node_value=_always(str(LONG_MAX)),
    ),
    "flush.ms": Setting(
        type=ConfigType.LONG,
        about="Time after which a log is synced. All that is acknowledged with acks=all has been synced already.",
        check=_within(0, LONG_MAX),
        node_value=_always(str(LONG_MAX)),
    ),
    "max.compaction.lag.ms": Setting(
        type=ConfigType.LONG,
        about="How long a record may wait for compaction at most.",
        check=_within(1, LONG_MAX),
        node_value=lambda settings: str(settings.max_lag_ms),
        broker_key="log.cleaner.max.compaction.lag.ms",
    ),
    "max.message.bytes": Setting(
        type=ConfigType.INT,
        about="Bytes of the largest batch a producer may send.",
        check=_max_message_bytes,
        node_value=lambda settings: str(settings.max_message_bytes),
        broker_key="message.max.bytes",
    ),
    "message.timestamp.after.max.ms": Setting(
        type=ConfigType.LONG,
        about="How far in the future a producer's time of a record may lie.",
        check=_within(0, LONG_MAX),
        node_value=_always("3600000"),
    ),
    "message.timestamp.before.max.ms": Setting(
        type=ConfigType.LONG,
        about="How far in the past a producer's time of a record may lie.",
        check=_within(0, LONG_MAX),
        node_value=_always(str(LONG_MAX)),
    ),
    "message.timestamp.type": Setting(
        type=ConfigType.STRING,
        about="CreateTime: records have the time their producer gave them; LogAppendTime: that of their append.",
        check=_one_of("CreateTime", "LogAppendTime"),
        node_value=_always("CreateTime"),
    ),
    "min.cleanable.dirty.ratio": Setting(
        type=ConfigType.DOUBLE,
        about="The part of a log that must be new before compaction looks at it.",
        check=_is_ratio,
        node_value=lambda settings: str(settings.min_dirty_ratio),
        broker_key="log.cleaner.min.cleanable.ratio",
    ),
    "min.compaction.lag.ms": Setting(
        type=ConfigType.LONG,
        about="How long compaction leaves a record alone at least.",
        check=_within(0, LONG_MAX),
        node_value=lambda settings: str(settings.min_lag_ms),
        broker_key="log.cleaner.min.compaction.lag.ms",
    ),
    "min.insync.replicas": Setting(
        type=ConfigType.INT,
        about="Replicas that must have a record acknowledged with acks=all: there is one.",
        check=_within(1, 1),
        node_value=_always("1"),
    ),
    "preallocate": Setting(
        type=ConfigType.BOOLEAN,
        about="Whether a segment takes its room on disk beforehand.",
        check=_one_of("false"),
        node_value=_always("false"),
    ),
    "remote.storage.enable": Setting(
        type=ConfigType.BOOLEAN,
        about="Whether old segments are kept elsewhere: there is no elsewhere.",
        check=_one_of("false"),
        node_value=_always("false"),
    ),
    "retention.bytes": Setting(
        type=ConfigType.LONG,
        about="Bytes kept of each partition, with cleanup.policy delete; -1: no limit.",
        check=_within(-1, LONG_MAX),
        node_value=lambda settings: str(settings.retention_bytes),
        broker_key="log.retention.bytes",
    ),
    "retention.ms": Setting(
        type=ConfigType.LONG,
        about="How long records are kept, with cleanup.policy delete; -1: for ever.",
        check=_within(-1, LONG_MAX),
        node_value=lambda settings: str(settings.retention_ms),
        broker_key="log.retention.ms",
    ),
    "segment.bytes": Setting(
        type=ConfigType.INT,
        about="Bytes of one segment file.",
        check=_within(_SMALLEST_SEGMENT_BYTES, INT_MAX),
        node_value=lambda settings: str(settings.segment_bytes),
        broker_key="log.segment.bytes",
    ),
    "segment.ms": Setting(
        type=ConfigType.LONG,
        about="Time from a segment's first record to its last, by their timestamps.",
        check=_within(1, LONG_MAX),
        node_value=_always("604800000"),
    ),
    "unclean.leader.election.enable": Setting(
        type=ConfigType.BOOLEAN,
        about="Whether a replica that lags may lead: the only one never lags.",
        check=_one_of("false", "true"),
        node_value=_always("false"),
    ),
}


def words_of(value: str) -> list[str]:
    """Split a list into its entries, each once."""
    return list(dict.fromkeys(word for part in value.split(",") if (word := part.strip())))


# ------------------------------------------------------------------------------------------------------- allowed values


def refuse_config(name: str, value: str | None, settings: TopicSettings) -> TopicRefusal | None:
    """Check that the setting is known and the value allowed."""
    setting = SETTINGS.get(name)
    if setting is None:
        return TopicRefusal(ErrorCode.INVALID_CONFIG, unknown("topic", name, SETTINGS))
    if value is None:
        return TopicRefusal(ErrorCode.INVALID_CONFIG, f"{name} has no value")
    if allowed := setting.check(value, settings):
        return TopicRefusal(ErrorCode.INVALID_CONFIG, f"{name} = {value[:200]}: {allowed} is allowed")
    return None


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Format the error for an unknown setting."""
    return f"{name} is no setting of a {kind}; there are {', '.join(known)}"


def refuse_configs(configs: Iterable[TopicConfig], settings: TopicSettings) -> TopicRefusal | None:
    """Return the first error of the settings."""
    for config in configs:
        if refused := refuse_config(config.name, config.value, settings):
            return refused
    return None


def kept(name: str, value: str) -> str:
    """Return a checked value as it is stored."""
    return ",".join(words_of(value)) if SETTINGS[name].type is ConfigType.LIST else value


# ---------------------------------------------------------------------------------------------------- settings in force


class TopicConfigs(msgspec.Struct, frozen=True, gc=False):
    """Settings in force for one topic: its own, and the node's where it has none. Deletion follows the retention only
    if the policy is to delete; -1 is never."""

    max_message_bytes: int
    segment_bytes: int
    segment_ms: int
    retention_ms: int
    retention_bytes: int
    is_compacted: bool
    delete_retention_ms: int
    min_dirty_ratio: float
    min_lag_ms: int
    max_lag_ms: int
    has_append_time: bool
    time_before_ms: int
    time_after_ms: int

    @property
    def policy(self) -> Policy:
        """Retention and cleaning policy of its partition logs."""
        if self.is_compacted:
            return Compact(
                delete_retention_ms=self.delete_retention_ms,
                segment_bytes=self.segment_bytes,
                segment_ms=min(self.segment_ms, self.max_lag_ms),  # the last segment is never cleaned
                min_dirty_ratio=self.min_dirty_ratio,
                min_lag_ms=self.min_lag_ms,
                max_lag_ms=self.max_lag_ms,
            )
        return Retain(self.retention_ms, self.retention_bytes, self.segment_bytes, self.segment_ms)


def configs_of(given: Mapping[str, str], settings: TopicSettings) -> TopicConfigs:
    """Build the settings from those that `refuse_configs` has checked. A setting of a later version is ignored."""

    def value(name: str) -> str:
        return given[name] if name in given else SETTINGS[name].node_value(settings)

    policies = words_of(value("cleanup.policy"))
    is_deleted = "delete" in policies
    return TopicConfigs(
        max_message_bytes=int(value("max.message.bytes")),
        segment_bytes=int(value("segment.bytes")),
        segment_ms=int(value("segment.ms")),
        retention_ms=int(value("retention.ms")) if is_deleted else -1,
        retention_bytes=int(value("retention.bytes")) if is_deleted else -1,
        is_compacted="compact" in policies,
        delete_retention_ms=int(value("delete.retention.ms")),
        min_dirty_ratio=float(value("min.cleanable.dirty.ratio")),
        min_lag_ms=int(value("min.compaction.lag.ms")),
        max_lag_ms=int(value("max.compaction.lag.ms")),
        has_append_time=value("message.timestamp.type") == "LogAppendTime",
        time_before_ms=int(value("message.timestamp.before.max.ms")),
        time_after_ms=int(value("message.timestamp.after.max.ms")),
    )


# --------------------------------------------------------------------------------------------------------- descriptions


def _node_source(setting: Setting, settings: TopicSettings) -> ConfigSource:
    is_default = setting.node_value(settings) == setting.node_value(TopicSettings())
    return ConfigSource.DEFAULT if is_default else ConfigSource.STATIC_BROKER


def created_configs(given: Mapping[str, str], settings: TopicSettings) -> tuple[CreatedTopicConfig, ...]:
    """List all settings in force, for the reply to CreateTopics."""
    return tuple(
        CreatedTopicConfig(name, given[name], config_source=ConfigSource.DYNAMIC_TOPIC)
        if name in given
        else CreatedTopicConfig(name, setting.node_value(settings), config_source=_node_source(setting, settings))
        for name, setting in SETTINGS.items()
    )


def described_config(name: str, given: Mapping[str, str], settings: TopicSettings) -> DescribedConfig:
    """Describe one setting of a topic with its synonyms, the strongest first."""
    setting, own = SETTINGS[name], given.get(name)
    synonyms = [] if own is None else [ConfigSynonym(name, own, ConfigSource.DYNAMIC_TOPIC)]
    value, source = setting.node_value(settings), _node_source(setting, settings)
    key, default = setting.broker_key or name, setting.node_value(TopicSettings())
    synonyms.append(ConfigSynonym(key, value, source))
    if source is not ConfigSource.DEFAULT:
        synonyms.append(ConfigSynonym(key, default, ConfigSource.DEFAULT))
    return DescribedConfig(
        name=name,
        value=value if own is None else own,
        config_source=source if own is None else ConfigSource.DYNAMIC_TOPIC,
        synonyms=tuple(synonyms),
        config_type=setting.type,
        documentation=setting.about,
        is_default=own is None and source is ConfigSource.DEFAULT,
    )
