"""Settings of single groups, which override the node's. They are kept in `__muster_configs-0`, a compacted log, or, if
nodes share the shards' logs, with the group in the log of its shard.

Key: "group/" and the group's id. Value, version 1: two bytes of version, then a MessagePack map of the settings. No
value: the node's settings apply. A group need not exist to have settings.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.config.config import KEYS, Config
from coordinator.config.keys import BackwardCommits, Key, Names
from coordinator.groups.classic.group_states import GroupSettings
from coordinator.groups.consumer.state import ConsumerGroupSettings
from coordinator.records.records import LogCorrupt
from coordinator.runtime.consumer_group_configs import CONSUMER_SETTINGS, refuse_settings, settings_of
from coordinator.topics.configs import unknown
from coordinator.topics.registry import APPEND_ERRORS
from coordinator.topics.rules import TopicRefusal
from partition_log.cleanup_policy import Compact
from partition_log.errors import AppendError
from partition_log.store.log_store import LogStore
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    AlterableConfig,
    ConfigOperation,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    DescribedConfig,
)
from protocol.record_batch import decode_batch, encode_batch

CONFIGS_LOG = "__muster_configs-0"
MOST_GROUPS = 10_000
"""Largest number of groups with settings of their own."""

_KIND = b"group/"
_VERSION = b"\x00\x01"
_INITIAL_DELAY, _MAX_SIZE = "group.initial.rebalance.delay.ms", "group.max.size"
_MIN_SESSION, _MAX_SESSION = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
_BACKWARD, _PINNED = "group.offsets.backward", "group.offsets.pinned"
_TOPICS, _FILTERS = "group.forbidden.topics", "group.forbidden.filters"
_OF_ANY_KIND = (_INITIAL_DELAY, _MAX_SIZE, _MIN_SESSION, _MAX_SESSION, _BACKWARD, _PINNED, _TOPICS, _FILTERS)
SETTINGS: Mapping[str, Key] = {
    **{name: KEYS[name] for name in _OF_ANY_KIND},
    **CONSUMER_SETTINGS,
}
_CONFIG_TYPES = {Names: ConfigType.LIST, BackwardCommits: ConfigType.STRING, bool: ConfigType.BOOLEAN}
_LISTS = (ConfigOperation.APPEND, ConfigOperation.SUBTRACT)


class Forbidden(NamedTuple):
    """Topics and filters that a group's members may not use."""

    topics: frozenset[str]
    filters: frozenset[str]


class ConfigsCorrupt(Exception):
    """A record of the log does not parse, or was written by a newer version. The node must not start: it would serve
    groups without their settings."""


