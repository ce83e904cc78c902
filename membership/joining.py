"""Actions of polls, joins, syncs and leaves: from outside the group to a steady member and out again.

In an eager rebalance a member releases all partitions, joins, and gets a new assignment. In a cooperative one it keeps
its partitions, releases those that its new assignment lacks, and joins again. The rules are those of
docs/spec/consumer-client.md#A4, #A5 and #A7.
"""

from collections.abc import Callable
from typing import TypeVar

from membership.events import Assigned, Closed, Closing, Polled, RejoinAsked, Released, Subscribed
from membership.leader import arm_refresh
from membership.member import COORDINATOR_GONE, MemberState, State, Timer
from membership.replies import JoinAnswered, LeaveAnswered, SyncAnswered
from membership.subscription import look_before_joining, subscribe
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import (
    NO_GENERATION,
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
)
from protocol.messages.topics import Metadata

JOIN_GRACE_MS = 5_000
"""Time that a JoinGroup may take beyond the rebalance timeout (docs/spec/group-protocol.md#2.12)."""
LEAVE_TIMEOUT_MS = 5_000
_REASON_CHARACTERS = 255
_NEVER_JOINED = (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_MEMBER_ID)
"""Errors which show that no earlier JoinGroup took part in a rebalance, not even one whose answer was lost."""

M = TypeVar("M", bound=MemberState)

# ------------------------------------------------------------------------------------------- the application's polls


def may_join(m: MemberState, event: Polled) -> bool:
    """Note the poll of a member outside the group. Return false if it cannot join: its partitions are chosen by hand,
    or it was fenced, which the poll reports.
    """
    if m.is_by_hand:
        return False
    if m.fenced:
        m.fail(ErrorCode.FENCED_INSTANCE_ID, fenced(m))
        return False
    note_poll(m, event)
    return True


def start(m: MemberState, event: Polled) -> None:
    if not may_join(m, event):
        return
    if m.held:
        m.state = State.RELEASING
        m.lose()
    elif m.topics:
        m.join_again(m.rejoin)
    look_before_joining(m)


def rejoin_if_needed(m: MemberState, event: Polled) -> None:
    note_poll(m, event)
    if not m.rejoin and m.joined_topics != m.topics:
        m.rejoin = "the subscription changed"
    if not m.rejoin or m.releasing or (m.coordinator is None and m.topics):
        return
    look_before_joining(m)
    unwanted = tuple(one for one in m.held if one.topic not in m.topics)
    if unwanted or not m.settings.is_cooperative or not m.topics:
        m.state = State.RELEASING
        m.revoke(unwanted if m.settings.is_cooperative else m.held)
    else:
        m.join_again(m.rejoin)


def note_poll(m: MemberState, _event: Polled) -> None:
    m.arm(Timer.POLL, m.settings.max_poll_interval_ms)


def ask_for_rejoin(m: MemberState, event: RejoinAsked) -> None:
    """Rejoin at the next poll (docs/spec/consumer-client.md#A7.R10)."""
    m.rejoin = m.rejoin or event.reason


def let_go(m: MemberState, _event: Released) -> None:
    """Note that the application released the revoked partitions. If the member lost its place in the group meanwhile,
    the next poll joins.
    """
    m.released()


def join_when_released(m: MemberState, _event: Released) -> None:
    m.released()
    if m.topics:
        m.join_again(m.rejoin)
    else:
        leave_quietly(m)
        m.reset("joining for the first time", forget_id=True)
        m.unjoin()


def subscribe_or_withdraw(m: MemberState, event: Subscribed) -> None:
    """Change the subscription during a join. A member without topics leaves, so that the others need not wait for it
    (docs/spec/consumer-client.md#A9)."""
    subscribe(m, event)
    if m.topics:
        return
    m.stop_asking(JoinGroup, SyncGroup, Metadata)
    m.rejoin = "nothing is subscribed to any more"
    leave_quietly(m)
    m.reset(m.rejoin, forget_id=True)
    if not lose_first(m):
        m.unjoin()


# ------------------------------------------------------------------------------------------------------------- joining


def send_join(m: MemberState) -> None:
    settings = m.settings
    m.joined_topics = m.topics
    if m.joining_from_ms is None:
        m.joining_from_ms = m.now_ms
    m.call(
        JoinGroup(
            settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            member_id=m.member_id,
            protocol_type=m.kind.protocol_type,
            protocols=tuple(JoinProtocol(name, m.kind.encode_subscription(m, name)) for name in m.kind.offered(m)),
            rebalance_timeout_ms=settings.join_within_ms,
            group_instance_id=settings.group_instance_id,
            reason=m.rejoin[:_REASON_CHARACTERS],
        ),
        timeout_ms=max(settings.request_timeout_ms, settings.join_within_ms + JOIN_GRACE_MS),
    )


