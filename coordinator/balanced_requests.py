"""Who answers members of client-balanced groups: gate, find the group, hand its event to the shard with what it needs
to know of topics and offsets."""

from collections.abc import Callable
from typing import TypeVar

from coordinator.balanced_topics import as_of, partition_states, places, shape_of
from coordinator.core import ASKED, Core
from coordinator.gates import gate, partitions_of, start_gate, watch_gate, write_gate
from coordinator.groups.balanced.checks import refuse_forbidden, refuse_identity, refuse_targets
from coordinator.groups.balanced.events import (
    AskMeta,
    BalancedEvent,
    Beat,
    Confirm,
    LeaseOverdue,
    Leave,
    Mark,
    Marked,
    MetaMade,
    Places,
    Refusal,
    Register,
    Start,
    Unregister,
)
from coordinator.groups.balanced.guards import topics_of
from coordinator.groups.balanced.meta import holds
from coordinator.groups.balanced.reporting import is_plain, spoke
from coordinator.groups.balanced.state import BalancedGroup
from coordinator.groups.balanced.table import answer
from coordinator.groups.classic.state import GroupState
from coordinator.moment import Moment
from coordinator.shard import Ran, Shard
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    AcceptedGroup,
    ConfirmConsumed,
    ConfirmConsumedReply,
    ConsumeFromMax,
    ConsumeFromMaxReply,
    LeaveMember,
    LeaveMemberReply,
    MemberHeartbeat,
    MemberHeartbeatReply,
    PartitionMeta,
    PartitionMetaReply,
    RefusedGroup,
    RegisterPartitions,
    RegisterPartitionsReply,
    StartMember,
    StartMemberReply,
    UnregisterPartitions,
    UnregisterPartitionsReply,
)
from protocol.session import RequestRef

CHORE = "balanced"
_BAD = ErrorCode.BAD_REQUEST
M = TypeVar("M", LeaveMember, UnregisterPartitions, ConfirmConsumed)


def group_gate(core: Core, group_id: str) -> ErrorCode:
    """Whether this node answers for the group at all."""
    return gate(core, group_id) if group_id else _BAD


def find(core: Core, group_id: str, moment: Moment) -> tuple[Shard, BalancedGroup]:
    """The group, with its configured partitions as the list of topics is now."""
    shard = core.find(group_id)[0]
    group = shard.balanced_group(group_id)
    if group.members and group.meta_as_of != as_of(core):
        refresh(core, shard, group, moment)
    return shard, group


def refresh(core: Core, shard: Shard, group: BalancedGroup, moment: Moment) -> None:
    """Look at the topics again."""
    topics = group.on_record.topics
    shape, now = shape_of(core, group.group_id, topics), as_of(core)
    if not holds(group, now, shape):
        shard.process(
            group, MetaMade(group.group_id, partition_states(core, group.group_id, topics), now, shape), moment
        )


def topics_changed(core: Core, moment: Moment) -> None:
    """Every group looks at its topics if it has not seen them as they are, so that members hear of changes at once."""
    now = as_of(core)
    for shard in core.shards:
        for group in list(shard.balanced.values()):
            if group.members and group.meta_as_of != now:
                refresh(core, shard, group, moment)


# --- members ---


def start_member(core: Core, ref: RequestRef, message: StartMember, moment: Moment) -> None:
    """Become, or stay, a member (client-balanced-groups 6.1)."""
    refusal = _refuse_start(core, message)
    if refusal is not None:
        core.outbox.send(ref, StartMemberReply(refusal.error_code, refusal.text))
        return
    shard, classic = core.find(message.group_id)
    if classic is None and (failed := _create(shard, message.group_id, moment)):
        core.outbox.send(ref, StartMemberReply(failed))
        return
    shard, group = find(core, message.group_id, moment)
    for member in list(group.members.values()):
        if member.deadline_ms <= moment.monotonic_ms:  # its time is over, and nobody has looked yet
            shard.process(group, LeaseOverdue(group.group_id, member.consumer_id), moment)
    client = core.client(ref.connection)
    owned = [group.key_of(entry) for entry in group.owners.of(message.consumer_id)]
    held = places(core, shard, message.group_id, [*owned, *(one.key for one in message.held)])
    shape = shape_of(core, message.group_id, message.topics)
    is_known = group.meta_as_of == as_of(core) and group.meta_shape == shape
    is_known = is_known and bool(group.members) and group.on_record.topics == topics_of(message)
    states = None if is_known else partition_states(core, message.group_id, message.topics)
    event = Start(ref, message, client.client_id, client.client_host, held, states, as_of(core), shape)
    shard.process(group, event, moment)


def _refuse_start(core: Core, message: StartMember) -> Refusal | None:
    if refusal := refuse_identity(message, core.group_configs.session_timeouts(message.group_id)):
        return refusal
    if error := group_gate(core, message.group_id) or write_gate(core) or watch_gate(core):
        return Refusal(error)
    if refusal := refuse_targets(message, lambda topic: core.topics.id_of(topic) is not None):
        return refusal
    if refusal := refuse_forbidden(message, *core.group_configs.forbidden(message.group_id)):
        return refusal
    if error := start_gate(core, message):
        return Refusal(error, "what its members say of themselves has no room (group.max.metadata.bytes)")
    partitions, most = partitions_of(core, message.topics), core.config.max_entries_per_request
    if partitions > most:
        text = f"topics: {partitions} partitions, and a group may read {most} (max.entries.per.request)"
        return Refusal(_BAD, text)
    return _make_room(core, message.group_id)


