"""Answer IncrementalAlterConfigs and AlterConfigs. Each resource is answered by itself."""

from collections import Counter
from collections.abc import Iterable

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.facts.admin_notes import OF_NODE, note_admin
from coordinator.groups.classic.notes import Cause
from coordinator.handlers.client_balanced import refreshed
from coordinator.handlers.describe_configs import (
    INVALID,
    awaited,
    has_settings_with_groups,
    no_such_kind,
    refuse_elsewhere,
    refuse_node,
)
from coordinator.records.records import GroupSettingsRecord
from coordinator.topics.rules import TopicRefusal
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigs,
    AlterConfigsReply,
    AlterConfigsResource,
    AlteredConfigs,
    ConfigOperation,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ReplaceConfigsResource,
    ResourceType,
)
from protocol.session import RequestRef


# ---------------------------------------------------------------------------------------------------------- changing
def alter_configs(core: Core, ref: RequestRef, message: IncrementalAlterConfigs, moment: Moment) -> None:
    """Change the settings named; durable when answered."""
    reply = IncrementalAlterConfigsReply(_altered(core, ref, message, moment))
    awaited(core, message.resources).hold(core.outbox, ref, reply)


def replace_configs(core: Core, ref: RequestRef, message: AlterConfigs, moment: Moment) -> None:
    """Replace all settings of each resource: settings that are not named are reset."""
    resources = tuple(_as_changes(core, resource) for resource in message.resources)
    altered = _altered(core, ref, IncrementalAlterConfigs(resources, message.validate_only), moment)
    awaited(core, message.resources).hold(core.outbox, ref, AlterConfigsReply(altered))


def _as_changes(core: Core, resource: ReplaceConfigsResource) -> AlterConfigsResource:
    kind, name = resource.resource_type, resource.resource_name
    own: Iterable[str] = ()
    if kind == ResourceType.TOPIC:
        own = core.embedded.configs(name) or ()
    elif kind == ResourceType.GROUP:
        own = core.group_configs.own(name)
    named = {config.name for config in resource.configs}
    changes = [AlterableConfig(config.name, ConfigOperation.SET, config.value) for config in resource.configs]
    changes += [AlterableConfig(left_out, ConfigOperation.DELETE) for left_out in own if left_out not in named]
    return AlterConfigsResource(kind, name, tuple(changes))


def _altered(
    core: Core, ref: RequestRef, message: IncrementalAlterConfigs, moment: Moment
) -> tuple[AlteredConfigs, ...]:
    times = Counter((resource.resource_type, resource.resource_name) for resource in message.resources)
    replies = []
    for resource in message.resources:
        kind, name = resource.resource_type, resource.resource_name
        if times[kind, name] > 1:
            refused: TopicRefusal | None = TopicRefusal(INVALID, "each resource must appear at most once")
        else:
            refused = _alter(core, resource, moment, validate_only=message.validate_only)
        if refused is None:
            replies.append(AlteredConfigs(kind, name))
            if resource.configs and not message.validate_only:
                _note(core, ref, resource, moment)
        else:
            replies.append(AlteredConfigs(kind, name, refused.error, refused.message))
    return tuple(replies)


def _note(core: Core, ref: RequestRef, resource: AlterConfigsResource, moment: Moment) -> None:
    changes = [_shown(change) for change in resource.configs]
    is_of_group = resource.resource_type == ResourceType.GROUP
    detail = ", ".join(changes if is_of_group else [f"topic {resource.resource_name}", *changes])
    group_id = resource.resource_name if is_of_group else OF_NODE
    note_admin(core, ref, Cause.SETTINGS_CHANGED, "alter settings", detail, moment, group_id)


def _shown(change: AlterableConfig) -> str:
    if change.config_operation == ConfigOperation.DELETE:
        return f"{change.name} reset"
    sign = "+" if change.config_operation == ConfigOperation.APPEND else ""
    sign = "-" if change.config_operation == ConfigOperation.SUBTRACT else sign
    return f"{change.name} {sign}= {(change.value or '')[:200]}"


def _alter(core: Core, resource: AlterConfigsResource, moment: Moment, *, validate_only: bool) -> TopicRefusal | None:
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        if not name:
            return TopicRefusal(INVALID, "settings of all topics are the node's, and read at its start")
        return core.embedded.alter(name, resource.configs, moment, validate_only=validate_only)
    if resource.resource_type == ResourceType.BROKER:
        refused = refuse_node(core, name, may_be_all=True)
        keys = ", ".join(config.name for config in resource.configs)[:1_000]
        return refused or TopicRefusal(
            INVALID, f"settings of a node are read at its start, and not changed after: {keys}"
        )
    if resource.resource_type == ResourceType.GROUP:
        return _alter_group(core, resource, moment, validate_only=validate_only)
    return no_such_kind(resource.resource_type)


def _alter_group(
    core: Core, resource: AlterConfigsResource, moment: Moment, *, validate_only: bool
) -> TopicRefusal | None:
    """Change the settings of a group; an existing group takes them over at once."""
    name = resource.resource_name
    shard, group = core.find(name)
    if refused := refuse_elsewhere(core, shard, name):
        return refused

    def record(own: dict[str, str]) -> TopicRefusal | None:
        error = shard.record([GroupSettingsRecord(name, own)], None, moment)
        return None if error is None else TopicRefusal(error, "the log of the group's shard takes no records now")

    refused = core.group_configs.alter(
        name,
        resource.configs,
        moment,
        validate_only=validate_only,
        record=record if has_settings_with_groups(shard) else None,
    )
    if refused is None and group is not None:
        group.classic.settings = core.group_configs.of(name)
        group.shard.expirations.note_change(name)  # it may be pinned no more
        refreshed(core, group, moment)  # members of a client-balanced one hear what is forbidden now
    return refused
