"""Answer DescribeConfigs: settings of topics and groups, which can be changed, and of the node, which are read once at
its start. Each resource is answered by itself."""

from collections.abc import Collection, Iterable
from typing import Protocol

import msgspec

from coordinator.clock import Moment
from coordinator.config.config import KEYS
from coordinator.config.keys import INT_MAX, Key, ListenerKinds, Names
from coordinator.core.admission import admit, admit_to_shard
from coordinator.core.core import Core
from coordinator.runtime.outbox import Awaited
from coordinator.runtime.shard import Shard
from coordinator.topics.configs import SETTINGS, described_config
from coordinator.topics.rules import TopicRefusal, refuse_name
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    DescribedConfig,
    DescribedConfigs,
    ResourceType,
)
from protocol.session import RequestRef

NODE_KEYS = (
    "node.id",
    "group.min.session.timeout.ms",
    "group.max.session.timeout.ms",
    "group.initial.rebalance.delay.ms",
    "group.max.size",
    "group.coordinator.rebalance.protocols",
    "group.consumer.session.timeout.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.assignment.interval.ms",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.max.assignment.interval.ms",
    "group.consumer.max.size",
    "group.consumer.assignors",
    "group.consumer.migration.policy",
    "group.forbidden.topics",
    "group.forbidden.filters",
    "offset.metadata.max.bytes",
    "offsets.topic.num.partitions",
    "offsets.topic.segment.bytes",
    "offsets.retention.minutes",
    "offsets.retention.check.interval.ms",
    "num.partitions",
    "auto.create.topics.enable",
    "message.max.bytes",
    "log.segment.bytes",
    "log.retention.ms",
    "log.retention.minutes",
    "log.retention.hours",
    "log.retention.bytes",
    "log.retention.check.interval.ms",
    "fetch.max.bytes",
    "max.connections",
    "socket.request.max.bytes",
)
"""Keys of the configuration that are also Kafka's: tools for brokers know them."""


INVALID = ErrorCode.INVALID_REQUEST


def describe_configs(core: Core, ref: RequestRef, message: DescribeConfigs, moment: Moment) -> None:
    """Describe each setting: its value and its sources."""
    results = [_described(core, resource, message) for resource in dict.fromkeys(message.resources)]
    awaited(core, message.resources).hold(core.outbox, ref, DescribeConfigsReply(tuple(results)))


class _Named(Protocol):
    """A resource, whatever is asked about it."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


def awaited(core: Core, resources: Iterable[_Named]) -> Awaited:
    """Return what a reply about these resources waits for."""
    found = Awaited()
    found.add(core.outbox, max(core.embedded.position, core.group_configs.position))
    for resource in resources:
        if resource.resource_type == ResourceType.GROUP:
            shard = core.find(resource.resource_name)[0]
            if has_settings_with_groups(shard) and not admit_to_shard(shard):
                found.add_group(shard.outbox, resource.resource_name)
    return found


def has_settings_with_groups(shard: Shard) -> bool:
    """Return whether settings of groups are in the log of their shard: nodes share it."""
    return shard.log.files is None


def refuse_elsewhere(core: Core, shard: Shard, group_id: str) -> TopicRefusal | None:
    """Refuse a group whose settings are with it at another node, or are still being read."""
    error = admit(core, group_id) if has_settings_with_groups(shard) else ErrorCode.NONE
    if not error:
        return None
    return TopicRefusal(error, "settings of a group are with it: ask the node that FindCoordinator names")


def _described(core: Core, resource: DescribeConfigsResource, message: DescribeConfigs) -> DescribedConfigs:
    found = _find(core, resource)
    kind, name = resource.resource_type, resource.resource_name
    if isinstance(found, TopicRefusal):
        return DescribedConfigs(kind, name, found.error, found.message)
    if not message.include_synonyms:
        found = [msgspec.structs.replace(config, synonyms=()) for config in found]
    if not message.include_documentation:
        found = [msgspec.structs.replace(config, documentation=None) for config in found]
    return DescribedConfigs(kind, name, configs=tuple(found))


def _find(core: Core, resource: DescribeConfigsResource) -> list[DescribedConfig] | TopicRefusal:
    name, keys = resource.resource_name, resource.configuration_keys
    if resource.resource_type == ResourceType.TOPIC:
        own = core.embedded.configs(name)
        if own is None:
            return refuse_name(name) or TopicRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return [described_config(key, own, core.embedded.settings) for key in _wanted(SETTINGS, keys)]
    if resource.resource_type == ResourceType.BROKER:
        refused = refuse_node(core, name, may_be_all=True)
        return refused or [_described_key(core, KEYS[key]) for key in _wanted(NODE_KEYS, keys)]
    if resource.resource_type == ResourceType.GROUP:
        if not name:
            return TopicRefusal(INVALID, "a group has a name")
        if elsewhere := refuse_elsewhere(core, core.find(name)[0], name):
            return elsewhere
        return [config for config in core.group_configs.described(name) if not keys or config.name in keys]
    return no_such_kind(resource.resource_type)


def _wanted(known: Iterable[str], keys: Collection[str] | None) -> list[str]:
    """Return the keys asked for; every key if none is named."""
    return [name for name in known if not keys or name in keys]


def no_such_kind(resource_type: int) -> TopicRefusal:
    kinds = ", ".join(f"{kind.value} ({kind.name})" for kind in ResourceType)
    return TopicRefusal(INVALID, f"resources of type {resource_type} have no settings here; there are {kinds}")


def refuse_node(core: Core, name: str, *, may_be_all: bool) -> TopicRefusal | None:
    if name == str(core.placement.node_id) or (may_be_all and not name):
        return None
    return TopicRefusal(INVALID, f"node {core.placement.node_id} is asked for the settings of node {name[:100]!r}")


def _described_key(core: Core, key: Key) -> DescribedConfig:
    value, default = (None if raw is None else key.show(raw) for raw in (getattr(core.config, key.field), key.default))
    is_default = value == default
    synonyms = [] if default is None else [ConfigSynonym(key.name, default, ConfigSource.DEFAULT)]
    if not is_default:
        synonyms.insert(0, ConfigSynonym(key.name, value, ConfigSource.STATIC_BROKER))
    return DescribedConfig(
        name=key.name,
        value=value,
        read_only=True,
        config_source=ConfigSource.DEFAULT if is_default else ConfigSource.STATIC_BROKER,
        synonyms=tuple(synonyms),
        config_type=_type_of(key),
        documentation=key.about,
        is_default=is_default,
    )


def _type_of(key: Key) -> ConfigType:
    if key.type is bool:
        return ConfigType.BOOLEAN
    if key.highest is not None:
        return ConfigType.INT if key.highest <= INT_MAX else ConfigType.LONG
    return ConfigType.LIST if issubclass(key.type, Names | ListenerKinds) else ConfigType.STRING
