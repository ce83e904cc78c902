"""Joining and keeping the membership: start, heartbeats, reports, the lease (docs/spec/client-balanced-groups.md#5.1,
#11, #13)."""

from collections.abc import Iterable

from membership.events import Pushed
from muster.core.balancing import assigned, coordinator, lease, registering
from muster.core.balancing.events import StartAsked
from muster.core.balancing.member import (
    BalancedMemberState,
    BalancedTimer,
    CoordinatorAnswer,
    PartitionUse,
    Phase,
    Starting,
    backoff_ms,
)
from muster.core.balancing.results import Code, Result, failure, success
from muster.core.balancing.targets import check_mode, check_node, checked_targets
from protocol.messages.balanced import (
    NO_ASSIGNMENT,
    SOURCE_COUNT_OFF,
    HeldKey,
    LostKey,
    MemberHeartbeat,
    MemberHeartbeatReply,
    OwnedKey,
    PartitionsChanged,
    PartitionsLost,
    ReleasedKey,
    StartMember,
    StartMemberReply,
)

_FINAL = frozenset(
    {
        Code.BAD_REQUEST,
        Code.CERTIFICATE,
        Code.INCONSISTENT_MODE,
        Code.INCONSISTENT_TOPICS,
        Code.INCONSISTENT_FILTERS,
        Code.INCONSISTENT_SOURCE_COUNT,
        Code.TOPIC_NOT_DEPLOYED,
        Code.GROUP_FORBIDDEN,
        Code.CONTENT_FORBIDDEN,
        Code.REPLACED_MEMBER,
    }
)
"""Codes after which another start would fail too."""
_REFUSED = _FINAL | {Code.DUPLICATE_NODE_ID}
"""Codes after which a member that joins again has lost its partitions."""

# --------------------------------------------------------------------------------------------------------------- start


def start(m: BalancedMemberState, event: StartAsked) -> None:
    refusal = _refusal(m, event)
    if refusal is not None:
        m.end(event.operation, refusal)
        return
    m.targets = checked_targets(event.targets)
    is_counted = event.source_count > 0
    m.source_count, m.node_id = (event.source_count, event.node_id) if is_counted else (None, None)
    m.phase, m.starting = Phase.STARTING, Starting(event.operation)
    m.lookup_trouble = None


def _refusal(m: BalancedMemberState, event: StartAsked) -> Result | None:
    """Return the refusal of a start (docs/spec/client-balanced-groups.md#5.1, steps 1 to 5)."""
    try:
        checked_targets(event.targets)
        check_node(event.source_count, event.node_id)
        check_mode(m.config.mode, event.source_count)
    except ValueError as error:
        return failure(Code.BAD_REQUEST, str(error))
    match m.phase:
        case Phase.NOT_STARTED:
            return None
        case Phase.STARTING:
            return failure(Code.BAD_REQUEST, "this consumer is starting already")
        case Phase.STARTED:
            return failure(Code.BAD_REQUEST, "this consumer is running: shut it down first")
        case Phase.STOPPING:
            return failure(Code.BAD_REQUEST, "this consumer is closing")
        case Phase.ENDED:
            return failure(Code.CLIENT_SHUTDOWN, "this consumer was shut down: make another one")


def settle(m: BalancedMemberState) -> None:
    """Join if necessary, and send a heartbeat if one is due."""
    trouble, m.lookup_trouble = m.lookup_trouble, None
    if trouble is not None and m.starting is not None:
        _try_again(m, *trouble)
    if m.coordinator is None or m.is_replaced or m.phase not in {Phase.STARTING, Phase.STARTED}:
        return
    if not m.is_joined:
        if BalancedTimer.RETRY not in m.timers and not m.channel.is_asking(StartMember):
            _send_start(m)
    elif BalancedTimer.HEARTBEAT not in m.timers and not m.channel.is_asking(MemberHeartbeat):
        _send_heartbeat(m)


