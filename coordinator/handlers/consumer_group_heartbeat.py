"""Answer ConsumerGroupHeartbeat (docs/spec/consumer-group-protocol.md#2): validate the request, find or create the
group, hand it the event."""

from typing import Any, Final

from msgspec.structs import replace

from coordinator.accounts.permission import TOPIC
from coordinator.clock import Moment
from coordinator.core.admission import Found, admit_bytes, admit_operation, admit_to_group, admit_write
from coordinator.core.core import Connection, Core
from coordinator.facts.connection_facts import fences
from coordinator.groups.classic.notes import origin_of_client
from coordinator.groups.consumer.events import (
    ConsumerAway,
    ConsumerBeat,
    ConsumerJoin,
    ConsumerLeave,
    MemberRequest,
    TopicFilter,
    refuse_heartbeat,
    sees_all,
)
from coordinator.groups.consumer.guards import holder_of, refuse_invalid
from coordinator.groups.consumer.heartbeats import answer_idle, extend_refused
from coordinator.groups.table import Refusal
from coordinator.handlers.list_refusals import note_refused_join
from coordinator.records.consumer_records import ConsumerMemberRecord
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.kinds.conversions import to_consumer
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID, Message
from protocol.messages.acls import AclOperation
from protocol.messages.consumer_groups import (
    JOINING,
    LEAVING,
    LEAVING_FOR_NOW,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
)
from protocol.session import RequestRef

_ACTIVE: Final = ShardState.ACTIVE
_CONSUMER: Final = GroupKind.CONSUMER
_NONE: Final = ErrorCode.NONE
_KEPT: Final = ("member_id", "instance_id", "rack_id", "subscribed_topic_names", "subscribed_topic_regex")
_NOTHING: Final = ConsumerMemberRecord("", "")
_KINDS = {JOINING: ConsumerJoin, LEAVING: ConsumerLeave, LEAVING_FOR_NOW: ConsumerAway}


def idle_heartbeat(
    core: Core, connection: Connection, message: ConsumerGroupHeartbeat, now_ms: int
) -> ConsumerGroupHeartbeatReply | None:
    """Answer a heartbeat that only extends its member's session on the spot, without an event and its outcome. Return
    None, with nothing done, for any other, and where a reply must wait for the log."""
    found = core.directory.get(message.group_id)
    if found is None or found.kind is not _CONSUMER or (group := found.consumer) is None:
        return None
    shard, group_id = found.shard, message.group_id
    if (
        shard.state is not _ACTIVE
        or shard.deleting
        or group.settings is not core.group_configs.consumer_settings(group_id)
        or "consumer" not in core.config.group_coordinator_rebalance_protocols.all
        or admit_write(core)
        or shard.outbox.position_of(group_id)
    ):
        return None
    client = connection.present_client()
    return answer_idle(group, message, connection.number, client.client_id, client.client_host, now_ms)


def admit_heartbeat(core: Core, message: ConsumerGroupHeartbeat) -> Found | Message:
    """Admit a ConsumerGroupHeartbeat: by itself first, whatever the group."""
    found = Found(*core.find(message.group_id))
    refused = _refuse(core, message, found)
    return found if refused is None else refuse_heartbeat(*refused)


def _refuse(core: Core, message: ConsumerGroupHeartbeat, found: Found) -> Refusal | None:
    if "consumer" not in core.config.group_coordinator_rebalance_protocols.all:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, "group.coordinator.rebalance.protocols has no consumer")
    if invalid := refuse_invalid(message, core.group_configs.consumer_settings(message.group_id).assignors):
        return invalid
    if len(message.group_id) > LONGEST_GROUP_ID:
        return Refusal(ErrorCode.INVALID_GROUP_ID)
    refused = admit_to_group(found.shard, message.group_id)
    return Refusal(refused) if refused else None


def _admit_limits(core: Core, message: ConsumerGroupHeartbeat, group: Group | None) -> ErrorCode:
    """Check the limits of the log, and of memory."""
    if (refused := admit_write(core)) or message.member_epoch < JOINING:
        return refused
    return _admit_metadata(core, message, group)


