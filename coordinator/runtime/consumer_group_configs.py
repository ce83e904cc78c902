"""Settings of single consumer groups (docs/spec/consumer-group-protocol.md#15.2)."""

from collections.abc import Mapping

from msgspec.structs import replace

from coordinator.config.config import KEYS, Config
from coordinator.config.keys import Key
from coordinator.groups.consumer.state import ConsumerGroupSettings
from coordinator.topics.rules import TopicRefusal
from protocol.errors import ErrorCode

_SESSION, _HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
_ASSIGNMENT = "consumer.assignment.interval.ms"
CONSUMER_SETTINGS: Mapping[str, Key] = {
    name: replace(KEYS[f"group.{name}"], name=name) for name in (_SESSION, _HEARTBEAT, _ASSIGNMENT)
}
"""Keys of a group, each with the field of the node's key that it overrides."""


def settings_of(config: Config, own: Mapping[str, str]) -> ConsumerGroupSettings:
    """Return the settings of a group with these own settings."""
    return ConsumerGroupSettings(
        session_timeout_ms=_value(config, own, _SESSION),
        heartbeat_interval_ms=_value(config, own, _HEARTBEAT),
        assignment_interval_ms=_value(config, own, _ASSIGNMENT),
        max_size=config.group_consumer_max_size,
        assignors=config.group_consumer_assignors.all,
        regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        migration_policy=config.group_consumer_migration_policy,
        classic_max_size=config.group_max_size,
        max_batch_bytes=config.offsets_topic_max_message_bytes,
    )


def _value(config: Config, own: Mapping[str, str], name: str) -> int:
    return int(own.get(name, getattr(config, CONSUMER_SETTINGS[name].field)))


def refuse_settings(config: Config, own: Mapping[str, str]) -> TopicRefusal | None:
    """Refuse settings outside of the node's bounds, or that do not go together."""
    for name in CONSUMER_SETTINGS:
        if name not in own:
            continue
        rest = name.removeprefix("consumer.")
        lowest, highest = (f"group.consumer.{bound}.{rest}" for bound in ("min", "max"))
        low, high = (int(getattr(config, KEYS[key].field)) for key in (lowest, highest))
        if not low <= int(own[name]) <= high:
            reason = f"{name} = {own[name]}: {lowest} ({low}) to {highest} ({high}) is allowed"
            return TopicRefusal(ErrorCode.INVALID_CONFIG, reason)
    session, heartbeat = _value(config, own, _SESSION), _value(config, own, _HEARTBEAT)
    if own.keys() & {_SESSION, _HEARTBEAT} and session <= heartbeat:
        reason = f"{_SESSION} would be {session}, {_HEARTBEAT} not less: {heartbeat}"
        return TopicRefusal(ErrorCode.INVALID_CONFIG, reason)
    return None