class GroupConfigs:
    """Settings of groups. `overrides` has those that differ from `settings`, by group."""

    def __init__(self, store: LogStore, config: Config) -> None:
        self._store = store
        self._config = config
        self._log = store.log(CONFIGS_LOG, Compact())
        self._own: dict[str, dict[str, str]] = {}
        self.settings = GroupSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
            max_pending_ids=config.max_pending_ids_per_group,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_backward=config.group_offsets_backward,
            is_pinned=config.group_offsets_pinned,
        )
        self.overrides: dict[str, GroupSettings] = {}
        self._consumer_settings = settings_of(config, {})
        self._consumer: dict[str, ConsumerGroupSettings] = {}
        self._forbidden: dict[str, Forbidden] = {}
        self._forbidden_to_all = Forbidden(config.group_forbidden_topics.all, config.group_forbidden_filters.all)
        self.changes = 0
        """Number of changes since the start."""
        self.position = 0
        """Write-ahead position of the last change."""

    def load(self) -> None:
        """Replay the log. Raises `ConfigsCorrupt`, `LogDamaged`."""
        for _header, data in self._log.batches_from(self._log.start_offset):
            for entry in decode_batch(bytes(data)):
                self._apply(*_decode(entry.key, entry.value))

    def take(self, group_id: str, own: dict[str, str]) -> None:
        """Apply the settings of a group that the log of its shard holds; empty: the node's settings apply. Raises
        `LogCorrupt`."""
        try:
            self._apply(group_id, own)
        except ValueError as error:
            raise LogCorrupt(f"settings of the group {group_id}: {error}") from None
        self.changes += 1

    def _apply(self, group_id: str, own: dict[str, str] | None) -> None:
        self._forbidden.pop(group_id, None)
        self._consumer.pop(group_id, None)
        if not own:
            self._own.pop(group_id, None)
            self.overrides.pop(group_id, None)
            return
        if _TOPICS in own or _FILTERS in own:
            self._forbidden[group_id] = Forbidden(self._names(own, _TOPICS), self._names(own, _FILTERS))
        if own.keys() & CONSUMER_SETTINGS.keys():
            self._consumer[group_id] = settings_of(self._config, own)
        self._own[group_id] = own
        self.overrides[group_id] = self._overridden(own)

    def _overridden(self, own: Mapping[str, str]) -> GroupSettings:
        common = self.settings
        return replace(
            common,
            initial_rebalance_delay_ms=int(own.get(_INITIAL_DELAY, common.initial_rebalance_delay_ms)),
            min_session_timeout_ms=int(own.get(_MIN_SESSION, common.min_session_timeout_ms)),
            max_session_timeout_ms=int(own.get(_MAX_SESSION, common.max_session_timeout_ms)),
            max_size=int(own.get(_MAX_SIZE, common.max_size)),
            is_pinned=own[_PINNED] == "true" if _PINNED in own else common.is_pinned,
            offsets_backward=BackwardCommits(own.get(_BACKWARD, common.offsets_backward)),
        )

    def of(self, group_id: str) -> GroupSettings:
        """Return the settings in force for the group."""
        return self.overrides.get(group_id, self.settings)

    def consumer_settings(self, group_id: str) -> ConsumerGroupSettings:
        """Return the settings in force for the group, if the coordinator balances it."""
        return self._consumer.get(group_id, self._consumer_settings)

    def forbidden(self, group_id: str) -> Forbidden:
        """Return the topics that members of the group must not read, if it is client-balanced."""
        return self._forbidden.get(group_id, self._forbidden_to_all)

    def _names(self, own: Mapping[str, str], name: str) -> frozenset[str]:
        names: Names = Names.parse(own[name]) if name in own else getattr(self._config, SETTINGS[name].field)
        return names.all

    # ---------------------------------------------------------------------------------------------------- changing

    def alter(
        self,
        group_id: str,
        changes: Iterable[AlterableConfig],
        moment: Moment,
        *,
        validate_only: bool,
        record: Callable[[dict[str, str]], TopicRefusal | None] | None = None,
    ) -> TopicRefusal | None:
        """Apply all of the changes or none; durable when `position` is. `record`, if given, writes them to the shard's
        log instead, which leads to a call of `take`."""
        if not group_id:
            return TopicRefusal(
                ErrorCode.INVALID_REQUEST, "settings of all groups are the node's, and read at its start"
            )
        before = self._own.get(group_id, {})
        own = self._altered(before, changes)
        if isinstance(own, TopicRefusal):
            return own
        if own and not before and len(self._own) >= MOST_GROUPS:
            return TopicRefusal(
                ErrorCode.POLICY_VIOLATION, f"{MOST_GROUPS} groups have settings, the most there may be"
            )
        if validate_only or own == before:
            return None
        if record is not None:
            return record(own)
        entry = (
            _KIND + group_id.encode("utf-8", "surrogatepass"),
            _VERSION + msgspec.msgpack.encode(own) if own else None,
        )
        appended = self._store.append(self._log, encode_batch([entry], timestamp_ms=moment.wall_ms))
        if isinstance(appended, AppendError):
            return TopicRefusal(APPEND_ERRORS[appended], appended.value)
        self.position = appended.position
        self._apply(group_id, own)
        self.changes += 1
        return None

    def _altered(self, before: Mapping[str, str], changes: Iterable[AlterableConfig]) -> dict[str, str] | TopicRefusal:
        own, seen = dict(before), set[str]()
        for change in changes:
            refused = _refuse(change, seen)
            if refused is not None:
                return refused
            seen.add(change.name)
            if change.config_operation in _LISTS and change.value is not None:
                there, some = self._names(own, change.name), Names.parse(change.value).all
                is_more = change.config_operation == ConfigOperation.APPEND
                own[change.name] = str(Names(there | some if is_more else there - some))
                continue
            own.pop(change.name, None)
            if change.config_operation == ConfigOperation.SET and change.value is not None:
                key = SETTINGS[change.name]
                own[change.name] = key.show(key.parse(change.value))
        overridden = self._overridden(own)
        lowest, highest = overridden.min_session_timeout_ms, overridden.max_session_timeout_ms
        if lowest > highest:
            reason = f"{_MIN_SESSION} would be {lowest}, {_MAX_SESSION} less: {highest}"
            return TopicRefusal(ErrorCode.INVALID_CONFIG, reason)
        return refuse_settings(self._config, own) or own

    # ----------------------------------------------------------------------------------------------------- showing

    def own(self, group_id: str) -> Mapping[str, str]:
        """The group's own settings."""
        return self._own.get(group_id, {})

    def described(self, group_id: str) -> list[DescribedConfig]:
        """Describe every setting with its possible sources, the strongest first."""
        own = self._own.get(group_id, {})
        return [self._described(name, key, own.get(name)) for name, key in SETTINGS.items()]

    def _described(self, name: str, key: Key, own: str | None) -> DescribedConfig:
        value, default = key.show(getattr(self._config, key.field)), key.show(key.default)
        of_node = key.field.replace("_", ".")
        synonyms = [ConfigSynonym(of_node, default, ConfigSource.DEFAULT)]
        if value != default:
            synonyms.insert(0, ConfigSynonym(of_node, value, ConfigSource.STATIC_BROKER))
        if own is not None:
            synonyms.insert(0, ConfigSynonym(name, own, ConfigSource.GROUP))
        return DescribedConfig(
            name=name,
            value=value if own is None else own,
            config_source=synonyms[0].source,
            synonyms=tuple(synonyms),
            config_type=_CONFIG_TYPES.get(key.type, ConfigType.INT),
            documentation=key.about,
            is_default=synonyms[0].source == ConfigSource.DEFAULT,
        )