def on_join_reply(m: MemberState, event: JoinAnswered) -> None:
    code = event.error_code
    if code == ErrorCode.NONE and event.reply is not None:
        reply = event.reply
        m.member_id = reply.member_id
        _note_lease_of_join(m, reply.generation_id)
        m.generation_id = reply.generation_id
        m.protocol_name = reply.protocol_name or ""
        m.is_leader = reply.leader == reply.member_id
        m.roster = reply.members
        m.plan = None if m.is_leader and not reply.skip_assignment else ()
        m.watched = None
        m.join_failures = 0
        m.state = State.SYNCING
        m.stop_asking(Metadata)  # the reply to an earlier one would have the topics of the former members
        restart_session_timer(m)
        m.arm(Timer.HEARTBEAT, m.settings.heartbeat_interval_ms)
        m.arm(Timer.POLL, m.settings.max_poll_interval_ms)
        if m.protocol_name not in m.kind.offered(m):
            m.fail(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {m.settings.group_id} chose {m.protocol_name!r}, this member offered "
                f"{', '.join(m.kind.offered(m))}",
            )
        return
    if code in _NEVER_JOINED:
        m.joining_from_ms = None
    if code == ErrorCode.MEMBER_ID_REQUIRED and event.reply is not None and event.reply.member_id:
        m.generation_id = NO_GENERATION
        m.member_id = event.reply.member_id
        m.join_again(m.rejoin)
    elif code == ErrorCode.UNKNOWN_MEMBER_ID:
        if m.is_current(event.sent):
            m.reset("the coordinator does not know this member", forget_id=True)
        if not lose_first(m):
            _join_soon(m)
    elif code == ErrorCode.REBALANCE_IN_PROGRESS:
        _join_soon(m)
    elif code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        _join_later(m)
    elif code in COORDINATOR_GONE:
        m.forget_coordinator()
        _join_later(m)
    else:
        m.fail(code, with_words(_fatal(m, code, "join"), event.reason))


def lose_first(m: MemberState) -> bool:
    """Return true if the application must first release partitions that other members may own by now."""
    if m.generation_id != NO_GENERATION or not m.held:
        return False
    m.state = State.RELEASING
    m.disarm(Timer.SESSION, Timer.HEARTBEAT, Timer.REFRESH, Timer.RETRY)
    m.lose()
    return True


def _join_soon(m: MemberState) -> None:
    """Join at once the first time, and after growing pauses if the coordinator repeats its error."""
    m.join_again(m.rejoin, m.backoff_ms(m.join_failures - 1) if m.join_failures else 0)
    m.join_failures += 1


def _join_later(m: MemberState) -> None:
    m.join_again(m.rejoin, m.backoff_ms(m.join_failures))
    m.join_failures += 1


# ------------------------------------------------------------------------------------------------------------- syncing


def send_sync(m: MemberState) -> None:
    assert m.plan is not None
    m.call(
        SyncGroup(
            m.settings.group_id,
            m.generation_id,
            m.member_id,
            m.settings.group_instance_id,
            m.kind.protocol_type,
            m.protocol_name,
            m.plan,
        ),
        timeout_ms=max(m.settings.request_timeout_ms, m.settings.join_within_ms + JOIN_GRACE_MS),
    )


def on_sync_reply(m: MemberState, event: SyncAnswered) -> None:
    code = event.error_code
    if code == ErrorCode.NONE and event.reply is not None:
        named = event.reply.protocol_name
        if named is not None and named != m.protocol_name:
            reason = f"group {m.settings.group_id}: joined with {m.protocol_name!r}, the assignment is of {named!r}"
            m.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, reason)
            return
        try:
            _take_over(m, m.kind.decode_assignment(event.reply.assignment))
        except ProtocolViolation as malformed:
            reason = f"group {m.settings.group_id}: the leader's assignment cannot be read: {malformed}"
            m.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, reason)
    elif code == ErrorCode.REBALANCE_IN_PROGRESS:
        m.join_again("the group began to rebalance before the assignment came")
    elif code in {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}:
        if m.is_current(event.sent):
            m.reset(f"SyncGroup was answered {code.name}", forget_id=code == ErrorCode.UNKNOWN_MEMBER_ID)
        if not lose_first(m):
            m.join_again(m.rejoin)
    elif code in COORDINATOR_GONE:
        m.forget_coordinator()
        # A counter of its own, since each JoinGroup before it succeeds and resets the other one.
        m.join_again(m.rejoin, m.backoff_ms(m.sync_failures))
        m.sync_failures += 1
    else:
        m.fail(code, with_words(_fatal(m, code, "sync with"), event.reason))


def _take_over(m: MemberState, given: tuple[TopicPartition, ...]) -> None:
    m.state = State.STEADY
    m.plan = None
    m.join_failures = m.sync_failures = 0
    restart_session_timer(m)
    if not all(m.accepts(one.topic) for one in given):
        # See docs/spec/consumer-client.md#A7.R7: the application does not see this assignment
        m.rejoin = "the assignment has topics no longer subscribed to"
        return
    if m.pattern is not None:  # the leader may know a topic before this member does
        m.topics = m.joined_topics = tuple(sorted({*m.topics, *(one.topic for one in given)}))
    m.rejoin = ""
    share = tuple(sorted(given))
    before, now = set(m.held), set(share)
    taken_away = tuple(one for one in m.held if one not in now)
    m.last_assigned, m.last_generation_id = share, m.generation_id
    m.held = tuple(sorted({*share, *taken_away}))
    if taken_away:
        m.rejoin = "giving back " + ", ".join(map(str, taken_away[:5])) + (", ..." if len(taken_away) > 5 else "")
        m.revoke(taken_away)
    m.effects.append(Assigned(share, m.generation_id, tuple(one for one in share if one not in before)))
    arm_refresh(m)


