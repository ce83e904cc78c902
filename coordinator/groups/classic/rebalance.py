"""Beginning of a rebalance and end of its join phase: the procedures behind the actions
(docs/spec/group-protocol.md#1.5, #1.6).

`begin_rebalance` is the only way into PreparingRebalance, and the only place that watches a join. So each rebalance has
exactly one `DelayedJoin` and exactly one note of kind `rebalance`.
"""

from itertools import islice
from typing import Unpack

from coordinator.groups.classic.delayed import (
    DelayedHeartbeat,
    DelayedJoin,
    DelayedSync,
    HeldJoin,
    InitialDelayedJoin,
    PhaseOperation,
)
from coordinator.groups.classic.election import elect_leader, elect_protocol
from coordinator.groups.classic.events import Joining
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.notes import Cause, departure, note
from coordinator.groups.classic.owning import departed
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.hold import Hold, left_of
from coordinator.groups.notes import NoteFacts
from coordinator.groups.outcome import Outcome
from coordinator.keys import PhaseKey
from coordinator.records.records import GroupMetadata, MemberRecord
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    JoinGroup,
    JoinGroupMember,
    JoinGroupReply,
    MemberRemoved,
    RebalanceStarted,
    SlowestMember,
    SyncGroupReply,
)
from protocol.words import counted

_KNOWN_TO_MEMBER = (Cause.MEMBER_LEFT, Cause.SESSION_EXPIRED, Cause.STATIC_REPLACED)
"""Causes of removals that the member knows of: its grants end at once."""
_JOINED_A_NOTE = 10
_LEAST_REARM_MS = 1_000
"""Shortest wait for absent static members: with a rebalance timeout of 0 the wait would repeat thousands of times a
second."""


