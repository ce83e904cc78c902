"""Actions of owning and reading: register, unregister, fetch, confirm (docs/spec/client-balanced-groups.md#7, #8).
Items are carried out one by one, each with a result of its own; of two items with the same key the second is
refused."""

from coordinator.groups.client_balanced.events import (
    ConfirmOffsets,
    Fetching,
    FetchPlanned,
    PartitionOffsets,
    PlannedItem,
    Register,
    Unregister,
)
from coordinator.groups.client_balanced.grants import (
    CONSUME_POSITIONS,
    Positions,
    commit,
    consumed_to,
    end,
    extend_lease,
    grant,
    initial_position,
    offer_soon,
    ownership_error,
    owns,
    set_positions,
)
from coordinator.groups.client_balanced.state import BalancedGroup, BalancedGroupMember
from coordinator.groups.outcome import Outcome
from coordinator.groups.ownership import Key
from coordinator.records.records import Ownership
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    ConfirmConsumedReply,
    ConfirmedPartition,
    ConfirmItem,
    FetchItem,
    RegisteredPartition,
    RegisterItem,
    RegisterPartitionsReply,
    ReleasedKey,
    UnregisteredPartition,
    UnregisterPartitionsReply,
)

_MOST_METADATA = 4_096
_BAD = ErrorCode.BAD_REQUEST


class _UniqueKeys:
    """The keys of a request, each accepted once."""

    def __init__(self, group: BalancedGroup) -> None:
        self._group = group
        self._seen: dict[str, None] = {}

    def __call__(self, key: str) -> Key | None:
        if key in self._seen:
            return None
        self._seen[key] = None
        return self._group.place_of(key)


def _extend_lease_of(group: BalancedGroup, consumer_id: str, out: Outcome) -> None:
    member = group.members.get(consumer_id)
    if member is not None:
        extend_lease(member, out.moment.monotonic_ms)


# --- register ---


def register(group: BalancedGroup, event: Register, out: Outcome) -> None:
    """Grant each partition to the first member that asks. A request may be repeated: it makes a new grant, so that late
    requests under the old one have no effect. Unless it names an offset, reading continues at the grant's position."""
    member = group.members[event.consumer_id]
    extend_lease(member, out.moment.monotonic_ms)
    positions: Positions = []
    once = _UniqueKeys(group)
    items = []
    for item in event.request.items:
        key, place = once(item.key), event.places.get(item.key)
        answer = _refusal(group, member, item, key, place)
        if answer is None:
            assert key is not None and place is not None
            answer = _grant(group, member, item, key, place, positions, out)
        items.append(answer)
    set_positions(group, positions, out)
    out.reply(event.ref, RegisterPartitionsReply(items=tuple(items)))


def _refusal(
    group: BalancedGroup,
    member: BalancedGroupMember,
    item: RegisterItem,
    key: Key | None,
    place: PartitionOffsets | None,
) -> RegisteredPartition | None:
    if key is None and item.key not in group.meta:
        text = f"{item.key[:80]!r} is no partition key here, or stands here twice"
        return RegisteredPartition(item.key, _BAD, text)
    if key is None or (item.position_policy and item.position_policy not in CONSUME_POSITIONS):
        return RegisteredPartition(item.key, _BAD, f"one of {', '.join(CONSUME_POSITIONS)}, and each key once")
    state = group.meta.get(item.key)
    if state is None:
        return RegisteredPartition(item.key, ErrorCode.NOT_FOUND, "no partition of a topic the group reads")
    if place is not None and place.is_forbidden:
        return RegisteredPartition(item.key, ErrorCode.GROUP_FORBIDDEN, state.reason or "")
    if not state.subscribable or place is None:
        return RegisteredPartition(item.key, ErrorCode.UNSUBSCRIBABLE, state.reason or "it cannot be read now")
    if group.is_server_balanced and item.key not in member.offered:
        return RegisteredPartition(item.key, ErrorCode.FORBIDDEN, "the coordinator has not assigned it to this member")
    entry = group.owners.get(key)
    if entry is None or entry.owner is None or entry.owner.member_id == member.consumer_id:
        return None
    owner = group.owner(key)  # a former member may still own it, until its lease ends
    where = "" if owner is None else f" at {owner.client_host.lstrip('/')}"
    owner_id = entry.owner.member_id
    return RegisteredPartition(item.key, ErrorCode.PARTITION_OCCUPIED, f"{owner_id}{where} owns it", owner_id)


def _grant(
    group: BalancedGroup,
    member: BalancedGroupMember,
    item: RegisterItem,
    key: Key,
    place: PartitionOffsets,
    positions: Positions,
    out: Outcome,
) -> RegisteredPartition:
    position = place.clamp(item.offset)
    if item.offset < 0:
        policy, owned = item.position_policy or member.consume_position, owns(group, member.consumer_id, key)
        position = initial_position(policy, place, is_first=item.is_first)
        if owned is not None:
            position = place.clamp(group.reading(owned, place.committed).position)
    record = grant(group, member.consumer_id, member.session_timeout_ms, key, position, out)
    if item.offset >= 0:
        out.records.append(commit(group, record, position, out))
    positions.append((*key, record.epoch, position))
    return RegisteredPartition(
        item.key,
        owner=member.consumer_id,
        reg_epoch=record.epoch,
        position=position,
        begin=place.begin,
        end=place.end,
    )


# --- unregister ---


