"""Static membership: a restarted instance takes its old place under a new member id
(docs/spec/group-protocol.md#2.1.8)."""

import msgspec

from coordinator.groups.classic.election import elect_protocol_if
from coordinator.groups.classic.events import OwnershipEnded, ReplacementStored, ReplaceStatic
from coordinator.groups.classic.notes import Cause, note
from coordinator.groups.classic.rebalance import (
    begin_rebalance,
    dismiss,
    join_reply,
    park,
    rebalance_timeout_ms,
    restart_session,
    roster,
    watch_session,
)
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.notes import taken_over
from coordinator.groups.outcome import Outcome
from coordinator.keys import MemberKey
from coordinator.records.records import MemberReplaced
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroup, MemberRemoved, PreviousHolder


def replace_static(group: ClassicGroup, event: ReplaceStatic, out: Outcome) -> None:
    """In PreparingRebalance: put the restarted instance in its old place under a new id
    (docs/spec/group-protocol.md#2.1.8)."""
    previous = _holder(_instance(group, event), out)
    member = _replace(group, event, out)
    park(group, member, event, out)
    if event.is_fencing:
        detail = f"instance {member.group_instance_id} came back, to a rebalance that is under way"
        detail, facts = taken_over(event.group_instance_id, previous, detail, is_fencing=True)
        note(group, out, "member", Cause.STATIC_REPLACED, member.member_id, detail, **facts)


def replace_static_unsynced(group: ClassicGroup, event: ReplaceStatic, out: Outcome) -> None:
    """In CompletingRebalance: start over, since the leader may have assigned to the old id already."""
    _replace_and_rebalance(group, event, out)


def replace_static_stable(group: ClassicGroup, event: ReplaceStatic, out: Outcome) -> None:
    """In Stable: if the elected protocol stays the same, the new id takes over the assignment of the old one without a
    rebalance, once the replacement is in the log; else rebalance. A failed append changes nothing: the old id stays."""
    old = _instance(group, event)
    if elect_protocol_if(group, old, event.request.protocols) != group.protocol_name:
        _replace_and_rebalance(group, event, out)
        return
    member_id = out.ids.member_id(event.request.group_instance_id or "")
    request = event.request
    out.records.append(
        MemberReplaced(
            group_id=group.group_id,
            instance_id=event.group_instance_id or "",
            generation_id=group.generation_id,
            member_id=member_id,
            client_id=event.client.client_id,
            client_host=event.client.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms(request),
            session_timeout_ms=request.session_timeout_ms,
            subscription=_metadata(request, group.protocol_name),
        )
    )
    if old.connection >= 0:
        removed = MemberRemoved(group.group_id, old.member_id, Cause.STATIC_REPLACED.value)
        out.pushes.append((old.connection, removed))
    out.follow_ups.append(
        ReplacementStored(
            ref=event.ref,
            request=request,
            member_id=member_id,
            old_member_id=old.member_id,
            old_leader=group.leader,
            old_session_timeout_ms=old.session_timeout_ms,
            connection=event.ref.connection,
            owes_sync=old.member_id in group.pending_sync,
            client=event.client,
            previous=_holder(old, out),
            is_fencing=event.is_fencing,
        )
    )


def _metadata(request: JoinGroup, protocol: str | None) -> bytes:
    return next((offer.metadata for offer in request.protocols if offer.name == protocol), b"")


def replacement_stored(group: ClassicGroup, event: ReplacementStored, out: Outcome) -> None:
    """Complete the member after its new id was stored: add the fields that the record does not hold, and answer (table
    of 2.1.8)."""
    member = group.members[event.member_id]
    group.offer(member, event.request.protocols)
    member.connection, member.client = event.connection, event.client
    member.heard_ms = out.moment.monotonic_ms
    member.deadline_ms = out.moment.monotonic_ms + event.old_session_timeout_ms
    watch_session(group, member, out)
    if event.owes_sync:
        group.pending_sync[event.member_id] = None
    out.cancel(MemberKey(group.group_id, event.old_member_id))
    out.follow_ups.append(OwnershipEnded(group.group_id, event.old_member_id))
    detail = f"instance {member.group_instance_id} came back; it keeps its assignment and nobody rebalances"
    detail, facts = taken_over(member.group_instance_id, event.previous, detail, is_fencing=event.is_fencing)
    note(group, out, "replaced", Cause.STATIC_REPLACED, event.member_id, detail, **facts)
    leads = group.leader == event.member_id
    reply = join_reply(group, event.member_id, ())
    if event.request.accepts_skip_assignment:
        reply = msgspec.structs.replace(reply, members=roster(group) if leads else (), skip_assignment=leads)
    else:
        # An old client that finds its own id as the leader's would compute a new assignment. So the reply names the
        # leader's former id, and the client acts as a follower.
        reply = msgspec.structs.replace(reply, leader=event.old_leader or "")
    out.reply(event.ref, reply)


def _replace_and_rebalance(group: ClassicGroup, event: ReplaceStatic, out: Outcome) -> None:
    previous = _holder(_instance(group, event), out)
    member = _replace(group, event, out)
    park(group, member, event, out)
    detail = f"instance {member.group_instance_id} came back: {event.client}"
    detail, facts = taken_over(event.group_instance_id, previous, detail, is_fencing=event.is_fencing)
    begin_rebalance(group, out, Cause.STATIC_REPLACED, member.member_id, detail, **facts)


def _holder(member: Member, out: Outcome) -> PreviousHolder:
    """Return the member as the previous holder of its instance id."""
    heard_ago_ms = member.heard_ago_ms(out.moment.monotonic_ms)
    return PreviousHolder(member.member_id, member.client_id, member.client_host, heard_ago_ms)


def _instance(group: ClassicGroup, event: ReplaceStatic) -> Member:
    assert event.group_instance_id is not None
    return group.members[group.static_members[event.group_instance_id]]


def _replace(group: ClassicGroup, event: ReplaceStatic, out: Outcome) -> Member:
    """Move the instance to a new member id; the parked requests of the old id are answered with FENCED_INSTANCE_ID."""
    old = _instance(group, event)
    led, owed_sync = group.leader == old.member_id, old.member_id in group.pending_sync
    dismiss(group, old, out, ErrorCode.FENCED_INSTANCE_ID, Cause.STATIC_REPLACED, join_member_id=old.member_id)
    member = Member(
        member_id=out.ids.member_id(old.group_instance_id or ""),
        group_instance_id=old.group_instance_id,
        client_id=event.client.client_id,
        client_host=event.client.client_host,
        session_timeout_ms=old.session_timeout_ms,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        protocols=old.protocols,
        assignment=old.assignment,
        # Its session begins now, without the 300 s of a new member: a parked member needs none.
        is_new=False,
    )
    group.add(member)
    if led:
        group.leader = member.member_id
    if owed_sync:
        group.pending_sync[member.member_id] = None
    restart_session(group, member, out)
    return member
