"""Actions of starting, leaving and expiring members (docs/spec/client-balanced-groups.md#6, #11). All grants of a
member end in the outcome that removes it."""

from collections.abc import Iterable

from msgspec.structs import replace

from coordinator.groups.client_balanced.delayed import DelayedBalancedLease
from coordinator.groups.client_balanced.events import (
    Admitted,
    BalancedLeave,
    LeaseOverdue,
    Mark,
    Marked,
    MetaMade,
    Start,
)
from coordinator.groups.client_balanced.grants import (
    Positions,
    end,
    end_all,
    extend_lease,
    grant,
    initial_position,
    owns,
    set_positions,
)
from coordinator.groups.client_balanced.guards import filters_of, node_id_of, replaced_by, source_count_of, topics_of
from coordinator.groups.client_balanced.meta import with_meta
from coordinator.groups.client_balanced.notes import BalancedCause, note
from coordinator.groups.client_balanced.state import BalancedGroup, BalancedGroupMember
from coordinator.groups.outcome import Outcome
from coordinator.keys import BalancedLeaseKey
from coordinator.records.records import BalancedMember, BalancedMetadata
from protocol.client_text import client_text
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    CLIENT_MODE,
    GrantedKey,
    HeldKey,
    LeaveMemberReply,
    LostKey,
    PartitionsLost,
    StartMemberReply,
)
from protocol.messages.groups import MemberRemoved
from protocol.words import counted

HEARTBEAT_MS = 10_000
_MOST_REPLACED = 256
"""Largest number of replaced objects whose ids a group keeps."""

_REMARK_CHARACTERS = 200
"""Largest length of an operator's remark in a note."""


# --- start ---