def unregister(group: BalancedGroup, event: Unregister, out: Outcome) -> None:
    """End the grant: the partition is free for any member."""
    request = event.request
    _extend_lease_of(group, request.consumer_id, out)
    once = _UniqueKeys(group)
    out.is_splittable = True
    items = [_unregister(group, request.consumer_id, item, once(item.key), event, out) for item in request.items]
    offer_soon(group, out)
    out.reply(event.ref, UnregisterPartitionsReply(items=tuple(items)))


def _unregister(
    group: BalancedGroup, consumer_id: str, item: ReleasedKey, key: Key | None, event: Unregister, out: Outcome
) -> UnregisteredPartition:
    if key is None:
        return UnregisteredPartition(item.key, _BAD)
    entry = group.grant(key, consumer_id, item.reg_epoch)
    if entry is None:
        return UnregisteredPartition(item.key, ownership_error(group, key, consumer_id))
    committed = end(group, entry, item, event.places, out)
    return UnregisteredPartition(item.key, committed_offset=committed)


# --- fetch ---


def plan_fetch(group: BalancedGroup, event: Fetching, out: Outcome) -> None:
    """Plan the reads of a fetch. A batch in flight counts as consumed now (local confirmation), or is sent again."""
    request = event.request
    _extend_lease_of(group, request.consumer_id, out)
    positions: Positions = []
    once = _UniqueKeys(group)
    items = []
    for item in request.items:
        place = event.places.get(item.key)
        plan = next_read(group, request.consumer_id, item, place)
        if once(item.key) is None:
            plan = PlannedItem(item.key, _BAD)
        elif not plan.error_code:
            plan = _settle_last(group, item, plan, event, positions, out)
        items.append(plan)
    set_positions(group, positions, out)
    out.reply(event.ref, FetchPlanned(tuple(items)))


def next_read(group: BalancedGroup, consumer_id: str, item: FetchItem, place: PartitionOffsets | None) -> PlannedItem:
    """Return the next offset if the member owns the partition now. Offsets deleted meanwhile are skipped."""
    key = group.place_of(item.key)
    entry = None if key is None else group.grant(key, consumer_id, item.reg_epoch)
    if key is None:
        return PlannedItem(item.key, _BAD)
    if entry is None:
        return PlannedItem(item.key, ownership_error(group, key, consumer_id))
    if place is None:
        return PlannedItem(item.key, ErrorCode.UNAVAILABLE)
    if place.is_forbidden:
        return PlannedItem(item.key, ErrorCode.FORBIDDEN)
    return PlannedItem(item.key, ErrorCode.NONE, place.clamp(group.reading(entry, place.committed).position))


def _settle_last(
    group: BalancedGroup, item: FetchItem, plan: PlannedItem, event: Fetching, positions: Positions, out: Outcome
) -> PlannedItem:
    """Commit the batch in flight if it was consumed; else it is sent again."""
    key, place = group.place_of(item.key), event.places[item.key]
    entry = None if key is None else group.owners.get(key)
    assert entry is not None
    position = plan.position
    consumed = consumed_to(group, entry, place, None if item.consumed_to < 0 else item.consumed_to)
    if item.last_consumed and consumed is not None:
        position = place.clamp(consumed)
        out.records.append(commit(group, entry, consumed, out))
    positions.append((entry.topic, entry.partition, entry.epoch, position))
    return PlannedItem(item.key, ErrorCode.NONE, position)


# --- confirm ---


def confirm(group: BalancedGroup, event: ConfirmOffsets, out: Outcome) -> None:
    """Store the confirmed offsets; unconfirmed records are sent again. Only the owner moves a stored offset."""
    request = event.request
    _extend_lease_of(group, request.consumer_id, out)
    positions: Positions = []
    once = _UniqueKeys(group)
    items = []
    for item in request.items:
        key, place = once(item.key), event.places.get(item.key)
        entry = None if key is None else group.grant(key, request.consumer_id, item.reg_epoch)
        if key is None:
            items.append(ConfirmedPartition(item.key, _BAD))
        elif entry is None:
            items.append(ConfirmedPartition(item.key, ErrorCode.NOT_OWNER_COMMIT))
        elif place is None:
            items.append(ConfirmedPartition(item.key, ErrorCode.UNAVAILABLE))
        else:
            items.append(_confirm(group, item, entry, place, positions, out))
    set_positions(group, positions, out)
    out.reply(event.ref, ConfirmConsumedReply(items=tuple(items)))


def _confirm(
    group: BalancedGroup,
    item: ConfirmItem,
    entry: Ownership,
    place: PartitionOffsets,
    positions: Positions,
    out: Outcome,
) -> ConfirmedPartition:
    reading = group.reading(entry, place.committed)
    at = (entry.topic, entry.partition, entry.epoch)
    if not item.consumed:
        positions.append((*at, reading.position))
        return ConfirmedPartition(item.key, committed_offset=place.committed, end=place.end)
    metadata = item.metadata or ""
    if len(metadata.encode()) > _MOST_METADATA:
        return ConfirmedPartition(item.key, ErrorCode.OFFSET_METADATA_TOO_LARGE, place.committed, place.end)
    offset = reading.in_flight if item.offset is None else item.offset
    if offset is None or not reading.position <= offset <= place.end:
        # No batch in flight is known here, or the offset is outside of it.
        return ConfirmedPartition(item.key, _BAD, place.committed, place.end)
    out.records.append(commit(group, entry, offset, out, metadata))
    positions.append((*at, offset))
    return ConfirmedPartition(item.key, committed_offset=offset, end=place.end)