def _refuse(change: AlterableConfig, seen: set[str]) -> TopicRefusal | None:
    name, value, operation = change.name, change.value, change.config_operation
    if name in seen:
        return TopicRefusal(ErrorCode.INVALID_REQUEST, f"the request changes {name} more than once")
    if operation == ConfigOperation.DELETE:
        return None
    if name not in SETTINGS:
        return TopicRefusal(ErrorCode.INVALID_CONFIG, unknown("group", name, SETTINGS))
    if operation in _LISTS and SETTINGS[name].type is not Names:
        return TopicRefusal(ErrorCode.INVALID_CONFIG, f"{name} is no list: nothing can be appended or subtracted")
    if operation != ConfigOperation.SET and operation not in _LISTS:
        return TopicRefusal(ErrorCode.INVALID_REQUEST, f"{operation} is no operation on a setting")
    if value is None:
        return TopicRefusal(ErrorCode.INVALID_REQUEST, f"{name} has no value")
    try:
        SETTINGS[name].parse(value)
    except ValueError:
        return TopicRefusal(ErrorCode.INVALID_CONFIG, f"{name} = {value[:200]}: {SETTINGS[name].allowed} is allowed")
    return None


def _decode(key: bytes | None, value: bytes | None) -> tuple[str, dict[str, str] | None]:
    key = key or b""
    if not key.startswith(_KIND) or (value is not None and value[:2] != _VERSION):
        raise ConfigsCorrupt(f"settings under {key[:200]!r}: their record is not of a version known here")
    try:
        own = None if value is None else msgspec.msgpack.decode(value[2:], type=dict[str, str])
        return key[len(_KIND) :].decode("utf-8", "surrogatepass"), own
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise ConfigsCorrupt(f"settings under {key[:200]!r}: {error}") from None