def _admit_metadata(core: Core, message: ConsumerGroupHeartbeat, group: Group | None) -> ErrorCode:
    """Check the limits of memory, for what the request adds to what its member holds, or the one that it replaces."""
    if message.member_epoch == JOINING and (refused := admit_operation(core)):
        return refused
    consumer = None if group is None else group.serving_consumer
    known = None
    if consumer is not None:
        known = holder_of(consumer, message.instance_id) or consumer.members.get(message.member_id)
    if known is None and message.member_epoch > JOINING:
        return _NONE  # the group refuses it
    added = _added_bytes(message, _NOTHING if known is None else known.subscription)
    return admit_bytes(core, 0 if consumer is None else consumer.metadata_bytes, added)


def _added_bytes(message: ConsumerGroupHeartbeat, held: ConsumerMemberRecord) -> int:
    """Return the bytes that the group keeps in addition, as `bytes_of` estimates them. Fields that are not named stay;
    those of the classic protocol go."""
    added = 0 if held.classic is None else -sum([len(metadata) for _, metadata in held.classic.protocols])
    for field in _KEPT:
        if (value := getattr(message, field)) is not None:
            added += _size(value) - _size(getattr(held, field) or "")
    return added


def _size(value: str | tuple[str, ...]) -> int:
    return len(value) if isinstance(value, str) else sum(map(len, set(value)))


def consumer_group_heartbeat(
    core: Core, ref: RequestRef, message: ConsumerGroupHeartbeat, found: Found, moment: Moment
) -> None:
    """Let a member join, stay or leave, within the limits of the node."""
    if not message.member_id:
        message = replace(message, member_id=core.ids.member_id("consumer"))
    kind: Any = _KINDS.get(message.member_epoch, ConsumerBeat)
    client = core.client(ref.connection)
    sees = topics_seen(core, ref)
    is_fencing = kind is ConsumerJoin and fences(core, ref, found.group, message.instance_id)
    event = kind(ref, message, client.client_id, client.client_host, sees, origin_of_client(client), is_fencing)
    full = _admit_limits(core, message, found.group)
    refused = _refuse_for_now(event, full, found.group, moment) if full else _process(core, event, found, moment)
    if refused is not None:
        core.outbox.send(ref, refuse_heartbeat(*refused))


def _refuse_for_now(event: MemberRequest, error: ErrorCode, group: Group | None, moment: Moment) -> Refusal:
    """Refuse what a limit does not allow. A member that stays does not die because the node has no room for it."""
    consumer = None if group is None else group.serving_consumer
    if consumer is not None and isinstance(event, ConsumerBeat) and error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        extend_refused(consumer, event, moment.monotonic_ms)
    return Refusal(error)


def topics_seen(core: Core, ref: RequestRef) -> TopicFilter | None:
    """Return a check that the sender may describe a topic; a pattern of one that may not does not match it. None: it
    cannot be told now."""
    if core.topics_seen is not None:
        return core.topics_seen(ref.connection)
    connection = core.connections.get(ref.connection)
    if connection is None or connection.access is None:
        return sees_all
    permits = connection.access.permits
    return lambda topic: permits(TOPIC, topic, AclOperation.DESCRIBE)


def _process(core: Core, event: Any, found: Found, moment: Moment) -> Refusal | None:
    """Hand the event to the consumer group. A join makes one of an absent group, and of a classic one that may be
    converted (docs/spec/consumer-group-protocol.md#2.4, #13)."""
    shard, group = found
    group_id = event.request.group_id
    if group is not None and group.consumer is not None and group.kind is GroupKind.CONSUMER:
        group.consumer.settings = core.group_configs.consumer_settings(group_id)  # effective from now on
    elif type(event) is not ConsumerJoin:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")
    elif group is not None:
        return to_consumer(shard, group, event, moment)
    elif core.count_groups() >= core.config.max_groups:
        return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there are {core.config.max_groups} groups")
    else:
        group = shard.new_group(group_id)
    answers = shard.run(group, event, moment)
    for answer in answers:
        reply = answer.reply
        if type(reply) is ConsumerGroupHeartbeatReply and reply.error_code and answer.ref == event.ref:
            note_refused_join(core, event.ref, event.request, reply, moment)
    shard.outbox.deliver(group_id, answers)
    return None
