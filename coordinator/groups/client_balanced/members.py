"""The verbs of coming and going (docs/spec/client-balanced-groups.md#6, #11). Who goes owns nothing in the same
outcome."""

from collections.abc import Iterable

from msgspec.structs import replace

from coordinator.groups.client_balanced.delayed import DelayedLease, lease_key
from coordinator.groups.client_balanced.events import Admitted, LeaseOverdue, Leave, Mark, Marked, MetaMade, Start
from coordinator.groups.client_balanced.grants import (
    Positions,
    end,
    end_all,
    grant,
    heard,
    initial_position,
    owns,
    settle_at,
)
from coordinator.groups.client_balanced.guards import filters_of, node_id_of, replaced_by, source_count_of, topics_of
from coordinator.groups.client_balanced.meta import with_meta
from coordinator.groups.client_balanced.notes import Cause, note, partitions
from coordinator.groups.client_balanced.state import BalancedGroup, Member
from coordinator.groups.outcome import Outcome
from coordinator.records.records import BalancedMember, BalancedMetadata
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    GrantedKey,
    HeldKey,
    LeaveMemberReply,
    LostKey,
    PartitionsLost,
    StartMemberReply,
)
from protocol.messages.groups import MemberRemoved

HEARTBEAT_MS = 10_000
_MOST_REPLACED = 256
_REMARK_CHARACTERS = 200
"""Objects of which it is remembered that their instance is another's."""


# --- coming ---