def _send_start(m: BalancedMemberState) -> None:
    m.starts += 1
    message = StartMember(
        m.group_id,
        m.consumer_id,
        tuple(m.targets),
        {topic: filters for topic, filters in m.targets.items() if filters},
        m.config.instance_id,
        SOURCE_COUNT_OFF if m.source_count is None else m.source_count,
        -1 if m.node_id is None else m.node_id,
        m.config.consume_position,
        m.config.session_timeout_ms,
        tuple(HeldKey(key, held.reg_epoch, held.confirmed) for key, held in m.keys.items()),
        m.meta_version,
        m.starts,
        m.config.mode,
    )
    coordinator.send(m, message, _on_start, within_ms=_heartbeat_timeout_ms(m), node=m.coordinator)


def _on_start(m: BalancedMemberState, answer: CoordinatorAnswer) -> None:
    if m.phase not in {Phase.STARTING, Phase.STARTED}:
        return
    if isinstance(answer.reply, StartMemberReply) and not answer.code:
        _join(m, answer.sent_ms, answer.reply)
    elif m.starting is not None:
        _try_again(m, answer.code, answer.reason)
    elif answer.code in _REFUSED:
        _be_refused(m, answer)
    else:
        m.arm(BalancedTimer.RETRY, backoff_ms(m.join_failures))
        m.join_failures += 1


def _join(m: BalancedMemberState, sent_ms: int, reply: StartMemberReply) -> None:
    m.member_epoch, m.is_joined, m.refusal, m.join_failures = reply.member_epoch, True, None, 0
    m.session_timeout_ms = reply.session_timeout_ms if reply.session_timeout_ms > 0 else m.config.session_timeout_ms
    longest = m.session_timeout_ms // 3
    m.heartbeat_ms = min(reply.heartbeat_ms if reply.heartbeat_ms > 0 else m.config.heartbeat_interval_ms, longest)
    m.timers.pop(BalancedTimer.HEARTBEAT, None)  # so that the first one is sent at once
    m.reported_version, m.heartbeat_failures = None, 0
    m.assigned, m.assignment_id = frozenset(), NO_ASSIGNMENT
    m.released.clear()  # the coordinator's reply has all of this member's grants
    lease.renew(m, sent_ms)
    _keep_granted(m, reply)
    if m.starting is not None:
        m.end(m.starting.operation, success())
        m.starting, m.phase = None, Phase.STARTED


def _keep_granted(m: BalancedMemberState, reply: StartMemberReply) -> None:
    """Continue with the partitions that were granted again, under new epochs; batches that the application has stay
    valid."""
    granted = {one.key: one for one in reply.granted}
    lost = [key for key in m.keys if key not in granted]
    if lost:
        m.note("partitions lost", keys=sorted(lost), why="not granted again after rejoining")
    for key in lost:
        m.drop(key)
    for key, one in granted.items():
        held = m.keys.get(key)
        if held is None:
            continue
        held.reg_epoch = one.reg_epoch
        held.update_offsets(one.position if held.use is not PartitionUse.HANDED else -1, one.end, m.now_ms)


def _try_again(m: BalancedMemberState, code: int, reason: str) -> None:
    """Retry a start, or give up (docs/spec/client-balanced-groups.md#5.1, step 7)."""
    assert m.starting is not None
    m.starting.tries += 1
    if code in _FINAL or m.starting.tries >= m.config.start_tries:
        code = Code.INTERNAL if code == Code.EMPTY_REPLY else code
        m.end(m.starting.operation, failure(code, reason))
        m.starting, m.phase, m.source_count, m.node_id = None, Phase.NOT_STARTED, None, None
        m.targets = {}
        m.is_replaced, m.refusal = False, None
        m.timers.clear()
    else:
        m.arm(BalancedTimer.RETRY, m.config.retry_pause_ms)