def _make_room(core: Core, group_id: str) -> Refusal | None:
    """There is a group to commit to, of which no classic member is part."""
    _shard, classic = core.find(group_id)
    if classic is None:
        if core.count_groups() >= core.config.max_groups:
            return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there are {core.config.max_groups} groups")
        return None
    if classic.state is not GroupState.EMPTY:
        kind = classic.protocol_type or "classic"
        said = f"group {group_id} is not client-balanced: it has members of type {kind!r}"
        return Refusal(ErrorCode.INCONSISTENT_MODE, said)
    return None


def _create(shard: Shard, group_id: str, moment: Moment) -> ErrorCode:
    """The home of what it will commit."""
    made = shard.create(group_id, moment)
    return made if isinstance(made, ErrorCode) else ErrorCode.NONE


def heartbeat(core: Core, ref: RequestRef, message: MemberHeartbeat, moment: Moment) -> None:
    """A sign of life, and most times nothing else (client-balanced-groups 11, 13)."""
    if refused := group_gate(core, message.group_id):
        core.outbox.send(ref, MemberHeartbeatReply(refused))
        return
    shard, group = find(core, message.group_id, moment)
    spoke(group, message, ref.connection)
    if is_plain(group, message):
        error = answer(group, message, moment.monotonic_ms)
        version = -1 if error else group.on_record.meta_version
        core.outbox.send(ref, MemberHeartbeatReply(error, meta_version=version))
        return
    known = places(core, shard, message.group_id, [one.key for one in message.released])
    shard.process(group, Beat(ref, message, known), moment)


def partition_meta(core: Core, ref: RequestRef, message: PartitionMeta, moment: Moment) -> None:
    """The configured partitions and whether they can be read."""
    if refused := group_gate(core, message.group_id):
        core.outbox.send(ref, PartitionMetaReply(refused))
        return
    shard, group = find(core, message.group_id, moment)
    shard.process(group, AskMeta(ref, message), moment)


def leave_member(core: Core, ref: RequestRef, message: LeaveMember, moment: Moment) -> None:
    """A member goes."""
    if refused := group_gate(core, message.group_id) or write_gate(core):
        core.outbox.send(ref, LeaveMemberReply(refused))
    else:
        _hand_over(core, ref, message, [one.key for one in message.released], Leave, moment)


def _hand_over(
    core: Core,
    ref: RequestRef,
    message: M,
    keys: list[str],
    happens: Callable[[RequestRef, M, Places], BalancedEvent],
    moment: Moment,
) -> None:
    """To its group, with what is known of the partitions that it names."""
    shard, group = find(core, message.group_id, moment)
    shard.process(group, happens(ref, message, places(core, shard, message.group_id, keys)), moment)


# --- partitions ---


def register_partitions(core: Core, ref: RequestRef, message: RegisterPartitions, moment: Moment) -> None:
    """Partitions to the first who asks (client-balanced-groups 7, 8)."""
    if refused := group_gate(core, message.group_id) or write_gate(core):
        core.outbox.send(ref, RegisterPartitionsReply(refused))
        return
    shard, group = find(core, message.group_id, moment)
    keys = [item.key for item in message.items]
    for key in keys:
        place = group.place_of(key)
        owner = None if place is None else group.owner(place)
        if owner is not None and owner.deadline_ms <= moment.monotonic_ms:
            shard.process(group, LeaseOverdue(group.group_id, owner.consumer_id), moment)
    shard.process(group, Register(ref, message, places(core, shard, message.group_id, keys)), moment)


def unregister_partitions(core: Core, ref: RequestRef, message: UnregisterPartitions, moment: Moment) -> None:
    """Partitions that are free again."""
    if refused := group_gate(core, message.group_id) or write_gate(core):
        core.outbox.send(ref, UnregisterPartitionsReply(refused))
    else:
        _hand_over(core, ref, message, [item.key for item in message.items], Unregister, moment)


def confirm_consumed(core: Core, ref: RequestRef, message: ConfirmConsumed, moment: Moment) -> None:
    """Commits of the owners."""
    if refused := group_gate(core, message.group_id) or write_gate(core):
        core.outbox.send(ref, ConfirmConsumedReply(refused))
    else:
        _hand_over(core, ref, message, [item.key for item in message.items], Confirm, moment)


# --- operators ---


def consume_from_max(core: Core, ref: RequestRef, message: ConsumeFromMax, moment: Moment) -> None:
    """Each group by itself (client-balanced-groups 13.3)."""
    accepted, refused, position = [], [], 0
    for group_id in dict.fromkeys(message.groups):
        marked, at = _mark(core, ref, group_id, message.actor, moment)
        if marked.error_code:
            refused.append(RefusedGroup(group_id, marked.error_code, marked.error_message))
        else:
            accepted.append(AcceptedGroup(group_id, marked.from_max_id))
            position = max(position, at)
    core.outbox.hold(position, ref, ConsumeFromMaxReply(tuple(accepted), tuple(refused)))


def _origin(core: Core, ref: RequestRef) -> str:
    """Where a request came from, whatever it says of itself."""
    return "HTTP" if ref.connection == ASKED else str(core.client(ref.connection))


def _mark(core: Core, ref: RequestRef, group_id: str, remark: str, moment: Moment) -> tuple[Marked, int]:
    if error := gate(core, group_id, may_be_empty=True) or write_gate(core):
        return Marked(error, error.name), 0
    shard = core.shard_of(group_id)
    group = shard.balanced.get(group_id)
    if group is None:
        if group_id not in shard.groups:
            return Marked(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}"), 0
        return Marked(ErrorCode.INCONSISTENT_MODE, f"{group_id} is not a client-balanced group"), 0
    ran = shard.run(group, Mark(ref, group_id, _origin(core, ref), remark), moment)
    verdicts = [one.reply for one in ran.answers if isinstance(one.reply, Marked)]
    shard.deliver(Ran([one for one in ran.answers if not isinstance(one.reply, Marked)], ran.position))
    return verdicts[0], ran.position
