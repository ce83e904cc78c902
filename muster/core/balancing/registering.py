"""The configured partitions, and their registration (docs/spec/client-balanced-groups.md#5.2 to #5.4, #13.3)."""

from collections.abc import Iterable
from functools import partial

from muster.core.balancing import coordinator, lease
from muster.core.balancing.events import ConnectAsked, DisconnectAsked, MetaAsked
from muster.core.balancing.keys import parsed
from muster.core.balancing.member import IN_USE, BalancedMemberState, BalancedTimer, CoordinatorAnswer, Held, Leaving
from muster.core.balancing.results import Code, OffsetInfo, code_of, failure, success
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    FROM_STORED,
    DescribeBalanced,
    DescribeBalancedReply,
    PartitionMeta,
    PartitionMetaReply,
    PartitionState,
    RegisteredPartition,
    RegisterItem,
    RegisterPartitions,
    RegisterPartitionsReply,
    ReleasedKey,
    UnregisterPartitions,
    UnregisterPartitionsReply,
)

_NOT_OURS = frozenset({Code.PARTITION_OCCUPIED, Code.NO_NODE, Code.DUPLICATE_PARTITION, Code.CERTIFICATE})
_TRY_LATER = frozenset({Code.PARTITION_OCCUPIED, Code.CERTIFICATE})
"""Codes after which the next attempt waits for a pause."""
_ASSIGNED = "the coordinator assigns the partitions of this group (mode 'server'): it connects them by itself"

# ---------------------------------------------------------------------------------------------------- configuration


def ask_meta(m: BalancedMemberState, event: MetaAsked) -> None:
    operation = event.operation
    if m.refused is not None:
        m.end(operation, m.refused)
    elif m.meta_waiters and not m.has_meta:
        m.meta_waiters.append(operation)
    elif m.meta_waiters or _is_fresh(m):
        m.end(operation, success(dict(m.meta)))
    else:
        m.meta_waiters.append(operation)
        coordinator.ask(m, lambda: PartitionMeta(m.group_id, m.consumer_id, m.member_epoch, m.meta_version), _on_meta)


def _is_fresh(m: BalancedMemberState) -> bool:
    return m.meta_heard_ms is not None and m.now_ms - m.meta_heard_ms < m.config.meta_period_ms


def _on_meta(m: BalancedMemberState, answer: CoordinatorAnswer) -> None:
    waiters, m.meta_waiters = m.meta_waiters, []
    if isinstance(answer.reply, PartitionMetaReply) and not answer.code:
        lease.renew(m, answer.sent_ms)
        if answer.reply.meta is not None:
            learn(m, answer.reply.meta_version, answer.reply.meta)
        m.has_meta, m.meta_heard_ms = True, m.now_ms
        result = success(dict(m.meta))
    else:
        code = Code.INTERNAL if answer.is_unanswered else answer.code
        result = m.refusal or failure(code, answer.reason)
    for operation in waiters:
        m.end(operation, result)


def learn(m: BalancedMemberState, version: int, states: Iterable[PartitionState]) -> None:
    """Release owned partitions that can no longer be read (docs/spec/client-balanced-groups.md#5.2)."""
    m.meta_version = version
    m.meta = {one.key: one.subscribable for one in states}
    m.reasons = {one.key: one.reason for one in states if one.reason}
    for key in tuple(m.keys):
        if not m.meta.get(key) and key not in m.leaving:
            why = m.reasons.get(key, "it is not configured any more" if key not in m.meta else "")
            m.note("partition given up", key=key, why=why)
            m.do(key, partial(give_back, m, key, None))


# --------------------------------------------------------------------------------------------------------- connecting


def connect(m: BalancedMemberState, event: ConnectAsked) -> None:
    if m.is_server_balanced:
        m.end(event.operation, failure(Code.INCONSISTENT_MODE, _ASSIGNED))
        return
    try:
        parsed(event.key)
    except ValueError as error:
        m.end(event.operation, failure(Code.BAD_REQUEST, str(error)))
        return
    m.do(event.key, partial(_connect, m, event))


