"""Heartbeats: a member joins by them, reports changes since the last one, gets its assignment, and leaves
(docs/spec/consumer-group-protocol.md#17)."""

from membership import heartbeats
from membership.joining import LEAVE_TIMEOUT_MS, finish, note_lease, with_words
from membership.member import COORDINATOR_GONE, State, Timer
from membership.replies import ConsumerHeartbeatAnswered, LookupAnswered
from membership.server_driven.reconciliation import reconcile
from membership.server_driven.state import ServerDrivenState
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    JOINING,
    LEAVING,
    LEAVING_FOR_NOW,
    AssignmentChanged,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
)
from protocol.messages.groups import NO_GENERATION, MemberRemoved

FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
"""Errors after which a member drops its partitions and joins again."""


def may_send(m: ServerDrivenState) -> bool:
    """Return true if a heartbeat is due, and none is in flight."""
    if m.state not in {State.JOINING, State.STEADY} or Timer.RETRY in m.timers:
        return False
    if m.looks_first or m.is_asking(ConsumerGroupHeartbeat):
        return False
    wants_others = not m.is_subscription_sent and m.is_subscribed
    return m.is_urgent or wants_others or m.state is State.JOINING or Timer.HEARTBEAT not in m.timers


def send(m: ServerDrivenState) -> None:
    """Send the fields that the coordinator does not know yet; all fields if the last heartbeat failed."""
    settings = m.settings
    is_join = m.generation_id == NO_GENERATION
    if is_join and m.leaves_first:
        _send_leave(m)
        return
    m.member_id = m.member_id or m.make_id()
    is_full = m.is_full or is_join
    owned = () if is_join else m.owned()
    m.joined_topics = m.topics
    heartbeat = ConsumerGroupHeartbeat(
        settings.group_id,
        m.member_id,
        JOINING if is_join else m.generation_id,
        instance_id=settings.group_instance_id,
        rack_id=settings.rack_id if is_full else None,
        rebalance_timeout_ms=settings.join_within_ms if is_full else -1,
        subscribed_topic_names=m.topics if is_full or m.reported_topics != m.topics else None,
        subscribed_topic_regex=m.regex if is_full or m.reported_regex != m.regex else None,
        server_assignor=settings.server_assignor if is_full else None,
        topic_partitions=owned if is_full or m.reported != owned else None,
    )
    m.is_urgent = False
    m.reported, m.reported_topics, m.reported_regex = owned, m.topics, m.regex
    m.disarm(Timer.HEARTBEAT)
    m.call(heartbeat, timeout_ms=settings.request_timeout_ms)


def on_heartbeat_reply(m: ServerDrivenState, event: ConsumerHeartbeatAnswered) -> None:
    code = event.error_code
    sent = event.sent.message
    assert isinstance(sent, ConsumerGroupHeartbeat)
    if sent.member_epoch < JOINING:
        _on_leave(m, code)
        return
    if code == ErrorCode.NONE and event.reply is not None:
        _accept(m, event, event.reply)
        return
    say_everything(m)
    if sent.member_epoch == JOINING and event.reply is None:
        m.leaves_first = m.is_static  # the coordinator may have admitted it
    if code in FENCED:
        fall_out(m, code)
    elif code in COORDINATOR_GONE:
        m.forget_coordinator()
        _try_again(m)
    elif code.retriable:
        _try_again(m)
    else:
        m.reset("joining again", forget_id=False)
        is_missing = code == ErrorCode.UNSUPPORTED_VERSION  # the server says only that it has no such method
        m.fail(code, with_words(_fatal(m, code), "" if is_missing else event.reason))


def _on_leave(m: ServerDrivenState, code: ErrorCode) -> None:
    """Join after the coordinator has answered a leave, with success or not."""
    if not m.leaves_first:
        return
    if code in COORDINATOR_GONE:
        m.forget_coordinator()
        _try_again(m)
    elif code.retriable:
        _try_again(m)
    else:
        m.leaves_first = False


def _accept(m: ServerDrivenState, event: ConsumerHeartbeatAnswered, reply: ConsumerGroupHeartbeatReply) -> None:
    m.join_failures = m.heartbeat_failures = 0
    m.is_full = False
    if m.state is State.JOINING:
        m.state = State.STEADY
    m.rejoin = ""
    m.member_id = reply.member_id or m.member_id
    m.generation_id = reply.member_epoch
    note_lease(m, event.sent.sent_ms)
    m.arm(Timer.HEARTBEAT, max(reply.heartbeat_interval_ms, 1))
    if reply.assignment is not None:
        m.target = reply.assignment.topic_partitions
    reconcile(m)