def admit(group: BalancedGroup, event: Start, out: Outcome) -> None:
    """Admit or re-admit a member. Grant again each `held` partition that is unowned and was last granted to it. Every
    other grant ends, unless the request may be stale."""
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
        mode=request.mode,
    )
    if event.meta is not None:
        record = with_meta(record, event.meta)
        out.follow_ups.append(MetaMade(group.group_id, event.meta, event.as_of, event.shape))
    if replaced is not None:
        _drop(group, replaced, out, BalancedCause.REPLACED)
    granted, lost = _regrant_held(group, event, out)
    out.records.append(record)
    out.follow_ups.append(Admitted(group.group_id, request.consumer_id, event.ref.connection, event.principal))
    _note_start(group, event, replaced, len(lines), out)
    reply = StartMemberReply(
        member_epoch=epoch,
        session_timeout_ms=request.session_timeout_ms,
        heartbeat_ms=min(HEARTBEAT_MS, request.session_timeout_ms // 3),
        granted=tuple(granted),
        lost=tuple(lost),
        meta_version=record.meta_version,
    )
    out.reply(event.ref, reply)


def _with_replaced(stored: BalancedMetadata, replaced: BalancedGroupMember | None) -> tuple[str, ...]:
    return stored.replaced if replaced is None else (*stored.replaced, replaced.consumer_id)[-_MOST_REPLACED:]


def _note_start(
    group: BalancedGroup, event: Start, replaced: BalancedGroupMember | None, members: int, out: Outcome
) -> None:
    number = node_id_of(event.request)
    who = client_text(event.client_id, event.client_host)
    detail = who if number is None else f"{who}, node {number} of {event.request.source_count}"
    if replaced is not None:
        detail, subject = (
            f"{replaced.consumer_id} is to stop; {detail}",
            f"instance {replaced.instance_id}, node {number}",
        )
        note(group, out, BalancedCause.REPLACED, event.consumer_id, detail, members, subject=subject)
    else:
        cause = BalancedCause.JOINED_AGAIN if event.consumer_id in group.members else BalancedCause.JOINED
        note(group, out, cause, event.consumer_id, detail, members)


def _regrant_held(group: BalancedGroup, event: Start, out: Outcome) -> tuple[list[GrantedKey], list[LostKey]]:
    """Grant held partitions again if they are free and were last granted by the grant that the member names
    (docs/spec/client-balanced-groups.md#11). Grants that the member did not name end, unless the request may be
    late."""
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
            if entry is not None:  # the member still owns it: grant and position stay
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
    set_positions(group, positions, out)
    return granted, lost


def _may_hold(group: BalancedGroup, consumer_id: str, key: tuple[str, int], held: HeldKey) -> bool:
    entry = group.owners.get(key)
    is_free = entry is None or (entry.owner is not None and entry.owner.member_id == consumer_id)
    return is_free and group.owners.epoch(key) == held.reg_epoch


def _held_position(event: Start, held: HeldKey) -> int:
    """Return the member's position, unless a later offset is committed."""
    place = event.places[held.key]
    if held.position >= 0:
        return place.clamp(max(held.position, place.committed))
    return initial_position(event.request.consume_position, place, is_first=False)


def admitted(group: BalancedGroup, event: Admitted, out: Outcome) -> None:
    """Start a full lease for the member; reports of its earlier object, or from before this start, are dropped."""
    member = group.members[event.consumer_id]
    member.connection, member.principal = event.connection, event.principal
    member.reported, member.owned_version = None, -1
    member.lost.clear()
    watch_lease(group, member, out)


def watch_lease(group: BalancedGroup, member: BalancedGroupMember, out: Outcome) -> None:
    """Reschedule the lease, since a lease that is shorter than before ends earlier."""
    member.deadline_ms = 0
    extend_lease(member, out.moment.monotonic_ms)
    member.lease = DelayedBalancedLease(group, member)
    out.watch(member.lease)


# --- leave and expiry ---


def leave(group: BalancedGroup, event: BalancedLeave, out: Outcome) -> None:
    """Remove the member at its request, and store what it has consumed."""
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
    _remove_members(group, (member,), out)
    detail = f"it had {counted(len(named) + len(rest), 'partition')}"
    note(group, out, BalancedCause.LEFT, member.consumer_id, detail, len(group.members) - 1)
    out.reply(event.ref, LeaveMemberReply())


def expire(group: BalancedGroup, event: LeaseOverdue, out: Outcome) -> None:
    """Remove a member that sent nothing for its session timeout, unless a request has come just now."""
    member = group.members.get(event.consumer_id)
    if member is None:
        return
    if member.deadline_ms > out.moment.monotonic_ms:
        member.lease = DelayedBalancedLease(group, member)
        out.watch(member.lease)
        return
    overdue = [one for one in group.members.values() if one.deadline_ms <= out.moment.monotonic_ms]
    for number, one in enumerate(overdue, 1):  # all at once, since the record names every member that stays
        _drop(group, one, out, BalancedCause.LEASE_OVER, len(group.members) - number)
    _remove_members(group, overdue, out)


def _drop(group: BalancedGroup, member: BalancedGroupMember, out: Outcome, cause: BalancedCause, left: int = 0) -> None:
    """Free the member's partitions and notify it if it has a connection. Append a note if its session expired."""
    keys = end_all(group, member.consumer_id, out)
    out.cancel(BalancedLeaseKey(group.group_id, member.consumer_id))
    if member.connection >= 0:
        if keys:
            lost = PartitionsLost(group.group_id, member.consumer_id, keys, cause.value)
            out.pushes.append((member.connection, lost))
        out.pushes.append((member.connection, MemberRemoved(group.group_id, member.consumer_id, cause.value)))
    if cause is BalancedCause.LEASE_OVER:
        detail = f"silent for {member.session_timeout_ms} ms; it had {counted(len(keys), 'partition')}"
        note(group, out, cause, member.consumer_id, detail, left)


def _remove_members(group: BalancedGroup, going: Iterable[BalancedGroupMember], out: Outcome) -> None:
    """Record the group without these members. With the last member, topics and filters are removed; counters stay, so
    that they never decrease."""
    out.is_splittable = True  # grants end before their owner is removed
    stored = group.on_record
    names = {member.consumer_id: None for member in going}
    left = tuple([line for line in stored.members if line.consumer_id not in names])
    out.records.append(replace(stored, members=left) if left else without_members(stored, out.moment.wall_ms))
    for name in names:
        out.cancel(BalancedLeaseKey(group.group_id, name))


def without_members(stored: BalancedMetadata, wall_ms: int) -> BalancedMetadata:
    """Build the record of a group without members."""
    return replace(
        stored,
        state_timestamp_ms=wall_ms,
        topics=(),
        filters=(),
        source_count=None,
        members=(),
        replaced=(),
        mode=CLIENT_MODE,
    )


# --- operators ---


def mark(group: BalancedGroup, event: Mark, out: Outcome) -> None:
    """Mark every present member, so that its next reply asks it once to seek to the end of its partitions
    (docs/spec/client-balanced-groups.md#13.3)."""
    number = group.on_record.from_max_id + 1
    out.records.append(replace(group.on_record, from_max_id=number))
    text = f"{counted(len(list(group.owners)), 'partition')} are owned"
    if event.remark:
        text += f"; remark: {event.remark[:_REMARK_CHARACTERS]}"
    note(group, out, BalancedCause.FROM_MAX, event.origin, text, len(group.members), kind="admin")
    out.reply(event.ref, Marked(from_max_id=number))