def _connect(m: BalancedMemberState, event: ConnectAsked) -> None:
    """Connect a partition (docs/spec/client-balanced-groups.md#5.3, steps 2 to 6)."""
    key = event.key
    refused_ms = m.refused_ms.get(key)
    if m.refused is not None:
        result = m.refused
    elif key in m.keys:
        result = success(m.offsets()[key])
    elif not m.has_meta or key not in m.meta:
        result = failure(
            Code.NOT_FOUND,
            f"{key} is not in partition_meta; call that first",
        )
    elif not m.meta[key]:
        result = failure(
            Code.UNSUBSCRIBABLE, f"{key} cannot be subscribed to: {m.reasons.get(key, 'its broker is away')}"
        )
    elif refused_ms is not None and m.now_ms - refused_ms < m.config.refused_pause_ms:
        result = failure(Code.HIGH_FREQUENCY, f"{key} was refused {m.now_ms - refused_ms} ms ago: ask again later")
    else:
        _register(m, event, 1)
        return
    m.end(event.operation, result)
    m.done(key)


def _register(m: BalancedMemberState, event: ConnectAsked, tries: int) -> None:
    ask_for(m, event.key, event.offset, partial(_registered, event, tries))


def _registered(
    event: ConnectAsked, tries: int, m: BalancedMemberState, code: int, reason: str, item: RegisteredPartition
) -> None:
    key = event.key
    if code == Code.EMPTY_REPLY:
        m.doubtful[key] = m.now_ms
    if not code:
        held = m.own(key, item.reg_epoch, item.position, item.end)
        m.refused_ms.pop(key, None)
        m.end(event.operation, success(OffsetInfo(held.curr, held.max, held.updated_ms)))
    elif code in coordinator.RETRIABLE and tries < m.config.connect_tries and m.refused is None:
        m.after(m.config.retry_pause_ms, partial(_register, m, event, tries + 1))
        return
    else:
        if code in _TRY_LATER:
            m.drop(key)
            m.refused_ms[key] = m.now_ms
        m.end(event.operation, m.refused or failure(Code.INTERNAL if code == Code.EMPTY_REPLY else code, reason))
    m.done(key)


def ask_for(m: BalancedMemberState, key: str, offset: int, then: "partial[None]") -> None:
    """Register a key; `then` is called with the member, the code, the reason, and the coordinator's data about the
    key."""

    def make() -> RegisterPartitions:
        item = RegisterItem(key, max(offset, FROM_STORED), is_first=key not in m.granted_once)
        return RegisterPartitions(m.group_id, m.consumer_id, m.member_epoch, (item,))

    def on_reply(m: BalancedMemberState, answer: CoordinatorAnswer) -> None:
        item = RegisteredPartition(key)
        code, reason = answer.code, answer.reason
        if isinstance(answer.reply, RegisterPartitionsReply) and not code:
            said = next((one for one in answer.reply.items if one.key == key), None)
            if said is None:
                code, reason = Code.EMPTY_REPLY, f"the reply lacks {key}"
            else:
                item, code = said, 0 if said.error_code == ErrorCode.NONE else code_of(said.error_code)
                reason = said.error_message or said.error_code.name
        then(m, code, reason, item)

    coordinator.ask(m, make, on_reply)


def look_at_doubts(m: BalancedMemberState) -> None:
    """Release partitions whose grants this member did not learn of, since no member would read them. A request may
    arrive late, so this is checked for the length of a session."""
    if m.doubtful and not m.channel.is_asking(DescribeBalanced):
        coordinator.ask(m, lambda: DescribeBalanced((m.group_id,), with_lag=False), _on_description)


def _on_description(m: BalancedMemberState, answer: CoordinatorAnswer) -> None:
    if answer.code or not isinstance(answer.reply, DescribeBalancedReply):
        return
    for one in (one for group in answer.reply.groups for one in group.partitions):
        if one.owner == m.consumer_id and one.key not in m.keys and one.key not in m.busy:
            m.released[one.key] = ReleasedKey(one.key, one.reg_epoch)
            m.timers.pop(BalancedTimer.HEARTBEAT, None)
    m.doubtful = {key: since for key, since in m.doubtful.items() if m.now_ms - since < m.session_timeout_ms}


# ------------------------------------------------------------------------------------------------------- disconnecting


