"""Actions of the state table for JoinGroup, SyncGroup, LeaveGroup and heartbeats. An action reads the group and fills
an `Outcome`; hard state changes only when the outcome's records are applied."""

from typing import Final

from coordinator.groups.classic.delayed import DelayedPendingId
from coordinator.groups.classic.events import (
    AssignmentStored,
    Client,
    InitialDelayOver,
    JoinAgain,
    JoinFirst,
    Joining,
    JoinPending,
    JoinPhaseOver,
    Leave,
    PendingIdOverdue,
    SessionOverdue,
    Sync,
    SyncOverdue,
)
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.moved import note_moved
from coordinator.groups.classic.notes import Cause, departure, note, origin_of_client
from coordinator.groups.classic.rebalance import (
    begin_rebalance,
    complete_join,
    dismiss,
    extend_or_complete_join,
    join_reply,
    park,
    rebalance_timeout_ms,
    restart_session,
    roster,
    stable_record,
    watch_session,
)
from coordinator.groups.classic.state import NEW_MEMBER_TIMEOUT_MS, ClassicGroup, Member, PendingId
from coordinator.groups.outcome import Outcome
from coordinator.keys import MemberKey
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    LONGEST_REASON,
    Heartbeat,
    JoinGroupReply,
    LeaveGroupReply,
    LeavingMember,
    LeftMember,
    SyncGroupReply,
)

_NONE: Final = ErrorCode.NONE

# --- joining ---


def admit(group: ClassicGroup, event: JoinFirst, out: Outcome) -> None:
    """Admit a new member, or hand out the member id that its next JoinGroup must contain."""
    request = event.request
    if request.group_instance_id is not None:
        _add_member(group, event, out.ids.member_id(request.group_instance_id), out)
    elif request.wants_member_id_first:
        _hand_out_id(group, event, out)
    else:
        _add_member(group, event, out.ids.member_id(event.client.client_id), out)


def admit_pending(group: ClassicGroup, event: JoinPending, out: Outcome) -> None:
    """Admit a member that comes back with the id handed out to it."""
    group.drop_pending(event.member_id)
    _add_member(group, event, event.member_id, out)


def refuse_full(group: ClassicGroup, event: Joining, out: Outcome) -> None:
    """Refuse a JoinGroup because the group is full; drop the member, or its pending id, if it has one
    (docs/spec/group-protocol.md#2.1.7)."""
    group.drop_pending(event.member_id)
    out.cancel(MemberKey(group.group_id, event.member_id))
    member = group.members.get(event.member_id)
    if member is not None:
        dismiss(group, member, out, ErrorCode.GROUP_MAX_SIZE_REACHED, Cause.GROUP_TOO_LARGE)
        note(group, out, "dropped", Cause.GROUP_TOO_LARGE, event.member_id, "the group has no room for it any more")
    out.reply_at_once(event.ref, event.refused(ErrorCode.GROUP_MAX_SIZE_REACHED))


def rejoin(group: ClassicGroup, event: JoinAgain, out: Outcome) -> None:
    """Park the JoinGroup of a member in the rebalance under way."""
    park(group, group.members[event.member_id], event, out)


def rejoin_or_repeat(group: ClassicGroup, event: JoinAgain, out: Outcome) -> None:
    """In CompletingRebalance: repeat the last reply to a member whose protocols are unchanged; else start a new
    rebalance."""
    member = group.members[event.member_id]
    if member.protocols == event.request.protocols:
        _repeat(group, member, event, out)
    else:
        _rejoin_changed(group, member, event, out)


def rejoin_if_changed(group: ClassicGroup, event: JoinAgain, out: Outcome) -> None:
    """In Stable: rebalance if the leader joins again, or if a follower's protocols have changed; else repeat the last
    reply."""
    member = group.members[event.member_id]
    if member.protocols != event.request.protocols:
        _rejoin_changed(group, member, event, out)
    elif group.leader == event.member_id:
        park(group, member, event, out)
        reason = (event.request.reason or "no reason given")[:LONGEST_REASON]
        begin_rebalance(group, out, Cause.MEMBER_REJOINED, event.member_id, f"the leader asked for it: {reason}")
    else:
        _repeat(group, member, event, out)


def _rejoin_changed(group: ClassicGroup, member: Member, event: JoinAgain, out: Outcome) -> None:
    park(group, member, event, out)
    detail = (event.request.reason or "it joined again with other metadata")[:LONGEST_REASON]
    begin_rebalance(group, out, Cause.METADATA_CHANGED, event.member_id, detail)


def _repeat(group: ClassicGroup, member: Member, event: JoinAgain, out: Outcome) -> None:
    leads = group.leader == member.member_id
    member.connection, member.client, member.heard_ms = event.ref.connection, event.client, out.moment.monotonic_ms
    out.reply_at_once(event.ref, join_reply(group, member.member_id, roster(group) if leads else ()))


