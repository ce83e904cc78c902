"""From outside the group to a steady member and out again: the actions of polls, joins, syncs and leaves.

Rebalances are eager: a member lets go of everything, joins, and is given its new share whole. The rules are those of
consumer-client A4, A5 and A7.
"""

from muster.answers import JoinAnswered, LeaveAnswered, MetadataAnswered, SyncAnswered
from muster.assignors import Subscriber, by_name
from muster.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from muster.events import Assigned, Closed, Closing, Polled, Released, Revoked, Subscribed
from muster.member import COORDINATOR_GONE, Member, State, Timer
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.groups import (
    NO_GENERATION,
    Heartbeat,
    JoinGroup,
    JoinGroupMember,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic

JOIN_GRACE_MS = 5_000
"""How much longer than the rebalance timeout a JoinGroup may take (group-protocol 2.12)."""
MISSING_TOPIC_REFRESH_MS = 1_000
"""How soon a leader looks again for a topic that was not there."""
LEAVE_TIMEOUT_MS = 5_000
_REASON_CHARACTERS = 255

# ------------------------------------------------------------------------------------------- the application's polls


def start(m: Member, _event: Polled) -> None:
    if m.fenced:
        m.fail(ErrorCode.FENCED_INSTANCE_ID, _fenced(m))
        return
    m.arm(Timer.POLL, m.settings.max_poll_interval_ms)
    if m.held:
        m.state = State.RELEASING
        m.lose()
    elif m.topics:
        m.join_again(m.rejoin)


def rejoin_if_needed(m: Member, event: Polled) -> None:
    note_poll(m, event)
    if not m.rejoin and m.joined_topics != m.topics:
        m.rejoin = "the subscription changed"
    if m.rejoin and m.coordinator is not None:
        m.state = State.RELEASING
        m.effects.append(Revoked(m.held))


def note_poll(m: Member, _event: Polled) -> None:
    m.arm(Timer.POLL, m.settings.max_poll_interval_ms)


def let_go(m: Member, _event: Released) -> None:
    """Something ended this member's stay meanwhile: the next poll joins."""
    m.held = ()


def join_when_released(m: Member, _event: Released) -> None:
    m.held = ()
    if m.topics:
        m.join_again(m.rejoin)
    else:
        leave_quietly(m)
        m.reset("joining for the first time", forget_id=True)
        m.unjoin()


def subscribe(m: Member, event: Subscribed) -> None:
    m.topics = tuple(sorted(set(event.topics)))


# ------------------------------------------------------------------------------------------------------------- joining


def send_join(m: Member) -> None:
    settings = m.settings
    metadata = encode_subscription(Subscription(m.topics))
    m.joined_topics = m.topics
    m.call(
        JoinGroup(
            settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            member_id=m.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple(JoinProtocol(name, metadata) for name in settings.assignors),
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            group_instance_id=settings.group_instance_id,
            reason=m.rejoin[:_REASON_CHARACTERS],
        ),
        timeout_ms=max(settings.request_timeout_ms, settings.max_poll_interval_ms + JOIN_GRACE_MS),
    )


def hear_join(m: Member, event: JoinAnswered) -> None:
    code = event.error_code
    if code == ErrorCode.NONE and event.reply is not None:
        reply = event.reply
        m.member_id = reply.member_id
        m.generation_id = reply.generation_id
        m.protocol_name = reply.protocol_name or ""
        m.is_leader = reply.leader == reply.member_id
        m.roster = reply.members
        m.plan = None if m.is_leader and not reply.skip_assignment else ()
        m.watched = None
        m.join_failures = 0
        m.state = State.SYNCING
        m.stop_asking(Metadata)  # one still under way would bring the old roster's topics
        note_heard(m)
        m.arm(Timer.HEARTBEAT, m.settings.heartbeat_interval_ms)
        m.arm(Timer.POLL, m.settings.max_poll_interval_ms)
        if m.protocol_name not in m.settings.assignors:
            m.fail(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {m.settings.group_id} chose {m.protocol_name!r}, this member offered "
                f"{', '.join(m.settings.assignors)}",
            )
        return
    if code == ErrorCode.MEMBER_ID_REQUIRED and event.reply is not None and event.reply.member_id:
        m.generation_id = NO_GENERATION
        m.member_id = event.reply.member_id
        m.join_again(m.rejoin)
    elif code == ErrorCode.UNKNOWN_MEMBER_ID:
        if m.is_current(event.sent):
            m.reset("the coordinator does not know this member", forget_id=True)
        _join_soon(m)
    elif code == ErrorCode.REBALANCE_IN_PROGRESS:
        _join_soon(m)
    elif code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        _join_later(m)
    elif code in COORDINATOR_GONE:
        m.forget_coordinator()
        _join_later(m)
    else:
        m.fail(code, event.reason or _fatal(m, code, "join"))


def _join_soon(m: Member) -> None:
    """At once the first time, with growing pauses if the coordinator goes on answering so."""
    m.join_again(m.rejoin, m.backoff_ms(m.join_failures - 1) if m.join_failures else 0)
    m.join_failures += 1


def _join_later(m: Member) -> None:
    m.join_again(m.rejoin, m.backoff_ms(m.join_failures))
    m.join_failures += 1


# --------------------------------------------------------------------------------------------- the leader's assignment


def ask_metadata(m: Member) -> None:
    topics = tuple(MetadataTopic(name) for name in _topics_of(m.roster))
    m.call(Metadata(topics), timeout_ms=m.settings.request_timeout_ms, anywhere=True)


def assign(m: Member, event: MetadataAnswered) -> None:
    """The leader shares out; members the assignor leaves out get nothing."""
    if not m.is_leader or m.plan is not None:
        return
    if event.reply is None:
        m.arm(Timer.RETRY, m.backoff_ms(m.join_failures))
        m.join_failures += 1
        return
    m.watched = _partition_counts(event.reply)
    subscribers = [
        Subscriber(
            one.member_id,
            said.topics,
            one.group_instance_id,
            owned=said.owned,
            generation_id=said.generation_id,
            user_data=said.user_data,
        )
        for one, said in ((one, _said_by(one)) for one in m.roster)
    ]
    shares = by_name(m.protocol_name).assign(m.watched, subscribers)
    m.plan = tuple(
        SyncGroupAssignment(one.member_id, encode_assignment(Assignment(tuple(shares.get(one.member_id, ())))))
        for one in m.roster
    )


def watch(m: Member, event: MetadataAnswered) -> None:
    """A leader rejoins when what it shared out is no longer what there is (A7, R3). Followers do not watch."""
    if not m.is_leader:
        return
    if event.reply is not None:
        counts = _partition_counts(event.reply)
        if m.watched is not None and counts != m.watched and not m.rejoin:
            m.rejoin = "the partitions of its topics changed"
        m.watched = counts
    arm_refresh(m)


def arm_refresh(m: Member) -> None:
    """Soon where a topic is missing, or where nothing was looked at yet; otherwise by the metadata's age."""
    if m.is_leader and m.roster:
        complete = m.watched is not None and all(topic in m.watched for topic in _topics_of(m.roster))
        m.arm(Timer.REFRESH, m.settings.metadata_max_age_ms if complete else MISSING_TOPIC_REFRESH_MS)


def _said_by(one: JoinGroupMember) -> Subscription:
    try:
        return decode_subscription(one.metadata)
    except ProtocolViolation:
        return Subscription(())  # it gets nothing; the others are not made to suffer for it


def _topics_of(roster: tuple[JoinGroupMember, ...]) -> list[str]:
    return sorted({topic for one in roster for topic in _said_by(one).topics})


def _partition_counts(reply: MetadataReply) -> dict[str, int]:
    return {topic.name: len(topic.partitions) for topic in reply.topics if topic.name and topic.partitions}


# ------------------------------------------------------------------------------------------------------------- syncing


def send_sync(m: Member) -> None:
    assert m.plan is not None
    m.call(
        SyncGroup(
            m.settings.group_id,
            m.generation_id,
            m.member_id,
            m.settings.group_instance_id,
            PROTOCOL_TYPE,
            m.protocol_name,
            m.plan,
        ),
        timeout_ms=max(m.settings.request_timeout_ms, m.settings.max_poll_interval_ms + JOIN_GRACE_MS),
    )


def hear_sync(m: Member, event: SyncAnswered) -> None:
    code = event.error_code
    if code == ErrorCode.NONE and event.reply is not None:
        named = event.reply.protocol_name
        if named is not None and named != m.protocol_name:
            reason = f"joined with {m.protocol_name!r}, the assignment is of {named!r}"
            m.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, reason)
            return
        try:
            _take_over(m, decode_assignment(event.reply.assignment))
        except ProtocolViolation as malformed:
            reason = f"the leader's assignment cannot be read: {malformed}"
            m.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, reason)
    elif code == ErrorCode.REBALANCE_IN_PROGRESS:
        m.join_again("the group began to rebalance before the assignment came")
    elif code in {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}:
        if m.is_current(event.sent):
            m.reset(f"SyncGroup was answered {code.name}", forget_id=code == ErrorCode.UNKNOWN_MEMBER_ID)
        m.join_again(m.rejoin)
    elif code in COORDINATOR_GONE:
        m.forget_coordinator()
        # Counted by itself: the join before it was answered well, and so would the next be, again and again.
        m.join_again(m.rejoin, m.backoff_ms(m.sync_failures))
        m.sync_failures += 1
    else:
        m.fail(code, event.reason or _fatal(m, code, "sync with"))