def restart_session_timer(m: MemberState) -> None:
    """Restart the session's timer: it runs from the coordinator's last reply without an error."""
    m.heartbeat_failures = 0
    m.arm(Timer.SESSION, m.settings.session_timeout_ms)


def note_lease(m: MemberState, sent_ms: int) -> None:
    """Store the send time of a request as the start of the lease, since the coordinator's session starts when it
    arrives."""
    m.lease_from_ms = max(m.lease_from_ms or 0, sent_ms)


def _note_lease_of_join(m: MemberState, generation_id: int) -> None:
    """Start the lease at the first JoinGroup since the last answered one: all sessions restart when its rebalance
    completes, maybe long before its answer arrives. No session restarts if the generation is unchanged, nor with the
    SyncGroup of a group that is already Stable (docs/spec/group-protocol.md#2.2)."""
    if generation_id != m.generation_id and m.joining_from_ms is not None:
        note_lease(m, m.joining_from_ms)
    m.joining_from_ms = None


# ------------------------------------------------------------------------------------------------------------- leaving


def close(m: MemberState, event: Closing) -> None:
    """Release partitions, then leave (docs/spec/consumer-client.md#A10). A static member sends no LeaveGroup: the group
    keeps its place for a restart."""
    has_place = m.generation_id != NO_GENERATION
    is_rebalancing = m.state in {State.JOINING, State.SYNCING}
    lost = not has_place or is_rebalancing or m.state is State.UNJOINED
    m.stop_asking(JoinGroup, SyncGroup)
    close_when_released(m, event)
    # Records that a cooperative member read while it joined are committed by no other member.
    release_all(m, depart, is_lost=lost, still_counts=has_place and is_rebalancing)


def release_all(m: M, depart: Callable[[M], None], *, is_lost: bool, still_counts: bool = False) -> None:
    """Have the application release the held partitions, unless it is doing so; `depart` at once if there are none.
    `is_lost`: other members may own them already; records read from them may be committed only if it `still_counts`.
    """
    if m.releasing:
        return
    if m.is_by_hand or not m.held:
        m.releasing = m.held
        depart(m)
    elif is_lost:
        m.lose(still_counts=still_counts)
    else:
        m.revoke(m.held)


def close_when_released(m: MemberState, _event: Closing) -> None:
    """Note the close while the application releases partitions; the member leaves afterwards."""
    m.stop_asking(Heartbeat, ConsumerGroupHeartbeat, Metadata)
    m.timers.clear()
    m.channel.end_pause()
    m.state = State.LEAVING


def depart(m: MemberState, _event: Released | None = None) -> None:
    m.released()
    if m.held:
        m.revoke(m.held)  # only some of them were being released
    elif not leave_quietly(m):
        finish(m)


def leave_quietly(m: MemberState) -> bool:
    """Send one LeaveGroup, without retries, if the member is in the group. Return true if one was sent."""
    if m.is_static or not m.member_id or m.coordinator is None:
        return False
    leaving = LeavingMember(m.member_id, reason=m.rejoin[:_REASON_CHARACTERS] or "the member is closing")
    m.call(LeaveGroup(m.settings.group_id, (leaving,)), timeout_ms=LEAVE_TIMEOUT_MS)
    return True


def on_leave_reply(m: MemberState, _event: LeaveAnswered) -> None:
    """End the member, whatever the reply: after an error the coordinator removes it at its session timeout."""
    finish(m)


def finish(m: MemberState) -> None:
    for operation in tuple(m.operations.values()):
        operation.end(m, operation.error_code)
    m.closed = True
    m.channel.requests.clear()
    m.timers.clear()
    m.effects.append(Closed())


def with_words(sentence: str, words: str) -> str:
    """Append the coordinator's message, which names neither the group nor a setting of this member."""
    return f"{sentence} ({words})" if words else sentence


def _fatal(m: MemberState, code: ErrorCode, verb: str) -> str:
    if code == ErrorCode.FENCED_INSTANCE_ID:
        return fenced(m)
    if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
        return (
            f"cannot {verb} group {m.settings.group_id}: its members are of another kind, or offer no assignor of "
            f"{', '.join(m.kind.offered(m))}"
        )
    if code == ErrorCode.INVALID_SESSION_TIMEOUT:
        return (
            f"cannot {verb} group {m.settings.group_id}: session_timeout_ms is {m.settings.session_timeout_ms}, "
            "outside what the coordinator allows"
        )
    return f"cannot {verb} group {m.settings.group_id}: {code.name}"


def fenced(m: MemberState) -> str:
    return (
        f"another member has taken over instance id {m.settings.group_instance_id!r} of group {m.settings.group_id}; "
        "close this one, or give each its own group_instance_id"
    )
