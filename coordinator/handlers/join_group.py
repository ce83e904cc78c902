"""Answer JoinGroup: admit the request, create the group if need be, hand the join to the shard."""

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.core.admission import Found, admit_bytes, admit_operation, admit_to_group, admit_write
from coordinator.core.core import Core
from coordinator.facts.connection_facts import fences
from coordinator.groups.classic.events import OwnershipEnded, ReplaceStatic, joined
from coordinator.groups.classic.notes import origin_of_client
from coordinator.groups.consumer.classic_members.joining import extend_refused_join
from coordinator.groups.consumer.events import ClassicJoin
from coordinator.groups.consumer.guards import holder_of
from coordinator.groups.consumer.state import ConsumerGroup
from coordinator.groups.outcome import Answer
from coordinator.handlers.consumer_group_heartbeat import topics_seen
from coordinator.handlers.list_refusals import note_refused_join
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.kinds.conversions import to_classic
from coordinator.runtime.shard import Shard
from protocol.consumer_protocol import TooManyEntries, decode_subscription
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages import LONGEST_GROUP_ID, Message
from protocol.messages.groups import JoinGroup, JoinGroupReply
from protocol.session import RequestRef

_FORGETS_MEMBER_ID = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
"""Errors with which a refused JoinGroup does not echo its member id (docs/spec/group-protocol.md#0.3)."""


def admit_join(core: Core, message: JoinGroup) -> Found | Message:
    """Admit a JoinGroup, with its own limits."""
    found = Found(*core.find(message.group_id))
    refused = _refuse(core, message, found)
    return _reply(message, refused) if refused else found


def _reply(message: JoinGroup, refused: ErrorCode) -> JoinGroupReply:
    return JoinGroupReply(error_code=refused, member_id="" if refused in _FORGETS_MEMBER_ID else message.member_id)


def _refuse(core: Core, message: JoinGroup, found: Found) -> ErrorCode:
    if not message.group_id or len(message.group_id) > LONGEST_GROUP_ID:
        return ErrorCode.INVALID_GROUP_ID
    group = found.group
    settings = core.group_configs.of(message.group_id) if group is None else group.classic.settings
    if not settings.min_session_timeout_ms <= message.session_timeout_ms <= settings.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if refused := admit_to_group(found.shard, message.group_id) or (not message.member_id and admit_operation(core)):
        return refused
    if group is not None and group.serving_consumer is not None and not group.is_empty:
        return ErrorCode.NONE  # `_join_consumer_group` checks the limits
    held, added = 0, sum([len(protocol.metadata) for protocol in message.protocols])
    if group is not None:
        held = group.classic.metadata_bytes
        member_id = message.member_id or group.classic.static_members.get(message.group_instance_id or "", "")
        member = group.classic.members.get(member_id)
        for protocol in () if member is None else member.protocols:
            added -= len(protocol.metadata)
    return admit_bytes(core, held, added)


def _admit_to_consumer_group(core: Core, message: JoinGroup, consumer: ConsumerGroup) -> ErrorCode:
    """Check the limits of the log, and of memory for what the request adds to what its member holds, or the one that it
    replaces."""
    try:
        names = [
            name
            for protocol in message.protocols[:1]
            for name in decode_subscription(protocol.metadata, core.config.max_entries_per_request).topics
        ]
    except TooManyEntries:
        return ErrorCode.INVALID_REQUEST
    except ProtocolViolation:
        names = []  # the group's table refuses it, in its order of checks
    holder = None if message.member_id else holder_of(consumer, message.group_instance_id)
    known = holder or consumer.members.get(message.member_id)
    if refused := admit_write(core) or (known is None and message.member_id and admit_operation(core)):
        return refused
    added = sum(map(len, set(names))) + sum([len(protocol.metadata) for protocol in message.protocols])
    if known is not None:
        held = known.subscription
        added -= sum(map(len, held.subscribed_topic_names))
        added -= sum([len(metadata) for _, metadata in held.classic.protocols]) if held.classic is not None else 0
    return admit_bytes(core, consumer.metadata_bytes, added)


def join_group(core: Core, ref: RequestRef, message: JoinGroup, found: Found, moment: Moment) -> None:
    """Admit a new member, or let a present one rejoin (docs/spec/group-protocol.md#2.1)."""
    shard, group = found
    if group is not None and group.serving_consumer is not None and not group.is_empty:
        _join_consumer_group(core, ref, message, group, moment)
        return
    if group is None or group.kind is not GroupKind.CLASSIC:
        made = _group_to_join(core, message, found, moment)
        if isinstance(made, ErrorCode):
            core.outbox.send(ref, _reply(message, made))
            return
        group = made
    classic = group.classic
    if classic.owners is not None and message.member_id in classic.members and classic.owners.of(message.member_id):
        # A member that joins has stopped reading: this ends grants whose release was lost
        # (docs/spec/consumer-client.md#E3).
        shard.process(group, OwnershipEnded(group.group_id, message.member_id), moment)
    event = joined(classic, ref, message, core.client(ref.connection))
    if isinstance(event, ReplaceStatic):
        event = replace(event, is_fencing=fences(core, ref, group, message.group_instance_id))
    answers = shard.run(group, event, moment)
    _deliver(core, ref, message, group, answers, moment)


def _join_consumer_group(core: Core, ref: RequestRef, message: JoinGroup, group: Group, moment: Moment) -> None:
    """Let a classic member into a consumer group (docs/spec/consumer-group-protocol.md#12.1)."""
    consumer = group.as_consumer()
    if refused := _admit_to_consumer_group(core, message, consumer):
        if refused is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            extend_refused_join(consumer, message.member_id, moment.monotonic_ms)
        core.outbox.send(ref, _reply(message, refused))
        return
    consumer.settings = core.group_configs.consumer_settings(group.group_id)
    client = core.client(ref.connection)
    sees = topics_seen(core, ref)
    is_fencing = not message.member_id and fences(core, ref, group, message.group_instance_id)
    event = ClassicJoin(ref, message, client.client_id, client.client_host, sees, origin_of_client(client), is_fencing)
    _deliver(core, ref, message, group, group.shard.run(group, event, moment), moment)


def _deliver(
    core: Core, ref: RequestRef, message: JoinGroup, group: Group, answers: list[Answer], moment: Moment
) -> None:
    for answer in answers:
        if answer.ref == ref and answer.reply.error_code:  # type: ignore[attr-defined]
            note_refused_join(core, ref, message, answer.reply, moment)
    group.shard.outbox.deliver(group.group_id, answers)


def _group_to_join(core: Core, message: JoinGroup, found: Found, moment: Moment) -> Group | ErrorCode:
    """Make the group a classic one, or create it."""
    if found.group is not None:
        if not found.group.is_empty:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # one mode a group (docs/spec/client-balanced-groups.md#12)
        # An Empty consumer group becomes a classic one (docs/spec/consumer-group-protocol.md#13.4).
        if message.member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not message.protocol_type or not message.protocols:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if failed := admit_write(core) or to_classic(found.shard, found.group, moment):
            return failed
        present = core.find(message.group_id)[1]
        assert present is not None
        return present
    return ErrorCode.UNKNOWN_MEMBER_ID if message.member_id else _create(core, found.shard, message.group_id, moment)


def _create(core: Core, shard: Shard, group_id: str, moment: Moment) -> Group | ErrorCode:
    if core.count_groups() >= core.config.max_groups:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return admit_write(core) or shard.create(group_id, moment)