def _hand_out_id(group: ClassicGroup, event: JoinFirst, out: Outcome) -> None:
    if len(group.pending) >= group.settings.max_pending_ids:
        out.reply_at_once(event.ref, event.refused(ErrorCode.GROUP_MAX_SIZE_REACHED))
        return
    member_id = out.ids.member_id(event.client.client_id)
    pending = PendingId(member_id, out.moment.monotonic_ms + event.request.session_timeout_ms)
    group.add_pending(pending)
    out.watch(DelayedPendingId(group, pending))
    out.reply_at_once(event.ref, JoinGroupReply(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))


def _add_member(group: ClassicGroup, event: Joining, member_id: str, out: Outcome) -> None:
    request = event.request
    member = Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=event.client.client_id,
        client_host=event.client.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms(request),
        protocols=request.protocols,
        deadline_ms=out.moment.monotonic_ms + NEW_MEMBER_TIMEOUT_MS,
        connection=event.ref.connection,
        join_ref=event.ref,
        client=event.client,
        heard_ms=out.moment.monotonic_ms,
        parked_ms=out.moment.monotonic_ms,
    )
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(member)
    group.member_added = True
    watch_session(group, member, out)
    kind = "static member" if request.group_instance_id else "new member"
    begin_rebalance(group, out, Cause.MEMBER_JOINED, member_id, f"{kind} {event.client}")


# --- syncing ---