def _take_over(m: Member, assignment: Assignment) -> None:
    m.state = State.STEADY
    m.plan = None
    m.join_failures = m.sync_failures = 0
    note_heard(m)
    if any(one.topic not in m.topics for one in assignment.partitions):
        m.rejoin = "the assignment has topics no longer subscribed to"  # A7, R7: the application never sees it
        return
    m.rejoin = ""
    m.held = assignment.partitions
    m.effects.append(Assigned(m.held, m.generation_id))
    arm_refresh(m)


def note_heard(m: Member) -> None:
    """The session runs from the last good word of the coordinator."""
    m.heartbeat_failures = 0
    m.arm(Timer.SESSION, m.settings.session_timeout_ms)


# ------------------------------------------------------------------------------------------------------------- leaving


def close(m: Member, _event: Closing) -> None:
    """consumer-client A10: let go, leave, done. A static member does not leave: its place is kept for its return."""
    lost = m.generation_id == NO_GENERATION or m.state is State.UNJOINED
    m.stop_asking(JoinGroup, SyncGroup, Metadata, Heartbeat)
    m.timers.clear()
    m.state = State.LEAVING
    if not m.held:
        depart(m)
    elif lost:
        m.lose()
    else:
        m.effects.append(Revoked(m.held))


def close_when_released(m: Member, _event: Closing) -> None:
    """The application is already letting go; leaving follows."""
    m.stop_asking(Heartbeat)
    m.timers.clear()
    m.state = State.LEAVING