def _try_again(m: ServerDrivenState) -> None:
    m.arm(Timer.RETRY, m.backoff_ms(m.heartbeat_failures))
    m.heartbeat_failures += 1
    m.is_urgent = True


def say_everything(m: ServerDrivenState) -> None:
    """Make the next heartbeat a full one."""
    m.is_full, m.reported, m.reported_topics, m.reported_regex = True, None, None, None


def on_lookup_reply(m: ServerDrivenState, event: LookupAnswered) -> None:
    """Store the coordinator, which may be another one."""
    heartbeats.on_lookup_reply(m, event)
    say_everything(m)


def fall_out(m: ServerDrivenState, code: ErrorCode) -> None:
    """Leave the group after an error. The next poll reports the loss to the application, and joins."""
    m.reset(f"the coordinator answered {code.name}", forget_id=False)
    forget(m)
    m.stop_asking(ConsumerGroupHeartbeat)
    m.leaves_first = m.is_static
    m.unjoin()


def forget(m: ServerDrivenState) -> None:
    """Forget everything received from the coordinator and reported to it."""
    say_everything(m)
    m.target, m.is_urgent = None, False
    m.last_generation_id = NO_GENERATION


def _fatal(m: ServerDrivenState, code: ErrorCode) -> str:
    group, instance = m.settings.group_id, m.settings.group_instance_id
    if code in {ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID}:
        return (
            f"another member of group {group} has instance id {instance!r}; close one of them, or give each its own "
            "group_instance_id"
        )
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return f"group {group} does not exist, or is of a kind that this member cannot join"
    if code == ErrorCode.INVALID_REGULAR_EXPRESSION:
        return f"cannot join group {group}: {m.regex!r} is no regular expression of RE2"
    if code == ErrorCode.UNSUPPORTED_VERSION and m.regex:
        return f"the coordinator of group {group} matches no regular expressions, as {m.regex!r} is to be"
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return (
            f"the coordinator balances no groups, so no member of group {group} can leave that to it: set "
            "group.coordinator.rebalance.protocols=classic,consumer there, or take the group protocol classic here "
            '(group_protocol="classic", or muster consume --group-protocol classic)'
        )
    if code == ErrorCode.UNSUPPORTED_ASSIGNOR:
        return f"cannot join group {group}: the coordinator has no server_assignor {m.settings.server_assignor!r}"
    return f"cannot stay in group {group}: {code.name}"


# -------------------------------------------------------------------------------------------------------------- leaving


def leave_quietly(m: ServerDrivenState) -> bool:
    """Send a last heartbeat, without retries, if the member is in the group. Return true if one was sent. A static
    member leaves temporarily: its instance may return within its session."""
    m.stop_asking(ConsumerGroupHeartbeat)
    if m.generation_id == NO_GENERATION or m.coordinator is None:
        return False
    _send_leave(m)
    return True


def _send_leave(m: ServerDrivenState) -> None:
    epoch, instance_id = LEAVING_FOR_NOW if m.is_static else LEAVING, m.settings.group_instance_id
    heartbeat = ConsumerGroupHeartbeat(m.settings.group_id, m.member_id, epoch, instance_id=instance_id)
    m.call(heartbeat, timeout_ms=LEAVE_TIMEOUT_MS)


def on_leave_reply(m: ServerDrivenState, _event: ConsumerHeartbeatAnswered) -> None:
    """End the member, whatever the reply: after an error the coordinator removes it at its session timeout."""
    finish(m)


# -------------------------------------------------------------------------------------------------------- notifications


def hurry(m: ServerDrivenState, event: AssignmentChanged | MemberRemoved) -> None:
    """Send a heartbeat at once after a notification; its reply decides."""
    if event.group_id == m.settings.group_id and m.generation_id != NO_GENERATION:
        m.is_urgent = True


def hurry_once_joined(m: ServerDrivenState, event: AssignmentChanged) -> None:
    """Send a heartbeat as soon as the join is answered: the notification may come before the reply, which waits for the
    coordinator's disk."""
    if event.group_id == m.settings.group_id:
        m.is_urgent = True
