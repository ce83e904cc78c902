"""Answer StartMember."""

from coordinator.clock import Moment
from coordinator.core.admission import Found, admit_bytes, admit_operation, admit_write
from coordinator.core.core import Core
from coordinator.core.request_cost import partitions_of
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.client_balanced.checks import refuse_forbidden, refuse_identity, refuse_targets
from coordinator.groups.client_balanced.events import LeaseOverdue, Start
from coordinator.groups.client_balanced.guards import topics_of
from coordinator.groups.client_balanced.state import bytes_of, bytes_of_member
from coordinator.groups.table import Refusal
from coordinator.handlers.client_balanced import BAD, admit_client_balanced, refreshed
from coordinator.handlers.client_balanced_topics import as_of, partition_states, places, shape_of
from coordinator.runtime.group import GroupKind
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import StartMember, StartMemberReply
from protocol.session import RequestRef


def admit_start(core: Core, message: StartMember) -> Found | Message:
    """Admit a StartMember, with its own limits."""
    refusal = _refuse_start(core, message)
    if refusal is not None:
        return StartMemberReply(refusal.error_code, refusal.text)
    return Found(*core.find(message.group_id))


# --- members ---
def start_member(core: Core, ref: RequestRef, message: StartMember, found: Found, moment: Moment) -> None:
    """Admit a new member, or let a present one start again (docs/spec/client-balanced-groups.md#6.1)."""
    shard = found.shard
    kept = found.group or shard.create(message.group_id, moment)
    if isinstance(kept, ErrorCode):
        core.outbox.send(ref, StartMemberReply(kept))
        return
    group = refreshed(core, kept, moment)
    for member in list(group.members.values()):
        if member.deadline_ms <= moment.monotonic_ms:  # its lease is over, and the operation has not expired yet
            shard.process(kept, LeaseOverdue(group.group_id, member.consumer_id), moment)
    client = core.client(ref.connection)
    owned = [group.key_of(entry) for entry in group.owners.of(message.consumer_id)]
    held = places(core, shard, message.group_id, [*owned, *(one.key for one in message.held)])
    shape = shape_of(core, message.group_id, message.topics)
    is_known = group.meta_as_of == as_of(core) and group.meta_shape == shape
    is_known = is_known and bool(group.members) and group.on_record.topics == topics_of(message)
    states = None if is_known else partition_states(core, message.group_id, message.topics)
    event = Start(
        ref, message, client.client_id, client.client_host, held, states, as_of(core), shape, client.principal
    )
    shard.process(kept, event, moment)


def _refuse_start(core: Core, message: StartMember) -> Refusal | None:
    settings = core.group_configs.of(message.group_id)
    if refusal := refuse_identity(message, (settings.min_session_timeout_ms, settings.max_session_timeout_ms)):
        return refusal
    if error := admit_client_balanced(core, message.group_id) or admit_write(core) or admit_operation(core):
        return Refusal(error)
    if refusal := refuse_targets(message, lambda topic: core.topics.id_of(topic) is not None):
        return refusal
    if refusal := refuse_forbidden(message, *core.group_configs.forbidden(message.group_id)):
        return refusal
    if error := _admit_metadata(core, message):
        return Refusal(error, "what its members say of themselves has no room (group.max.metadata.bytes)")
    partitions, most = partitions_of(core, message.topics), core.config.max_entries_per_request
    if partitions > most:
        text = f"topics: {partitions} partitions, and a group may read {most} (max.entries.per.request)"
        return Refusal(BAD, text)
    return _make_room(core, message.group_id)


def _admit_metadata(core: Core, message: StartMember) -> ErrorCode:
    """Check the limits of memory for a StartMember of a client-balanced group."""
    found = core.find(message.group_id)[1]
    group = None if found is None else found.balanced
    added = bytes_of_member(message)
    if group is None or not group.members:
        return admit_bytes(core, 0, added + bytes_of(message.topics, message.filters.items()))
    return ErrorCode.NONE if message.consumer_id in group.members else admit_bytes(core, group.metadata_bytes, added)


def _make_room(core: Core, group_id: str) -> Refusal | None:
    """Check that the group can be created, or has no classic members."""
    group = core.find(group_id)[1]
    if group is None:
        if core.count_groups() >= core.config.max_groups:
            return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there are {core.config.max_groups} groups")
        return None
    if group.kind is GroupKind.CONSUMER:
        return Refusal(
            ErrorCode.INCONSISTENT_MODE, f"group {group_id} is not client-balanced: Muster assigns partitions"
        )
    if group.classic.state is not GroupState.EMPTY:
        kind = group.classic.protocol_type or "classic"
        said = f"group {group_id} is not client-balanced: it has members of type {kind!r}"
        return Refusal(ErrorCode.INCONSISTENT_MODE, said)
    return None