def depart(m: Member, _event: Released | None = None) -> None:
    m.held = ()
    if not leave_quietly(m):
        finish(m)


def leave_quietly(m: Member) -> bool:
    """One LeaveGroup, never repeated, if there is anything to leave; whether one was sent."""
    if m.is_static or not m.member_id or m.coordinator is None:
        return False
    leaving = LeavingMember(m.member_id, reason=m.rejoin[:_REASON_CHARACTERS] or "the member is closing")
    m.call(LeaveGroup(m.settings.group_id, (leaving,)), timeout_ms=LEAVE_TIMEOUT_MS)
    return True


def hear_leave(m: Member, _event: LeaveAnswered) -> None:
    """Left or not, this member is gone: the session timeout does the rest."""
    finish(m)


def finish(m: Member) -> None:
    for errand in tuple(m.errands.values()):
        errand.end(m, errand.error_code)
    m.closed = True
    m.calls.clear()
    m.timers.clear()
    m.effects.append(Closed())


def _fatal(m: Member, code: ErrorCode, verb: str) -> str:
    if code == ErrorCode.FENCED_INSTANCE_ID:
        return _fenced(m)
    return f"cannot {verb} group {m.settings.group_id}: {code.name}"


def _fenced(m: Member) -> str:
    return (
        f"another member has taken over instance id {m.settings.group_instance_id!r} of group {m.settings.group_id}; "
        "close this one, or give each its own group_instance_id"
    )