def _be_refused(m: BalancedMemberState, answer: CoordinatorAnswer) -> None:
    m.refusal = m.refusal or failure(answer.code, answer.reason)
    m.drop_all(f"joining again was refused: {answer.reason}")
    m.lease_ends_ms = None
    coordinator.fail_wanted(m, m.refusal.code, m.refusal.msg)
    if not m.is_replaced:
        m.arm(BalancedTimer.RETRY, m.heartbeat_ms)


# ---------------------------------------------------------------------------------------------------------- heartbeats


def _send_heartbeat(m: BalancedMemberState) -> None:
    report = _report(m)
    version, released = m.owned_version, dict(m.released)
    message = MemberHeartbeat(
        m.group_id,
        m.consumer_id,
        m.member_epoch,
        version,
        report,
        tuple(released.values()),
        m.meta_version,
        m.carried_out,
        assigned.carried_out_id(m),
    )

    def then(m: BalancedMemberState, answer: CoordinatorAnswer) -> None:
        if isinstance(answer.reply, MemberHeartbeatReply) and not answer.code:
            if report is not None:
                m.reported_version, m.beats_since_report = version, 0
            else:
                m.beats_since_report += 1
            _forget_released(m, released)
            _on_heartbeat(m, answer.sent_ms, answer.reply)
        else:
            _miss(m, answer)

    coordinator.send(m, message, then, within_ms=_heartbeat_timeout_ms(m), node=m.coordinator)


def _report(m: BalancedMemberState) -> tuple[OwnedKey, ...] | None:
    """Return the whole list of owned partitions if it has changed since the last acknowledged report, and periodically
    (docs/spec/client-balanced-groups.md#13.1)."""
    is_new = m.reported_version != m.owned_version and (m.reported_version is not None or bool(m.keys))
    if not is_new and m.beats_since_report + 1 < m.config.full_report_every:
        return None
    return tuple(OwnedKey(key, held.reg_epoch, held.curr) for key, held in sorted(m.keys.items()))


def _forget_released(m: BalancedMemberState, said: dict[str, ReleasedKey]) -> None:
    for key, one in said.items():
        if m.released.get(key) is one:
            del m.released[key]


def _on_heartbeat(m: BalancedMemberState, sent_ms: int, reply: MemberHeartbeatReply) -> None:
    m.heartbeat_failures = 0
    m.timers[BalancedTimer.HEARTBEAT] = max(sent_ms + m.heartbeat_ms, m.now_ms)
    lease.renew(m, sent_ms)
    _lose(m, reply.lost)
    if reply.meta is not None:
        registering.learn(m, reply.meta_version, reply.meta)
    if reply.assignment is not None:
        assigned.follow(m, reply.assignment_id, reply.assignment)
    registering.look_at_doubts(m)
    if reply.from_max_id > m.carried_out:
        m.carried_out = reply.from_max_id
        for held in tuple(m.keys.values()):
            held.jumps = True
            registering.jump_if_wanted(m, held)


def on_push(m: BalancedMemberState, event: Pushed) -> None:
    """Send a heartbeat at once, whose reply has the news of the group."""
    if isinstance(event.message, PartitionsLost | PartitionsChanged) and event.message.group_id == m.group_id:
        m.timers.pop(BalancedTimer.HEARTBEAT, None)


def _miss(m: BalancedMemberState, answer: CoordinatorAnswer) -> None:
    if m.is_replaced:
        return
    if answer.code == Code.CERTIFICATE:
        m.drop_all(answer.reason)
        m.arm(BalancedTimer.HEARTBEAT, backoff_ms(m.heartbeat_failures))
    m.heartbeat_failures += 1


def _lose(m: BalancedMemberState, lost: Iterable[LostKey]) -> None:
    for one in lost:
        if one.key in m.keys:
            m.note("partition lost", key=one.key, why=one.error_code.name)
            m.drop(one.key)


def _heartbeat_timeout_ms(m: BalancedMemberState) -> int:
    """Return the timeout of a heartbeat, short enough that a lost one does not end the lease."""
    return min(m.config.request_timeout_ms, max((m.session_timeout_ms or m.config.session_timeout_ms) // 6, 1))