def collect_sync(group: ClassicGroup, event: Sync, out: Outcome) -> None:
    """Park the SyncGroup. The leader's contains the assignments; all members are answered once those are in the log."""
    member = group.members[event.member_id]
    group.synced(event.member_id)
    older = group.take_sync(member)
    if older is not None:
        out.reply_at_once(older, SyncGroupReply(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    group.park_sync(member, event.ref)
    member.connection = event.ref.connection
    member.heard_ms = member.parked_ms = out.moment.monotonic_ms
    if group.leader == event.member_id:
        assignments = {line.member_id: line.assignment for line in event.request.assignments}
        note_moved(group, assignments, out)
        out.records.append(stable_record(group, assignments, group.state_since_ms))
        out.follow_ups.append(AssignmentStored(group.group_id))


def hand_out_assignments(group: ClassicGroup, event: AssignmentStored, out: Outcome) -> None:
    """Answer every parked SyncGroup: the assignments are stored, and the group is Stable."""
    group.state_since_ms = out.moment.wall_ms
    for member in group.members.values():
        ref = group.take_sync(member)
        if ref is not None:
            out.reply(ref, _assigned(group, member))
            restart_session(group, member, out)


def answer_sync(group: ClassicGroup, event: Sync, out: Outcome) -> None:
    """In Stable: answer with the stored assignment; assignments in the request are ignored."""
    group.synced(event.member_id)
    member = group.members[event.member_id]
    member.connection, member.heard_ms = event.ref.connection, out.moment.monotonic_ms
    out.reply(event.ref, _assigned(group, member))


def _assigned(group: ClassicGroup, member: Member) -> SyncGroupReply:
    return SyncGroupReply(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


# --- sessions ---


def extend_session(group: ClassicGroup, message: Heartbeat, now_ms: int) -> ErrorCode:
    """Move the member's session deadline; it never moves back. This path is read-only: nothing is recorded."""
    member = group.members[message.member_id]
    deadline_ms = now_ms + member.session_timeout_ms
    if deadline_ms > member.deadline_ms:
        member.deadline_ms = deadline_ms
    member.heard_ms = now_ms
    return _NONE


def extend_session_while_preparing(group: ClassicGroup, message: Heartbeat, now_ms: int) -> ErrorCode:
    """Move the session deadline and answer that the member must join again, once the rebalance is not held."""
    extend_session(group, message, now_ms)
    return ErrorCode.NONE if group.is_held_back else ErrorCode.REBALANCE_IN_PROGRESS


def leave(group: ClassicGroup, event: Leave, out: Outcome) -> None:
    """Remove the members named, with one rebalance for the whole list."""
    before = len(group.members)
    leavers = [_leaver(group, entry) for entry in event.request.members]
    left = tuple(_leave_one(group, entry, event.ref.connection, out) for entry in event.request.members)
    out.reply(event.ref, LeaveGroupReply(members=left))
    removed = before - len(group.members)
    if removed:
        first = next(entry for entry, one in zip(event.request.members, left, strict=True) if not one.error_code)
        member = next(one for one, reply in zip(leavers, left, strict=True) if one and not reply.error_code)
        reason = (first.reason or "no reason given")[:LONGEST_REASON]
        remover = _remover(member, event)
        detail = f"{removed} left: {reason}" if remover is None else f"{removed} removed by {remover}: {reason}"
        facts = departure(member, out.moment.monotonic_ms)
        if remover is not None:
            facts["origin"], facts["act"] = origin_of_client(remover), "evict"
        initiator = first.member_id or first.group_instance_id or ""
        if group.state is GroupState.PREPARING and remover is not None:
            note(group, out, "dropped", Cause.MEMBER_LEFT, initiator, detail, **facts)
        begin_rebalance(group, out, Cause.MEMBER_LEFT, initiator, detail, **facts)


def _leaver(group: ClassicGroup, entry: LeavingMember) -> Member | None:
    mapped = group.static_members.get(entry.group_instance_id) if entry.group_instance_id is not None else None
    return group.members.get(entry.member_id or mapped or "")


def _remover(member: Member, event: Leave) -> Client | None:
    """Return the sender of the LeaveGroup if it is another client, or on another host, than the member."""
    sender = event.client
    if sender is None or (sender.client_id == member.client_id and sender.client_host == member.client_host):
        return None
    return sender


def _leave_one(group: ClassicGroup, entry: LeavingMember, connection: int, out: Outcome) -> LeftMember:
    member_id, instance_id = entry.member_id, entry.group_instance_id
    mapped = group.static_members.get(instance_id) if instance_id is not None else None
    error = ErrorCode.NONE
    if not member_id and mapped is not None:
        _remove_leaver(group, mapped, connection, out)
    elif member_id in group.pending:
        group.drop_pending(member_id)
        out.cancel(MemberKey(group.group_id, member_id))
    elif member_id and mapped is not None and mapped != member_id:
        error = ErrorCode.FENCED_INSTANCE_ID
    elif member_id not in group.members or (instance_id is not None and mapped is None):
        error = ErrorCode.UNKNOWN_MEMBER_ID
    else:
        _remove_leaver(group, member_id, connection, out)
    return LeftMember(member_id, instance_id, error)


def _remove_leaver(group: ClassicGroup, member_id: str, connection: int, out: Outcome) -> None:
    member = group.members[member_id]
    if member.connection == connection:
        member.connection = -1  # the leaving client gets this LeaveGroup's reply; only other connections need the error
    dismiss(group, member, out, ErrorCode.UNKNOWN_MEMBER_ID, Cause.MEMBER_LEFT)


def evict(group: ClassicGroup, event: SessionOverdue, out: Outcome) -> None:
    """Evict a member that sent nothing for its session timeout. A member whose heartbeats may wait behind an unanswered
    request gets a new session."""
    member = group.members.get(event.member_id)
    if member is None:
        return
    facts = departure(member, out.moment.monotonic_ms)
    if event.is_kept_waiting:
        restart_session(group, member, out)
        return
    silent_ms = NEW_MEMBER_TIMEOUT_MS if member.is_new else member.session_timeout_ms
    dismiss(group, member, out, ErrorCode.UNKNOWN_MEMBER_ID, Cause.SESSION_EXPIRED)
    detail = f"{Client(member.client_id, member.client_host)} was silent for {silent_ms} ms"
    if group.state is GroupState.PREPARING:
        note(group, out, "dropped", Cause.SESSION_EXPIRED, event.member_id, detail, **facts)
    else:
        begin_rebalance(group, out, Cause.SESSION_EXPIRED, event.member_id, detail, **facts)


def evict_unsynced(group: ClassicGroup, event: SyncOverdue, out: Outcome) -> None:
    """Evict the members that did not sync within the rebalance timeout, even from a Stable group
    (docs/spec/group-protocol.md#1.7)."""
    if group.generation_id != event.generation_id:
        return
    late = [group.members[member_id] for member_id in group.pending_sync]
    for member in late:
        dismiss(group, member, out, ErrorCode.UNKNOWN_MEMBER_ID, Cause.SYNC_EXPIRED)
    names = ", ".join(member.member_id for member in late[:5])
    facts = departure(late[0], out.moment.monotonic_ms)
    begin_rebalance(group, out, Cause.SYNC_EXPIRED, late[0].member_id, f"never synced: {names}", **facts)


def drop_pending_id(group: ClassicGroup, event: PendingIdOverdue, out: Outcome) -> None:
    """Drop an id that was never used; the join phase no longer waits for it."""
    group.drop_pending(event.member_id)


# --- phases ---


def join_phase_over(group: ClassicGroup, event: JoinPhaseOver, out: Outcome) -> None:
    complete_join(group, out)


def initial_delay_over(group: ClassicGroup, event: InitialDelayOver, out: Outcome) -> None:
    extend_or_complete_join(group, out, event.elapsed_ms, event.remaining_ms)