def begin_rebalance(
    group: ClassicGroup,
    out: Outcome,
    cause: Cause,
    initiator: str,
    detail: str,
    **facts: Unpack[NoteFacts],
) -> None:
    """Ask all members to join again, after the hold if the group is held. Do nothing if a rebalance is under way or the
    group is dead. `subject` is given where the cause can repeat without end (see `Note`)."""
    if group.state in (GroupState.PREPARING, GroupState.DEAD):
        return
    note(group, out, "rebalance", cause, initiator, detail, **facts)
    if group.state is GroupState.COMPLETING:
        _give_up_sync(group, out, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    before, now_ms = group.state, out.moment.monotonic_ms
    group.rebalance_began_ms = now_ms
    group.become(GroupState.PREPARING, out.moment.wall_ms)
    hold = group.hold
    # A group whose members wait for their assignment is not held: they read nothing meanwhile.
    if hold is not None and before is not GroupState.COMPLETING and left_of(hold, now_ms):
        wait_held(group, hold, out)
    elif before is GroupState.EMPTY:
        delay_ms, timeout_ms = group.settings.initial_rebalance_delay_ms, group.rebalance_timeout_ms
        group.member_added = False
        _wait(group, out, InitialDelayedJoin(group, now_ms + delay_ms, delay_ms, max(timeout_ms - delay_ms, 0)))
        _push_rebalance_started(group, out, cause, initiator, timeout_ms)
    else:
        ask_to_join(group, out, cause, initiator)


def wait_held(group: ClassicGroup, hold: Hold, out: Outcome) -> None:
    """Let the rebalance wait for the end of the hold."""
    _wait(group, out, HeldJoin(group, hold.until_ms))


def ask_to_join(group: ClassicGroup, out: Outcome, cause: Cause, initiator: str) -> None:
    """Give the members their rebalance timeout to join, from now."""
    group.rebalance_began_ms, timeout_ms = out.moment.monotonic_ms, group.rebalance_timeout_ms
    _wait(group, out, DelayedJoin(group, group.rebalance_began_ms + timeout_ms))
    _push_rebalance_started(group, out, cause, initiator, timeout_ms)


def _wait(group: ClassicGroup, out: Outcome, operation: PhaseOperation) -> None:
    """Watch the operation as the group's phase."""
    group.phase = operation
    out.watch(operation)


def _give_up_sync(group: ClassicGroup, out: Outcome, error_code: ErrorCode) -> None:
    """Answer every parked SyncGroup with the error and drop the assignment the leader may have sent."""
    for member in group.members.values():
        member.assignment = b""
        ref = group.take_sync(member)
        if ref is not None:
            out.reply_at_once(ref, SyncGroupReply(error_code=error_code))
            restart_session(group, member, out)


def fail_assignment(group: ClassicGroup, out: Outcome, error_code: ErrorCode) -> None:
    """Answer the parked SyncGroups and start over: the leader's assignment could not be stored
    (docs/spec/group-protocol.md#2.2)."""
    _give_up_sync(group, out, error_code)
    begin_rebalance(
        group, out, Cause.ASSIGNMENT_LOST, group.leader or "", f"the log refused the assignment: {error_code.name}"
    )


def _push_rebalance_started(group: ClassicGroup, out: Outcome, cause: Cause, initiator: str, timeout_ms: int) -> None:
    message = RebalanceStarted(group.group_id, group.generation_id, cause.value, initiator, timeout_ms)
    for member in group.members.values():
        if member.connection >= 0 and member.join_ref is None:
            out.pushes.append((member.connection, message))


def extend_or_complete_join(group: ClassicGroup, out: Outcome, elapsed_ms: int, remaining_ms: int) -> None:
    """Extend the initial delay if a member was added and the rebalance timeout allows it; else complete the join phase
    (docs/spec/group-protocol.md#2.1.4)."""
    if not group.member_added or remaining_ms <= 0:
        complete_join(group, out)
        return
    group.member_added = False
    delay_ms = min(group.settings.initial_rebalance_delay_ms, remaining_ms)
    deadline_ms = out.moment.monotonic_ms + delay_ms
    _wait(group, out, InitialDelayedJoin(group, deadline_ms, delay_ms, max(remaining_ms - elapsed_ms, 0)))


def complete_join(group: ClassicGroup, out: Outcome) -> None:
    """Complete the join phase: a new generation of the members that joined and of absent static members
    (docs/spec/group-protocol.md#1.6)."""
    _drop_absent(group, out)
    leader = elect_leader(group)
    if leader is None and group.members:
        # All remaining members are static and absent: wait for them, in the same generation, until their sessions end.
        timeout_ms = max(group.rebalance_timeout_ms, _LEAST_REARM_MS)
        _wait(group, out, DelayedJoin(group, out.moment.monotonic_ms + timeout_ms))
        return
    group.generation_id += 1
    group.pending_sync.clear()
    if leader is None:
        group.phase = None
        out.cancel(PhaseKey(group.group_id))
        out.records.append(_emptied(group, out.moment.wall_ms))
        note(group, out, "completed", Cause.EMPTIED, "", "no member is left")
        return
    group.leader = leader.member_id
    group.protocol_name = elect_protocol(group, leader)
    assert group.protocol_name is not None, "admission requires a protocol that all members share"
    group.become(GroupState.COMPLETING, out.moment.wall_ms)
    took_ms = out.moment.monotonic_ms - group.rebalance_began_ms
    note(
        group,
        out,
        "completed",
        Cause.COMPLETED,
        leader.member_id,
        f"{counted(len(group.members), 'member')} joined within {took_ms} ms; protocol {group.protocol_name}",
        took_ms=took_ms,
        slowest=_slowest(group),
        joined=tuple(islice((member.member_id for member in group.members.values() if member.is_new), _JOINED_A_NOTE)),
    )
    _answer_joins(group, out, leader)
    _wait(group, out, DelayedSync(group, out.moment.monotonic_ms + group.rebalance_timeout_ms))


def _slowest(group: ClassicGroup) -> SlowestMember | None:
    """Return the member that joined last; the first of several with equal times."""
    joined = [member for member in group.members.values() if member.join_ref is not None]
    if not joined:
        return None
    last = max(joined, key=lambda member: member.parked_ms)
    waited_ms = max(0, last.parked_ms - group.rebalance_began_ms)
    return SlowestMember(last.member_id, last.client_id, last.client_host, waited_ms)


def _drop_absent(group: ClassicGroup, out: Outcome) -> None:
    absent = [member for member in group.members.values() if member.join_ref is None and not member.group_instance_id]
    if not absent:
        return
    names = ", ".join(member.member_id for member in absent[:5]) + (", ..." if len(absent) > 5 else "")
    facts = departure(absent[0], out.moment.monotonic_ms)
    for member in absent:
        dismiss(group, member, out, ErrorCode.UNKNOWN_MEMBER_ID, Cause.NOT_REJOINED)
    waited_ms = out.moment.monotonic_ms - group.rebalance_began_ms
    detail = f"not back after {waited_ms} ms: {names}"
    note(group, out, "dropped", Cause.NOT_REJOINED, absent[0].member_id, detail, **facts)


def _emptied(group: ClassicGroup, wall_ms: int) -> GroupMetadata:
    return GroupMetadata(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        generation_id=group.generation_id,
        protocol=None,
        leader=None,
        state_timestamp_ms=wall_ms,
    )


def _answer_joins(group: ClassicGroup, out: Outcome, leader: Member) -> None:
    everyone = roster(group)
    for member in group.members.values():
        member.is_new = False
        group.pending_sync[member.member_id] = None
        ref = group.take_join(member)
        if ref is not None:  # an absent static member sent no request: its session deadline stays
            restart_session(group, member, out)
            out.reply_at_once(ref, join_reply(group, member.member_id, everyone if member is leader else ()))


def roster(group: ClassicGroup) -> tuple[JoinGroupMember, ...]:
    """Members for the leader's reply, with their metadata for the chosen protocol."""
    return tuple(
        JoinGroupMember(member.member_id, member.group_instance_id, member.metadata_for(group.protocol_name))
        for member in group.members.values()
    )


def join_reply(group: ClassicGroup, member_id: str, members: tuple[JoinGroupMember, ...]) -> JoinGroupReply:
    """Build the reply to a member of the present generation."""
    return JoinGroupReply(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_id=member_id,
        members=members,
    )


def restart_session(group: ClassicGroup, member: Member, out: Outcome) -> None:
    """Give the member its full session timeout from now. The operation is watched again only when the deadline moves
    nearer, or when the operation ended while the member was parked."""
    deadline_ms = out.moment.monotonic_ms + member.session_timeout_ms
    must_file = member.session is None or deadline_ms < member.deadline_ms
    member.deadline_ms = deadline_ms
    if must_file:
        watch_session(group, member, out)


def watch_session(group: ClassicGroup, member: Member, out: Outcome) -> None:
    """Watch the member's session until its `deadline_ms`."""
    member.session = DelayedHeartbeat(group, member)
    out.watch(member.session)


def rebalance_timeout_ms(request: JoinGroup) -> int:
    """Return the member's rebalance timeout; the session timeout if the request has none."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def park(group: ClassicGroup, member: Member, event: Joining, out: Outcome) -> None:
    """Take the fields of the JoinGroup and park it. An older one still parked is answered with an error: it would
    otherwise never be answered (docs/spec/group-protocol.md#2.1.9)."""
    request = event.request
    older = group.park_join(member, event.ref)
    if older is not None:
        refused = JoinGroupReply(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        out.reply_at_once(older, refused)
    group.offer(member, request.protocols)
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = rebalance_timeout_ms(request)
    member.connection, member.client = event.ref.connection, event.client
    member.heard_ms = member.parked_ms = out.moment.monotonic_ms


def dismiss(
    group: ClassicGroup,
    member: Member,
    out: Outcome,
    error_code: ErrorCode,
    cause: Cause,
    join_member_id: str = "",
) -> None:
    """Drop the member. Every removal of a member calls this function, so its parked request is always answered
    first."""
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
    if group.owners is not None:
        departed(group, member, out, knows=cause in _KNOWN_TO_MEMBER)
    if member.connection >= 0:
        out.pushes.append((member.connection, MemberRemoved(group.group_id, member.member_id, cause.value)))


def stable_record(group: ClassicGroup, assignments: dict[str, bytes], state_timestamp_ms: int) -> GroupMetadata:
    """Build the record of the present generation with these assignments; a member left out gets empty bytes."""
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
    """Build the member's part of its group's record."""
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
