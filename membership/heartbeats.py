"""Keeping the membership: lookups of the coordinator, heartbeats, notifications, overdue polls
(docs/spec/consumer-client.md#A3, #A6)."""

from membership.events import HangUp
from membership.joining import fenced, leave_quietly, lose_first, note_lease, restart_session_timer, with_words
from membership.member import COORDINATOR_GONE, MemberState, State, Timer
from membership.replies import HeartbeatAnswered, LookupAnswered, PollOverdue, SessionTimedOut
from protocol.errors import ErrorCode
from protocol.messages.groups import CoordinatorMoved, Heartbeat, MemberRemoved, RebalanceStarted, SyncGroup
from protocol.messages.topics import Metadata

# ------------------------------------------------------------------------------------------------------ the coordinator


def look_up(m: MemberState) -> None:
    m.call(m.channel.lookup(), timeout_ms=m.settings.request_timeout_ms, anywhere=True)


def on_lookup_reply(m: MemberState, event: LookupAnswered) -> None:
    code, reason = event.error_code, event.reason
    if event.reply is not None:
        code, reason = m.channel.on_lookup_reply(event.reply)
        if code == ErrorCode.NONE:
            if Timer.SESSION in m.timers:
                m.arm(Timer.SESSION, m.settings.session_timeout_ms)
            return
    if code in COORDINATOR_GONE or code.retriable or code == ErrorCode.UNKNOWN_SERVER_ERROR:
        m.channel.look_up_later(m.now_ms)
        if event.reply is None:
            m.effects.append(HangUp(event.sent.node))  # so that the next lookup goes to another node
        # See docs/spec/consumer-client.md#A3, step 5: the nodes may have changed
        if not m.is_asking(Metadata):
            m.call(Metadata(()), timeout_ms=m.settings.request_timeout_ms, anywhere=True)
        return
    # No lookup until the next poll, since it would be refused again (A3, step 2).
    for operation in tuple(m.operations.values()):
        operation.end(m, code)
    m.fail(code, with_words(f"cannot find the coordinator of group {m.settings.group_id}: {code.name}", reason))


def move_coordinator(m: MemberState, event: CoordinatorMoved) -> None:
    if event.group_id == m.settings.group_id:
        m.forget_coordinator()


# ----------------------------------------------------------------------------------------------------------- heartbeats


def send_heartbeat(m: MemberState) -> None:
    """Send a heartbeat. Sending starts the heartbeat's timer, replies start the session's."""
    m.arm(Timer.HEARTBEAT, m.settings.heartbeat_interval_ms)
    m.call(
        Heartbeat(m.settings.group_id, m.generation_id, m.member_id, m.settings.group_instance_id),
        timeout_ms=min(m.settings.request_timeout_ms, m.settings.session_timeout_ms),
    )


def on_heartbeat_reply(m: MemberState, event: HeartbeatAnswered) -> None:
    code = event.error_code
    if code == ErrorCode.NONE:
        restart_session_timer(m)
        _note_lease(m, event)
    elif code == ErrorCode.REBALANCE_IN_PROGRESS:
        restart_session_timer(m)
        _note_lease(m, event)
        if m.state is State.STEADY and m.is_current(event.sent):
            m.rejoin = m.rejoin or "the group is rebalancing"
    elif code in {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}:
        if m.is_current(event.sent):
            fall_out(m, code, event.reason)
    elif code in COORDINATOR_GONE:
        m.forget_coordinator()
        _retry_heartbeat(m)
    elif code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        m.fail(code, with_words(f"group {m.settings.group_id} no longer admits this member", event.reason))
    else:
        _retry_heartbeat(m)


def _note_lease(m: MemberState, event: HeartbeatAnswered) -> None:
    if m.is_current(event.sent):
        note_lease(m, event.sent.sent_ms)


def fall_out(m: MemberState, code: ErrorCode, words: str = "") -> None:
    """Leave the group: the coordinator does not know this member, or its generation has ended."""
    m.reset(f"the coordinator answered {code.name}", forget_id=code != ErrorCode.ILLEGAL_GENERATION)
    if code == ErrorCode.FENCED_INSTANCE_ID:
        m.fail(code, with_words(fenced(m), words))
    elif m.state is State.SYNCING:
        m.stop_asking(SyncGroup, Metadata)
        if not lose_first(m):
            m.join_again(m.rejoin)
    elif m.state is State.STEADY:
        m.unjoin()  # the held partitions are lost; the application learns it at its next poll


def _retry_heartbeat(m: MemberState) -> None:
    m.arm(Timer.HEARTBEAT, min(m.backoff_ms(m.heartbeat_failures), m.settings.heartbeat_interval_ms))
    m.heartbeat_failures += 1


def doubt_coordinator(m: MemberState, _event: SessionTimedOut) -> None:
    """Look the silent coordinator up again, since it may have moved. The member stays in the group until an answer ends
    that."""
    m.forget_coordinator()
    m.arm(Timer.SESSION, m.settings.session_timeout_ms)


# -------------------------------------------------------------------------------------------------------- notifications


def expect_rebalance(m: MemberState, event: RebalanceStarted) -> None:
    if event.group_id == m.settings.group_id and event.generation_id >= m.generation_id:
        m.rejoin = m.rejoin or f"the group is rebalancing: {event.cause}"


def ask_at_once(m: MemberState, event: MemberRemoved) -> None:
    """Send a heartbeat at once after a notification; its reply decides."""
    if event.group_id == m.settings.group_id and event.member_id == m.member_id:
        m.disarm(Timer.HEARTBEAT)


# -------------------------------------------------------------------------------------------------------- overdue polls


def give_up_place(m: MemberState, _event: PollOverdue) -> None:
    """Leave the group if the application does not poll, so that others get its partitions
    (docs/spec/consumer-client.md#A10). A static member only stops its heartbeats."""
    m.rejoin = f"poll was not called for {m.settings.max_poll_interval_ms} ms"
    leave_quietly(m)
    m.reset(m.rejoin, forget_id=True)
    m.stop_asking(Heartbeat, SyncGroup, Metadata)
    if m.state is not State.RELEASING:
        m.unjoin()