def admit(group: BalancedGroup, event: Start, out: Outcome) -> None:
    """A member from now on, or still. It owns what of `held` is free and was last its own, or is its own; and nothing
    else, if it is certain that this is what it knows."""
    request, stored = event.request, group.on_record
    known = group.members.get(request.consumer_id)
    replaced = replaced_by(group, request)
    epoch = stored.epoch + 1
    line = BalancedMember(
        consumer_id=request.consumer_id,
        instance_id=request.instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        node_id=node_id_of(request),
        consume_position=request.consume_position,
        session_timeout_ms=request.session_timeout_ms,
        epoch=epoch,
        mark=stored.from_max_id if known is None else known.mark,
        attempt=max(request.attempt, 0 if known is None else known.attempt),
    )
    lines = {one.consumer_id: one for one in stored.members}
    if replaced is not None:
        del lines[replaced.consumer_id]
    lines[request.consumer_id] = line
    record = replace(
        stored,
        state_timestamp_ms=stored.state_timestamp_ms if group.members else out.moment.wall_ms,
        epoch=epoch,
        topics=topics_of(request),
        filters=filters_of(request),
        source_count=source_count_of(request),
        members=tuple(lines.values()),
        replaced=_with_replaced(stored, replaced),
    )
    if event.meta is not None:
        record = with_meta(record, event.meta)
        out.followers.append(MetaMade(group.group_id, event.meta, event.as_of, event.shape))
    if replaced is not None:
        _drop(group, replaced, out, Cause.REPLACED)
    granted, lost = _hold_again(group, event, out)
    out.records.append(record)
    out.followers.append(Admitted(group.group_id, request.consumer_id, event.ref.connection))
    _tell_of_start(group, event, replaced, len(lines), out)
    reply = StartMemberReply(
        member_epoch=epoch,
        session_timeout_ms=request.session_timeout_ms,
        heartbeat_ms=min(HEARTBEAT_MS, request.session_timeout_ms // 3),
        granted=tuple(granted),
        lost=tuple(lost),
        meta_version=record.meta_version,
    )
    out.reply(event.ref, reply)


def _with_replaced(stored: BalancedMetadata, replaced: Member | None) -> tuple[str, ...]:
    return stored.replaced if replaced is None else (*stored.replaced, replaced.consumer_id)[-_MOST_REPLACED:]


def _tell_of_start(group: BalancedGroup, event: Start, replaced: Member | None, members: int, out: Outcome) -> None:
    number = node_id_of(event.request)
    who = f"{event.client_id or '(unnamed)'} at {event.client_host.lstrip('/')}"
    detail = who if number is None else f"{who}, node {number} of {event.request.source_count}"
    if replaced is not None:
        told, subject = (
            f"{replaced.consumer_id} is to stop; {detail}",
            f"instance {replaced.instance_id}, node {number}",
        )
        note(group, out, Cause.REPLACED, event.consumer_id, told, members, subject=subject)
    else:
        cause = Cause.JOINED_AGAIN if event.consumer_id in group.members else Cause.JOINED
        note(group, out, cause, event.consumer_id, detail, members)


def _hold_again(group: BalancedGroup, event: Start, out: Outcome) -> tuple[list[GrantedKey], list[LostKey]]:
    """What is held is granted anew if it is free and its last grant was this one
    (docs/spec/client-balanced-groups.md#11). What it owns and did not name is over; it stays if the request may be one
    that comes late."""
    granted: list[GrantedKey] = []
    lost: list[LostKey] = []
    positions: Positions = []
    states = group.meta if event.meta is None else {state.key: state for state in event.meta}
    kept: dict[tuple[str, int], None] = {}
    for held in {one.key: one for one in event.request.held}.values():
        place, key, state = event.places.get(held.key), group.place_of(held.key), states.get(held.key)
        error = ErrorCode.DUPLICATE_PARTITION
        if place is None or key is None or state is None:
            error = ErrorCode.NOT_FOUND
        elif not state.subscribable:
            error = ErrorCode.UNSUBSCRIBABLE
        elif _may_hold(group, event.consumer_id, key, held):
            kept[key] = None
            entry = owns(group, event.consumer_id, key)
            if entry is not None:  # still its own: the grant stands, and so does where it is
                position = place.clamp(group.reading(entry, place.committed).position)
            else:
                position = _held_position(event, held)
                entry = grant(group, event.consumer_id, event.request.session_timeout_ms, key, position, out)
            positions.append((*key, entry.epoch, position))
            granted.append(GrantedKey(held.key, entry.epoch, position, place.begin, place.end))
            continue
        lost.append(LostKey(held.key, error))
    for entry in group.owners.of(event.consumer_id):
        place = event.places.get(group.key_of(entry))
        if (entry.topic, entry.partition) in kept:
            continue
        if event.request.attempt > 0 or place is None:
            out.records.append(group.owners.ended(entry))
        else:
            position = place.clamp(group.reading(entry, place.committed).position)
            granted.append(GrantedKey(group.key_of(entry), entry.epoch, position, place.begin, place.end))
    settle_at(group, positions, out)
    return granted, lost


def _may_hold(group: BalancedGroup, consumer_id: str, key: tuple[str, int], held: HeldKey) -> bool:
    entry = group.owners.get(key)
    is_free = entry is None or (entry.owner is not None and entry.owner.member_id == consumer_id)
    return is_free and group.owners.epoch(key) == held.reg_epoch


def _held_position(event: Start, held: HeldKey) -> int:
    """Where it was, unless more is committed by now."""
    place = event.places[held.key]
    if held.position >= 0:
        return place.clamp(max(held.position, place.committed))
    return initial_position(event.request.consume_position, place, is_first=False)


def admitted(group: BalancedGroup, event: Admitted, out: Outcome) -> None:
    """A full lease from now on; what it reported as another object, or before it started again, does not count."""
    member = group.members[event.consumer_id]
    member.connection = event.connection
    member.reported, member.owned_version = None, -1
    member.lost.clear()
    watch_lease(group, member, out)


def watch_lease(group: BalancedGroup, member: Member, out: Outcome) -> None:
    """The lease begins anew; one that is shorter than before ends when it says."""
    member.deadline_ms = 0
    heard(member, out.moment.monotonic_ms)
    member.lease = DelayedLease(group, member)
    out.watch(member.lease)


# --- going ---


def leave(group: BalancedGroup, event: Leave, out: Outcome) -> None:
    """The member goes by its own will, and says what it has done with."""
    member = group.members[event.consumer_id]
    named: dict[str, None] = {}
    for released in {one.key: one for one in event.request.released}.values():
        key = group.place_of(released.key)
        entry = None if key is None else group.grant(key, member.consumer_id, released.reg_epoch)
        if entry is not None:
            named[released.key] = None
            end(group, entry, released, event.places, out)
    rest = [entry for entry in group.owners.of(member.consumer_id) if group.key_of(entry) not in named]
    out.records.extend(map(group.owners.ended, rest))
    _go(group, (member,), out)
    detail = f"it had {partitions(len(named) + len(rest))}"
    note(group, out, Cause.LEFT, member.consumer_id, detail, len(group.members) - 1)
    out.reply(event.ref, LeaveMemberReply())


def expire(group: BalancedGroup, event: LeaseOverdue, out: Outcome) -> None:
    """Nobody heard of it for as long as it said; unless somebody did just now."""
    member = group.members.get(event.consumer_id)
    if member is None:
        return
    if member.deadline_ms > out.moment.monotonic_ms:
        member.lease = DelayedLease(group, member)
        out.watch(member.lease)
        return
    overdue = [one for one in group.members.values() if one.deadline_ms <= out.moment.monotonic_ms]
    for number, one in enumerate(overdue, 1):  # at one time: the record names all that stay
        _drop(group, one, out, Cause.LEASE_OVER, len(group.members) - number)
    _go(group, overdue, out)


def _drop(group: BalancedGroup, member: Member, out: Outcome, cause: Cause, left: int = 0) -> None:
    """Its partitions are free; it is told, if it can be, and if it was not heard of for too long so are people."""
    keys = end_all(group, member.consumer_id, out)
    out.cancel(lease_key(group.group_id, member.consumer_id))
    if member.connection >= 0:
        if keys:
            lost = PartitionsLost(group.group_id, member.consumer_id, keys, cause.value)
            out.pushes.append((member.connection, lost))
        out.pushes.append((member.connection, MemberRemoved(group.group_id, member.consumer_id, cause.value)))
    if cause is Cause.LEASE_OVER:
        detail = f"silent for {member.session_timeout_ms} ms; it had {partitions(len(keys))}"
        note(group, out, cause, member.consumer_id, detail, left)


def _go(group: BalancedGroup, going: Iterable[Member], out: Outcome) -> None:
    """On record. With the last member goes what they agreed on; counters stay, so that none ever goes back."""
    out.comes_apart = True  # what is owned ends before its owner goes
    stored = group.on_record
    names = {member.consumer_id: None for member in going}
    left = tuple([line for line in stored.members if line.consumer_id not in names])
    out.records.append(replace(stored, members=left) if left else emptied(stored, out.moment.wall_ms))
    for name in names:
        out.cancel(lease_key(group.group_id, name))


def emptied(stored: BalancedMetadata, wall_ms: int) -> BalancedMetadata:
    """What is remembered of a group without members."""
    return replace(
        stored, state_timestamp_ms=wall_ms, topics=(), filters=(), source_count=None, members=(), replaced=()
    )


# --- operators ---


def mark(group: BalancedGroup, event: Mark, out: Outcome) -> None:
    """Every member that is here now will be told, once, to go to the end of what it owns
    (docs/spec/client-balanced-groups.md#13.3)."""
    number = group.on_record.from_max_id + 1
    out.records.append(replace(group.on_record, from_max_id=number))
    text = f"{partitions(len(list(group.owners)))} are owned"
    if event.remark:
        text += f"; remark: {event.remark[:_REMARK_CHARACTERS]}"
    note(group, out, Cause.FROM_MAX, event.origin, text, len(group.members), kind="admin")
    out.reply(event.ref, Marked(from_max_id=number))