def disconnect(m: BalancedMemberState, event: DisconnectAsked) -> None:
    """Disconnect a partition (docs/spec/client-balanced-groups.md#5.4)."""
    if m.is_server_balanced:
        m.end(event.operation, failure(Code.INCONSISTENT_MODE, _ASSIGNED))
    elif not event.key.strip():
        m.end(event.operation, failure(Code.BAD_REQUEST, "a partition key is wanted"))
    elif not m.is_running:
        m.end(event.operation, failure(Code.CLIENT_SHUTDOWN, m.not_running))
    else:
        m.do(event.key, partial(give_back, m, event.key, event.operation))


def give_back(m: BalancedMemberState, key: str, operation: int | None) -> None:
    held = m.keys.get(key)
    if held is None:
        _end_giving_back(m, key, operation)
    elif held.use in IN_USE:
        m.leaving[key] = Leaving(m.now_ms + m.config.confirm_wait_ms, operation)
    else:
        _unregister(m, held, held.last_consumed, operation)


def _end_giving_back(m: BalancedMemberState, key: str, operation: int | None, trouble: str = "") -> None:
    if operation is not None:
        m.end(operation, success(msg=trouble))
    m.done(key)


def _unregister(m: BalancedMemberState, held: Held, consumed: bool, operation: int | None) -> None:
    """Unregister a key, which is removed from the registered ones whatever the reply."""
    key, item = held.key, ReleasedKey(held.key, held.reg_epoch, consumed, held.done_to)
    m.drop(key)

    def on_reply(m: BalancedMemberState, answer: CoordinatorAnswer) -> None:
        trouble = ""
        if answer.code and answer.code != Code.NO_NODE:
            trouble = answer.reason
        elif isinstance(answer.reply, UnregisterPartitionsReply):
            code = next((one.error_code for one in answer.reply.items if one.key == key), ErrorCode.NONE)
            trouble = code.name if code != ErrorCode.NONE and code_of(code) not in _NOT_OURS else ""
            if code == ErrorCode.DUPLICATE_PARTITION:
                m.doubtful[key] = m.now_ms  # another member's, or this one's by a grant that it did not learn of
        if trouble and m.is_running:
            m.released[key] = item
        _end_giving_back(m, key, operation, trouble)

    coordinator.ask(m, lambda: UnregisterPartitions(m.group_id, m.consumer_id, m.member_epoch, (item,)), on_reply)


def go_on(m: BalancedMemberState, held: Held) -> None:
    """Let an owned partition be taken again, and run the action that waited for that."""
    leaving = m.leaving.pop(held.key, None) if m.is_current(held) else None
    if leaving is not None:
        _unregister(m, held, held.last_consumed, leaving.operation)
    else:
        jump_if_wanted(m, held)


def pass_time(m: BalancedMemberState) -> None:
    """End disconnects whose batches were not confirmed in time."""
    for key, leaving in tuple(m.leaving.items()):
        if m.is_past(leaving.deadline_ms):
            del m.leaving[key]
            _unregister(m, m.keys[key], not m.config.rolls_back_unconfirmed, leaving.operation)


# ---------------------------------------------------------------------------------------------------- seeking to end


def jump_if_wanted(m: BalancedMemberState, held: Held) -> None:
    """Register a partition again at its end, if an operator has ordered that
    (docs/spec/client-balanced-groups.md#13.3)."""
    if held.jumps and m.is_current(held) and held.use not in IN_USE and held.key not in m.busy:
        m.do(held.key, partial(_jump, m, held))


def _jump(m: BalancedMemberState, held: Held) -> None:
    held.jumps = False
    ask_for(m, held.key, held.max, partial(_jumped, held))


def _jumped(held: Held, m: BalancedMemberState, code: int, reason: str, item: RegisteredPartition) -> None:
    if not code and m.is_current(held):
        held.reg_epoch, held.last_consumed, held.confirmed = item.reg_epoch, True, item.position
        held.update_offsets(item.position, item.end, m.now_ms)
    elif code in _NOT_OURS:
        m.note("partition lost", key=held.key, why=reason)
        m.drop(held.key)
    elif code:
        held.jumps = True
        m.after(m.config.retry_pause_ms, partial(jump_if_wanted, m, held))
    m.done(held.key)
