"""How a rebalance begins and how its join phase ends: the procedures behind the actions
(docs/spec/group-protocol.md#1.5, #1.6).

`begin_rebalance` is the only way into PreparingRebalance, and the one place that watches a join: so each rebalance has
exactly one `DelayedJoin` and exactly one note of kind `rebalance`, by the text and not by discipline.
"""

from coordinator.groups.classic.delayed import DelayedHeartbeat, DelayedJoin, DelayedSync, InitialDelayedJoin, phase_key
from coordinator.groups.classic.election import elect_leader, elect_protocol
from coordinator.groups.classic.events import Joining
from coordinator.groups.classic.notes import Cause, counted, note
from coordinator.groups.classic.owning import departed
from coordinator.groups.classic.state import Group, GroupState, Member
from coordinator.groups.outcome import Outcome
from coordinator.records.records import GroupMetadata, MemberRecord
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    JoinGroup,
    JoinGroupMember,
    JoinGroupReply,
    MemberRemoved,
    RebalanceStarted,
    SyncGroupReply,
)

_TOLD = (Cause.MEMBER_LEFT, Cause.SESSION_EXPIRED, Cause.STATIC_REPLACED)
"""Who goes for one of these owns nothing from then on."""
_LEAST_REARM_MS = 1_000
"""Absent static members are waited for again and again: not thousands of times a second because they named a rebalance
timeout of nothing."""


