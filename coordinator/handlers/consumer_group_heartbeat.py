"""Answer ConsumerGroupHeartbeat (docs/spec/consumer-group-protocol.md#2): validate the request, find or create the
group, hand it the event."""

from typing import Any

from msgspec.structs import replace

from coordinator.accounts.permission import TOPIC
from coordinator.clock import Moment
from coordinator.groups.consumer.events import (
    ConsumerAway,
    ConsumerBeat,
    ConsumerJoin,
    ConsumerLeave,
    TopicFilter,
    refuse_heartbeat,
    sees_all,
)
from coordinator.groups.consumer.guards import refuse_invalid
from coordinator.groups.consumer.regex import InvalidPattern, compile_pattern
from coordinator.groups.table import Refusal
from coordinator.handlers.admission import Found, admit, admit_bytes, admit_operation, admit_write
from coordinator.handlers.core import Core
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.kind_records import change_kind
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID, Message
from protocol.messages.acls import AclOperation
from protocol.messages.consumer_groups import JOINING, LEAVING, LEAVING_FOR_NOW, ConsumerGroupHeartbeat
from protocol.session import RequestRef

_KINDS = {JOINING: ConsumerJoin, LEAVING: ConsumerLeave, LEAVING_FOR_NOW: ConsumerAway}


def admit_heartbeat(core: Core, message: ConsumerGroupHeartbeat) -> Found | Message:
    """Admit a ConsumerGroupHeartbeat: by itself first, whatever the group."""
    refused = _refuse(core, message)
    return Found(*core.find(message.group_id)) if refused is None else refuse_heartbeat(*refused)


def _refuse(core: Core, message: ConsumerGroupHeartbeat) -> Refusal | None:
    if "consumer" not in core.config.group_coordinator_rebalance_protocols.all:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, "group.coordinator.rebalance.protocols has no consumer")
    if invalid := refuse_invalid(message, core.group_configs.consumer_settings(message.group_id).assignors):
        return invalid
    if len(message.group_id) > LONGEST_GROUP_ID:
        return Refusal(ErrorCode.INVALID_GROUP_ID)
    refused = admit(core, message.group_id) or admit_write(core)
    if not refused and message.member_epoch >= JOINING:
        refused = _admit_metadata(core, message)
    return Refusal(refused) if refused else None


def _admit_metadata(core: Core, message: ConsumerGroupHeartbeat) -> ErrorCode:
    """Check the limits of memory, of requests that bring something to keep."""
    texts = (*(message.subscribed_topic_names or ()), message.subscribed_topic_regex, message.rack_id)
    added = sum([len(text) for text in texts if text])
    if message.member_epoch == JOINING:
        added += len(message.member_id) + len(message.instance_id or "")
        if refused := admit_operation(core):
            return refused
    if not added:
        return ErrorCode.NONE
    group = core.find(message.group_id)[1]
    held = 0 if group is None or group.consumer is None else group.consumer.metadata_bytes
    return admit_bytes(core, held, added)


def consumer_group_heartbeat(
    core: Core, ref: RequestRef, message: ConsumerGroupHeartbeat, found: Found, moment: Moment
) -> None:
    """Let a member join, stay or leave."""
    group = _group_of(core, message, found, moment)
    if isinstance(group, Refusal):
        core.outbox.send(ref, refuse_heartbeat(*group))
        return
    if not message.member_id:
        message = replace(message, member_id=core.ids.member_id("consumer"))
    kind: Any = _KINDS.get(message.member_epoch, ConsumerBeat)
    client = core.client(ref.connection)
    event = kind(ref, message, client.client_id, client.client_host, _topics_seen(core, ref), client.principal)
    group.shard.process(group, event, moment)


def _topics_seen(core: Core, ref: RequestRef) -> TopicFilter | None:
    """Return a check that the sender may describe a topic; a pattern of one that may not does not match it. None: it
    cannot be told now."""
    if core.topics_seen is not None:
        return core.topics_seen(ref.connection)
    connection = core.connections.get(ref.connection)
    if connection is None or connection.access is None:
        return sees_all
    permits = connection.access.permits
    return lambda topic: permits(TOPIC, topic, AclOperation.DESCRIBE)


def _group_of(core: Core, message: ConsumerGroupHeartbeat, found: Found, moment: Moment) -> Group | Refusal:
    """Return the consumer group. A join makes one of a group without members (docs/spec/consumer-group-protocol.md#2.4,
    #13.4)."""
    group = found.group
    if group is not None and group.consumer is not None and group.kind is GroupKind.CONSUMER:
        group.consumer.settings = core.group_configs.consumer_settings(group.group_id)  # effective from now on
        return group
    if message.member_epoch != JOINING:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {message.group_id}")
    if group is None:
        if core.count_groups() >= core.config.max_groups:
            return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there are {core.config.max_groups} groups")
        return found.shard.new_group(message.group_id)
    if not group.is_empty:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group {message.group_id} has members of another protocol")
    return _refuse_pattern(message) or _changed(core, group, moment)


def _refuse_pattern(message: ConsumerGroupHeartbeat) -> Refusal | None:
    """Compile the pattern before the group changes its kind for the request."""
    try:
        compile_pattern(message.subscribed_topic_regex or "")
    except InvalidPattern as error:
        return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, f"the regular expression is not valid: {error}")
    return None


def _changed(core: Core, group: Group, moment: Moment) -> Group | Refusal:
    failed = change_kind(group.shard, group, moment)
    if failed is not None:
        return Refusal(failed)
    return core.find(group.group_id)[1] or group.shard.new_group(group.group_id)
