"""Static membership: an instance that was restarted takes its old place under a new member id
(docs/spec/group-protocol.md#2.1.8)."""

import msgspec

from coordinator.groups.classic.election import elect_protocol_if
from coordinator.groups.classic.events import OwnershipEnded, ReplacementStored, ReplaceStatic
from coordinator.groups.classic.notes import Cause, note
from coordinator.groups.classic.rebalance import (
    begin_rebalance,
    dismiss,
    join_reply,
    member_record,
    park,
    rebalance_timeout_ms,
    restart_session,
    roster,
    stable_record,
    watch_session,
)
from coordinator.groups.classic.state import Group, Member
from coordinator.groups.outcome import Outcome
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroup, MemberRemoved


def replace_static(group: Group, event: ReplaceStatic, out: Outcome) -> None:
    """In PreparingRebalance: the restarted instance takes the old one's place under a new id
    (docs/spec/group-protocol.md#2.1.8)."""
    park(group, _replace(group, event, out), event, out)


def replace_static_unsynced(group: Group, event: ReplaceStatic, out: Outcome) -> None:
    """In CompletingRebalance: the leader may have assigned to the old id already, so start over."""
    _replace_and_rebalance(group, event, out)


def replace_static_stable(group: Group, event: ReplaceStatic, out: Outcome) -> None:
    """In Stable: if the choice of protocol stands, the new id takes over the old one's assignment without a
    rebalance, once that is on record; else a rebalance. A refused append leaves the old id as it was: nothing has
    been touched yet."""
    old = _instance(group, event)
    if elect_protocol_if(group, old, event.request.protocols) != group.protocol_name:
        _replace_and_rebalance(group, event, out)
        return
    member_id = out.ids.member_id(event.request.group_instance_id or "")
    record = stable_record(group, {m.member_id: m.assignment for m in group.members.values()}, group.state_since_ms)
    request = event.request
    line = msgspec.structs.replace(
        member_record(old, _metadata(request, group.protocol_name), old.assignment),
        member_id=member_id,
        client_id=event.client.client_id,
        client_host=event.client.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms(request),
    )
    out.records.append(
        msgspec.structs.replace(
            record,
            leader=member_id if group.leader == old.member_id else group.leader,
            members=tuple(line if m.member_id == old.member_id else m for m in record.members),
        )
    )
    if old.connection >= 0:
        removed = MemberRemoved(group.group_id, old.member_id, Cause.STATIC_REPLACED.value)
        out.pushes.append((old.connection, removed))
    out.followers.append(
        ReplacementStored(
            ref=event.ref,
            request=request,
            member_id=member_id,
            old_member_id=old.member_id,
            old_leader=group.leader,
            old_session_timeout_ms=old.session_timeout_ms,
            connection=event.ref.connection,
            owes_sync=old.member_id in group.pending_sync,
        )
    )


def _metadata(request: JoinGroup, protocol: str | None) -> bytes:
    return next((offer.metadata for offer in request.protocols if offer.name == protocol), b"")


def replacement_stored(group: Group, event: ReplacementStored, out: Outcome) -> None:
    """The new id is on record: give it what the record does not hold, and answer (table of
    docs/spec/group-protocol.md#2.1.8)."""
    member = group.members[event.member_id]
    group.offer(member, event.request.protocols)
    member.connection = event.connection
    member.deadline_ms = out.moment.monotonic_ms + event.old_session_timeout_ms
    watch_session(group, member, out)
    if event.owes_sync:
        group.pending_sync[event.member_id] = None
    out.cancel((group.group_id, event.old_member_id))
    out.followers.append(OwnershipEnded(group.group_id, event.old_member_id))
    detail = f"instance {member.group_instance_id} came back; it keeps its assignment and nobody rebalances"
    note(group, out, "replaced", Cause.STATIC_REPLACED, event.member_id, detail, _subject(member))
    leads = group.leader == event.member_id
    reply = join_reply(group, event.member_id, ())
    if event.request.accepts_skip_assignment:
        reply = msgspec.structs.replace(reply, members=roster(group) if leads else (), skip_assignment=leads)
    else:
        # An old client that saw its own id as leader would assign anew: it is told the leader's former id and follows.
        reply = msgspec.structs.replace(reply, leader=event.old_leader or "")
    out.reply(event.ref, reply)


def _replace_and_rebalance(group: Group, event: ReplaceStatic, out: Outcome) -> None:
    member = _replace(group, event, out)
    park(group, member, event, out)
    detail = f"instance {member.group_instance_id} came back: {event.client}"
    begin_rebalance(group, out, Cause.STATIC_REPLACED, member.member_id, detail, _subject(member))


def _subject(member: Member) -> str:
    """Two processes with one instance id replace each other without end."""
    return f"instance {member.group_instance_id}"


def _instance(group: Group, event: ReplaceStatic) -> Member:
    assert event.group_instance_id is not None
    return group.members[group.static_members[event.group_instance_id]]


def _replace(group: Group, event: ReplaceStatic, out: Outcome) -> Member:
    """Move the instance to a new member id; whatever the old one had parked is fenced."""
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
        # Its session begins now, so the 300 s of a new member are not for it: parked, it is as safe as the others.
        is_new=False,
    )
    group.add(member)
    if led:
        group.leader = member.member_id
    if owed_sync:
        group.pending_sync[member.member_id] = None
    restart_session(group, member, out)
    return member