def begin_rebalance(group: Group, out: Outcome, cause: Cause, initiator: str, detail: str, subject: str = "") -> None:
    """Ask everyone to join again. Nothing happens if they are being asked already, or the group is dead. `subject` is
    given where the cause can repeat without end (see `Note`)."""
    if group.state in (GroupState.PREPARING, GroupState.DEAD):
        return
    note(group, out, "rebalance", cause, initiator, detail, subject)
    if group.state is GroupState.COMPLETING:
        _give_up_sync(group, out, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    now_ms, timeout_ms = out.moment.monotonic_ms, group.rebalance_timeout_ms
    if group.state is GroupState.EMPTY:
        delay_ms = group.settings.initial_rebalance_delay_ms
        group.member_added = False
        _wait(group, out, InitialDelayedJoin(group, now_ms + delay_ms, delay_ms, max(timeout_ms - delay_ms, 0)))
    else:
        _wait(group, out, DelayedJoin(group, now_ms + timeout_ms))
    group.rebalance_began_ms = now_ms
    group.become(GroupState.PREPARING, out.moment.wall_ms)
    _tell_rebalance_started(group, out, cause, initiator, timeout_ms)


def _wait(group: Group, out: Outcome, operation: DelayedJoin | InitialDelayedJoin | DelayedSync) -> None:
    """The group's phase ends with this operation."""
    group.phase = phase_key(group.group_id)
    out.watch(operation)


def _give_up_sync(group: Group, out: Outcome, error_code: ErrorCode) -> None:
    """Answer every parked SyncGroup with the error and forget what the leader may have decided."""
    for member in group.members.values():
        member.assignment = b""
        ref = group.take_sync(member)
        if ref is not None:
            out.reply_at_once(ref, SyncGroupReply(error_code=error_code))
            restart_session(group, member, out)


def lose_assignment(group: Group, out: Outcome, error_code: ErrorCode) -> None:
    """The leader's assignment could not be stored: whoever waits for it is told, and the group starts over
    (docs/spec/group-protocol.md#2.2)."""
    _give_up_sync(group, out, error_code)
    begin_rebalance(
        group, out, Cause.ASSIGNMENT_LOST, group.leader or "", f"the log refused the assignment: {error_code.name}"
    )


def _tell_rebalance_started(group: Group, out: Outcome, cause: Cause, initiator: str, timeout_ms: int) -> None:
    message = RebalanceStarted(group.group_id, group.generation_id, cause.value, initiator, timeout_ms)
    out.pushes.extend(
        (member.connection, message)
        for member in group.members.values()
        if member.connection >= 0 and member.join_ref is None
    )


def extend_or_complete_join(group: Group, out: Outcome, elapsed_ms: int, remaining_ms: int) -> None:
    """The initial delay ran out: once more, if somebody came since and the rebalance timeout allows, else on
    (docs/spec/group-protocol.md#2.1.4)."""
    if not group.member_added or remaining_ms <= 0:
        complete_join(group, out)
        return
    group.member_added = False
    delay_ms = min(group.settings.initial_rebalance_delay_ms, remaining_ms)
    deadline_ms = out.moment.monotonic_ms + delay_ms
    _wait(group, out, InitialDelayedJoin(group, deadline_ms, delay_ms, max(remaining_ms - elapsed_ms, 0)))


def complete_join(group: Group, out: Outcome) -> None:
    """The join phase is over: a new generation, of those who joined and of absent static members
    (docs/spec/group-protocol.md#1.6)."""
    _drop_absent(group, out)
    leader = elect_leader(group)
    if leader is None and group.members:
        # All that remain are static and absent: wait for them, in the same generation, until their sessions end.
        timeout_ms = max(group.rebalance_timeout_ms, _LEAST_REARM_MS)
        _wait(group, out, DelayedJoin(group, out.moment.monotonic_ms + timeout_ms))
        return
    group.generation_id += 1
    group.pending_sync.clear()
    if leader is None:
        group.phase = None
        out.cancel(phase_key(group.group_id))
        out.records.append(_emptied(group, out.moment.wall_ms))
        note(group, out, "completed", Cause.EMPTIED, "", "no member is left")
        return
    group.leader = leader.member_id
    group.protocol_name = elect_protocol(group, leader)
    assert group.protocol_name is not None, "the protocol gate lets nobody in who shares no protocol"
    group.become(GroupState.COMPLETING, out.moment.wall_ms)
    took_ms = out.moment.monotonic_ms - group.rebalance_began_ms
    note(
        group,
        out,
        "completed",
        Cause.COMPLETED,
        leader.member_id,
        f"{counted(len(group.members), 'member')} joined within {took_ms} ms; protocol {group.protocol_name}",
    )
    _answer_joins(group, out, leader)
    _wait(group, out, DelayedSync(group, out.moment.monotonic_ms + group.rebalance_timeout_ms))


def _drop_absent(group: Group, out: Outcome) -> None:
    absent = [member for member in group.members.values() if member.join_ref is None and not member.group_instance_id]
    if not absent:
        return
    names = ", ".join(member.member_id for member in absent[:5]) + (", ..." if len(absent) > 5 else "")
    for member in absent:
        dismiss(group, member, out, ErrorCode.UNKNOWN_MEMBER_ID, Cause.NOT_REJOINED)
    waited_ms = out.moment.monotonic_ms - group.rebalance_began_ms
    note(group, out, "dropped", Cause.NOT_REJOINED, absent[0].member_id, f"not back after {waited_ms} ms: {names}")


def _emptied(group: Group, wall_ms: int) -> GroupMetadata:
    return GroupMetadata(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        generation_id=group.generation_id,
        protocol=None,
        leader=None,
        state_timestamp_ms=wall_ms,
    )


def _answer_joins(group: Group, out: Outcome, leader: Member) -> None:
    everyone = roster(group)
    for member in group.members.values():
        member.is_new = False
        group.pending_sync[member.member_id] = None
        ref = group.take_join(member)
        if ref is not None:  # an absent static member has not been heard: its session goes on as it was
            restart_session(group, member, out)
            out.reply_at_once(ref, join_reply(group, member.member_id, everyone if member is leader else ()))


def roster(group: Group) -> tuple[JoinGroupMember, ...]:
    """What the leader is told: every member, with its metadata for the chosen protocol."""
    return tuple(
        JoinGroupMember(member.member_id, member.group_instance_id, member.metadata_for(group.protocol_name))
        for member in group.members.values()
    )


def join_reply(group: Group, member_id: str, members: tuple[JoinGroupMember, ...]) -> JoinGroupReply:
    """The answer to a member of the present generation."""
    return JoinGroupReply(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_id=member_id,
        members=members,
    )


def restart_session(group: Group, member: Member, out: Outcome) -> None:
    """Give the member its full session timeout from now. Filing the operation anew is needed only when the deadline
    moves nearer, or when the operation ended while the member was parked."""
    deadline_ms = out.moment.monotonic_ms + member.session_timeout_ms
    must_file = member.session is None or deadline_ms < member.deadline_ms
    member.deadline_ms = deadline_ms
    if must_file:
        watch_session(group, member, out)


def watch_session(group: Group, member: Member, out: Outcome) -> None:
    """Let the member's session end at its `deadline_ms`."""
    member.session = DelayedHeartbeat(group, member)
    out.watch(member.session)


def rebalance_timeout_ms(request: JoinGroup) -> int:
    """The member's rebalance timeout; one that names none counts with its session timeout."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def park(group: Group, member: Member, event: Joining, out: Outcome) -> None:
    """Take over what the JoinGroup says and keep it unanswered. An older one still parked is told to try again: it
    would otherwise never be answered (docs/spec/group-protocol.md#2.1.9)."""
    request = event.request
    older = group.take_join(member)
    if older is not None:
        refused = JoinGroupReply(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        out.reply_at_once(older, refused)
    group.offer(member, request.protocols)
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = rebalance_timeout_ms(request)
    member.connection = event.ref.connection
    group.park_join(member, event.ref)


def dismiss(
    group: Group,
    member: Member,
    out: Outcome,
    error_code: ErrorCode,
    cause: Cause,
    join_member_id: str = "",
) -> None:
    """Drop the member; every path that does comes through here, so its parked request is always answered first."""
    ref = group.take_join(member)
    if ref is not None:
        out.reply_at_once(ref, JoinGroupReply(error_code=error_code, member_id=join_member_id))
    ref = group.take_sync(member)
    if ref is not None:
        out.reply_at_once(ref, SyncGroupReply(error_code=error_code))
    if member.session is not None:
        out.cancel(member.session.key)
        member.session = None
    group.remove(member)
    departed(group, member, out, is_told=cause in _TOLD)
    if member.connection >= 0:
        out.pushes.append((member.connection, MemberRemoved(group.group_id, member.member_id, cause.value)))


def stable_record(group: Group, assignments: dict[str, bytes], state_timestamp_ms: int) -> GroupMetadata:
    """The record of the present generation with these assignments; a member left out gets empty bytes."""
    return GroupMetadata(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        generation_id=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader,
        state_timestamp_ms=state_timestamp_ms,
        members=tuple(
            member_record(member, member.metadata_for(group.protocol_name), assignments.get(member.member_id, b""))
            for member in group.members.values()
        ),
    )


def member_record(member: Member, subscription: bytes, assignment: bytes) -> MemberRecord:
    """The member as a line of its group's record."""
    return MemberRecord(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )
