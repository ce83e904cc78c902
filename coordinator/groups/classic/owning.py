"""Claims of partitions by members of a classic group (docs/spec/consumer-client.md#E): the registry's actions in the
table, and grants that end without a request.

A grant ends with a release, with a JoinGroup or the departure of its member, and with the member's lease. A member that
was evicted for another reason than a session timeout may still hand out records until its next heartbeat.
"""

from coordinator.groups.classic.delayed import DelayedLease
from coordinator.groups.classic.events import Claim, OwnershipEnded, Release
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.outcome import Outcome
from coordinator.groups.ownership import Key, Owners
from coordinator.keys import LeaseKey
from coordinator.records.records import Owner
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.ownership import (
    ClaimedPartition,
    ClaimItem,
    ClaimPartitionsReply,
    ReleasedPartition,
    ReleasePartitionsReply,
)
from protocol.streams_protocol import PROTOCOL_TYPE, Threads, decode_streams_assignment

_RETRY_MS = 1_000
"""Delay before the end of a grant is retried, if the log had no room for its record."""

NO_OWNERS = Owners()
"""Registry of all groups without one; always empty."""


def claims_by_thread(group: ClassicGroup, event: Claim) -> ErrorCode:
    """Check that the assignments name threads: other members may not claim."""
    return ErrorCode.NONE if group.protocol_type == PROTOCOL_TYPE else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def claim(group: ClassicGroup, event: Claim, out: Outcome) -> None:
    """In Stable: grant all partitions or none. Partitions that the member already owns keep their grant: the reply may
    have been lost."""
    owners, member = group.owners or NO_OWNERS, group.members[event.member_id]
    assigned = _assigned(member)
    items = {(item.topic, item.partition): item for item in event.request.items}
    refused = {key: error for key, item in items.items() if (error := _refusal(owners, assigned, member, key, item))}
    if refused:
        out.reply(event.ref, ClaimPartitionsReply(items=tuple(_refused(owners, key, refused) for key in items)))
        return
    granted = []
    for (key, item), committed in zip(items.items(), event.committed, strict=True):
        held = owners.get(key)
        if held is None or held.owner is None or held.owner.thread != item.thread:
            owner = Owner(
                member.member_id,
                item.thread,
                group.generation_id,
                out.moment.wall_ms,
                member.session_timeout_ms,
            )
            held = owners.granted(group.group_id, key, owner)
            out.records.append(held)
        granted.append(ClaimedPartition(*key, epoch=held.epoch, committed_offset=committed))
    out.reply(event.ref, ClaimPartitionsReply(items=tuple(granted)))


def _assigned(member: Member) -> Threads:
    try:
        return decode_streams_assignment(member.assignment)
    except ProtocolViolation:
        return {}  # an assignment that does not parse assigns nothing


def _refusal(owners: Owners, assigned: Threads, member: Member, key: Key, item: ClaimItem) -> ErrorCode:
    if item.partition < 0 or assigned.get(item.topic, {}).get(item.partition) != item.thread:
        return ErrorCode.NOT_ASSIGNED
    held = owners.get(key)
    is_free = held is None or held.owner is None or held.owner.member_id == member.member_id
    return ErrorCode.NONE if is_free else ErrorCode.OWNED


def _refused(owners: Owners, key: Key, refused: dict[Key, ErrorCode]) -> ClaimedPartition:
    error = refused.get(key, ErrorCode.NONE)
    held = owners.get(key) if error is ErrorCode.OWNED else None
    return ClaimedPartition(*key, error, None if held is None or held.owner is None else held.owner.member_id)


def release(group: ClassicGroup, event: Release, out: Outcome) -> None:
    """Release each item whose grant still matches. A client that has left the group meanwhile may still release its
    partitions."""
    owners, request = group.owners or NO_OWNERS, event.request
    out.is_splittable = True
    if request.all:
        held = owners.of(request.member_id)
        out.records.extend(map(owners.ended, held))
        out.reply(
            event.ref, ReleasePartitionsReply(items=tuple(ReleasedPartition(one.topic, one.partition) for one in held))
        )
        return
    released: dict[Key, ReleasedPartition] = {}
    for item in request.items:
        key = item.topic, item.partition
        held_now = owners.get(key)
        if key in released and not released[key].error_code:
            continue
        if held_now is None or not owners.is_held_by(key, request.member_id, item.epoch):
            released[key] = ReleasedPartition(*key, ErrorCode.NOT_OWNER)
            continue
        out.records.append(owners.ended(held_now))
        released[key] = ReleasedPartition(*key)
    out.reply(event.ref, ReleasePartitionsReply(items=tuple(released.values())))


# --- grants that end without a request ---


def end_ownership(group: ClassicGroup, event: OwnershipEnded, out: Outcome) -> None:
    """End every grant of the member."""
    owners = group.owners or NO_OWNERS
    out.cancel(LeaseKey(group.group_id, event.member_id))
    out.is_splittable = True
    out.records.extend(map(owners.ended, owners.of(event.member_id)))


def retry_end_of_ownership(group: ClassicGroup, event: OwnershipEnded, out: Outcome) -> None:
    """Watch the lease again: the log had no room for the end of the grants, and so has none for other grants either."""
    out.watch(DelayedLease(group, event.member_id, out.moment.monotonic_ms + _RETRY_MS))


def departed(group: ClassicGroup, member: Member, out: Outcome, *, knows: bool) -> None:
    """End the grants of a member that was removed from the group. Unless the member `knows` of its removal (it left,
    its session timed out, or it was replaced) it keeps them until its lease is over."""
    if group.owners is None or not group.owners.of(member.member_id):
        return
    if knows or member.deadline_ms <= out.moment.monotonic_ms:
        out.follow_ups.append(OwnershipEnded(group.group_id, member.member_id))
    else:
        out.watch(DelayedLease(group, member.member_id, member.deadline_ms))


def resume_leases(group: ClassicGroup, out: Outcome) -> None:
    """Start a full lease after a load for every owner that is no longer a member. Members of a client-balanced group
    have their lease there."""
    for member_id in group.owners.members if group.owners is not None else ():
        owners = [held.owner for held in (group.owners or NO_OWNERS).of(member_id) if held.owner is not None]
        if member_id not in group.members and owners[0].generation_id >= 0:
            lease_ms = max([owner.lease_ms for owner in owners])
            out.watch(DelayedLease(group, member_id, out.moment.monotonic_ms + lease_ms))


def drop_leases(group: ClassicGroup, out: Outcome) -> None:
    """Cancel the leases: the node stops serving the group."""
    for member_id in group.owners.members if group.owners is not None else ():
        if member_id not in group.members:
            out.cancel(LeaseKey(group.group_id, member_id))
