"""Returning records, one batch of a partition at a time, and confirming them (docs/spec/client-balanced-groups.md#5.5
to #5.7)."""

from functools import partial

from muster.core.balancing import coordinator, registering
from muster.core.balancing.events import ConfirmAsked, Fetched, GaveUp, Handed, MessageAsked, PassedOver, ReadyAsked
from muster.core.balancing.keys import parse_context
from muster.core.balancing.member import (
    IN_USE,
    BalancedMemberState,
    BalancedTimer,
    CoordinatorAnswer,
    Held,
    PartitionUse,
    Waiter,
)
from muster.core.balancing.results import Code, Confirm, Result, code_of, failure, success
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    ConfirmConsumed,
    ConfirmConsumedReply,
    ConfirmedPartition,
    ConfirmItem,
    FetchedPartition,
    FetchItem,
    FetchRegistered,
    FetchRegisteredReply,
)

_OTHER_PAUSE_MS = 300
_PAUSES_MS = {Code.FORBIDDEN: 2_000, Code.MOVED: 200, Code.UNAVAILABLE: 300}
_GONE = frozenset({Code.NO_NODE, Code.DUPLICATE_PARTITION, Code.CERTIFICATE})
"""Codes that mean that this member does not own the partition, and must connect it again."""

# --------------------------------------------------------------------------------------------------------- being ready


def wait_until_ready(m: BalancedMemberState, event: ReadyAsked) -> None:
    m.expectant.append(Waiter(event.operation, m.now_ms + max(event.max_wait_ms, 0)))


def settle_ready(m: BalancedMemberState) -> None:
    """Complete waits for a registered partition (docs/spec/client-balanced-groups.md#5.5)."""
    waiting: list[Waiter] = []
    for one in m.expectant:
        if m.keys and m.is_running:
            m.end(one.operation, success())
        elif not m.is_running or m.is_past(one.deadline_ms):
            m.end(one.operation, failure(*_why_nothing(m)))
        else:
            waiting.append(one)
    m.expectant = waiting


# ------------------------------------------------------------------------------------------------------------ fetching


def ask_for_batch(m: BalancedMemberState, event: MessageAsked) -> None:
    if m.refused is not None:
        m.end(event.operation, m.refused)
        return
    deadline_ms = event.deadline_ms
    if not event.is_rest and m.config.ready_wait_ms >= 0:
        deadline_ms = m.now_ms + (m.config.ready_wait_ms or m.config.ready_check_slice_ms)
    if event.is_rest and m.is_past(deadline_ms) and m.keys:
        m.end(event.operation, failure(Code.NOT_FOUND, "nothing of what was read is for this consumer"))
    else:
        m.readers.append(Waiter(event.operation, deadline_ms))


def settle(m: BalancedMemberState) -> None:
    """Give the first waiter the first partition that can be taken; end waits that have timed out, with the reason."""
    m.wake_rested()
    while m.readers and m.is_joined and (held := m.takeable()) is not None:
        _fetch(m, m.readers.popleft(), held)
    while m.readers and m.refused is not None:
        m.end(m.readers.popleft().operation, m.refused)
    overdue = [one for one in m.readers if m.is_past(one.deadline_ms)]
    for one in overdue:
        m.readers.remove(one)
        m.end(one.operation, failure(*_why_nothing(m)))


def _why_nothing(m: BalancedMemberState) -> tuple[int, str]:
    """Return code and reason why there is no batch (docs/spec/client-balanced-groups.md#5.6, step 2)."""
    if not m.is_running:
        return Code.CLIENT_SHUTDOWN, m.not_running
    if not m.keys:
        return Code.NONE_REGISTERED, "no partition is registered"
    if not m.is_joined or all(key in m.busy for key in m.keys):
        return Code.ALL_FROZEN, "all partitions are paused: they are being registered again or released"
    if all(held.use in IN_USE for held in m.keys.values()):
        return Code.ALL_IN_USE, "all partitions are in use: confirm what was handed out"
    return Code.ALL_WAITING, "all partitions that are not in use rest after their last fetch"


def _fetch(m: BalancedMemberState, reader: Waiter, held: Held) -> None:
    m.idle.remove(held)
    m.tokens[held.key] = held.token = m.tokens.get(held.key, 0) + 1
    held.use, held.reader, held.taken_ms = PartitionUse.FETCHING, reader.operation, m.now_ms
    others_rest = any(one.use not in IN_USE for one in m.keys.values())
    wait_ms = 0 if others_rest else m.config.fetch_wait_ms

    def make() -> FetchRegistered:
        held.asked_epoch = held.reg_epoch
        done_to = held.confirmed if held.last_consumed else -1
        asked = FetchItem(held.key, held.reg_epoch, held.last_consumed, m.config.fetch_max_bytes, done_to)
        return FetchRegistered(m.group_id, m.consumer_id, m.member_epoch, (asked,), wait_ms)

    coordinator.ask(m, make, partial(_on_fetch, reader, held), extra_ms=wait_ms)


def _on_fetch(reader: Waiter, held: Held, m: BalancedMemberState, answer: CoordinatorAnswer) -> None:
    if not m.is_current(held) or held.reg_epoch != held.asked_epoch or answer.code == Code.NO_NODE:
        _fetch_elsewhere(m, reader, held)
    elif answer.code:
        if answer.is_unanswered:
            held.last_consumed = False
        _free(m, held, 0 if answer.is_unanswered else _OTHER_PAUSE_MS)
        m.end(
            reader.operation,
            m.refused or failure(Code.INTERNAL if answer.is_unanswered else answer.code, answer.reason),
        )
    else:
        assert isinstance(answer.reply, FetchRegisteredReply)
        said = next((one for one in answer.reply.items if one.key == held.key), None)
        _on_fetched_partition(m, reader, held, said or FetchedPartition(held.key, ErrorCode.UNKNOWN_SERVER_ERROR))


def _fetch_elsewhere(m: BalancedMemberState, reader: Waiter, held: Held) -> None:
    """Continue after a fetch whose partition was lost or granted again meanwhile, so that its reply is outdated."""
    if m.is_current(held):
        held.last_consumed = False
        _free(m, held)
    if reader.operation in m.operations:
        m.readers.appendleft(reader)


def _on_fetched_partition(m: BalancedMemberState, reader: Waiter, held: Held, said: FetchedPartition) -> None:
    code = 0 if said.error_code == ErrorCode.NONE else code_of(said.error_code)
    held.update_offsets(said.position if code in {0, Code.NOT_FOUND} else -1, said.end, m.now_ms)
    if not code and said.records:
        _hand_out(m, reader, held, said)
    elif code in _GONE:
        _lose(m, held, said.error_code.name)
        m.end(reader.operation, failure(code, f"{held.key} is not this consumer's any more: {said.error_code.name}"))
    else:
        _free(m, held, _pause_ms(m, code, said.wait_ms))
        if not code or code == Code.NOT_FOUND:
            m.end(reader.operation, failure(Code.NOT_FOUND, f"{held.key} has been read up to its end"))
        else:
            m.end(reader.operation, failure(code, f"{held.key} could not be read: {said.error_code.name}"))


def _hand_out(m: BalancedMemberState, reader: Waiter, held: Held, said: FetchedPartition) -> None:
    if held.key in m.leaving or reader.operation not in m.operations:
        held.last_consumed = False
        _free(m, held)
        if reader.operation in m.operations:
            m.readers.appendleft(reader)
        return
    held.use, held.next_offset = PartitionUse.HANDED, None
    _, topic, partition = held.place
    fetched = Fetched(
        held.key,
        topic,
        partition,
        said.position,
        held.max,
        said.records,
        held.token,
        m.targets.get(topic, ()),
        reader.deadline_ms,
    )
    m.end(reader.operation, success(fetched))


def _lose(m: BalancedMemberState, held: Held, why: str) -> None:
    """Drop a partition. The coordinator may have forgotten the member too: a heartbeat finds out."""
    m.note("partition lost", key=held.key, why=why)
    m.drop(held.key)
    m.doubtful[held.key] = m.now_ms
    m.timers.pop(BalancedTimer.HEARTBEAT, None)


def _pause_ms(m: BalancedMemberState, code: int, wait_ms: int) -> int:
    if not code or code == Code.NOT_FOUND:
        return m.config.not_found_wait_ms
    if code == Code.SPEED_LIMIT:
        return wait_ms or m.config.not_found_wait_ms
    return _PAUSES_MS.get(Code(code), _OTHER_PAUSE_MS) if code in _PAUSES_MS else _OTHER_PAUSE_MS


def _free(m: BalancedMemberState, held: Held, pause_ms: int = 0) -> None:
    """Let a partition be taken again, unless an action waited for that."""
    m.put_back(held, pause_ms)
    registering.go_on(m, held)


# ------------------------------------------------------------------------------------------- outcomes of batches


def handed(m: BalancedMemberState, event: Handed) -> None:
    held = _in_hand(m, event.key, event.token)
    if held is None:
        m.end(event.operation, m.refused or failure(Code.NONE_REGISTERED, f"{event.key} was lost meanwhile"))
        return
    held.next_offset, held.reader = event.next_offset, None
    held.curr = event.next_offset
    m.end(event.operation, success())


def pass_over(m: BalancedMemberState, event: PassedOver) -> None:
    held = _in_hand(m, event.key, event.token)
    if held is not None:
        held.last_consumed = event.consumed
        if event.consumed:
            held.curr = held.confirmed = event.next_offset
        _free(m, held, 0 if event.consumed else _OTHER_PAUSE_MS)


def abandon(m: BalancedMemberState, event: GaveUp) -> None:
    """End an operation whose caller no longer waits."""
    operation = event.operation
    m.operations.discard(operation)
    m.readers = type(m.readers)(one for one in m.readers if one.operation != operation)
    for held in tuple(m.keys.values()):
        if held.use is PartitionUse.HANDED and held.reader == operation:
            held.last_consumed = False
            _free(m, held)


def _in_hand(m: BalancedMemberState, key: str, token: int) -> Held | None:
    held = m.keys.get(key)
    return held if held is not None and held.use is PartitionUse.HANDED and held.token == token else None


# ---------------------------------------------------------------------------------------------------------- confirming


def confirm(m: BalancedMemberState, event: ConfirmAsked) -> None:
    """Confirm a batch (docs/spec/client-balanced-groups.md#5.7)."""
    if not m.is_running:
        m.end(event.operation, failure(Code.CLIENT_SHUTDOWN, m.not_running))
        return
    try:
        key, token = parse_context(event.context)
    except ValueError as error:
        m.end(event.operation, failure(Code.BAD_REQUEST, str(error)))
        return
    held = _in_hand(m, key, token)
    if held is None:
        sentence = f"{event.context}: no batch of this context is in use (confirmed before, or its partition was lost)"
        m.end(event.operation, m.refusal or failure(Code.BAD_REQUEST, sentence))
    elif m.config.confirm_in_local:
        _note_confirmed(held, event)
        _free(m, held)
        m.end(event.operation, success(Confirm(key, held.place.topic)))
    else:
        held.use = PartitionUse.CONFIRMING
        _commit(m, event, held, may_repeat=True)


def _note_confirmed(held: Held, event: ConfirmAsked) -> None:
    """Store the application's confirmation, which counts even if the coordinator did not get it; then it is sent
    again."""
    held.last_consumed = event.consumed
    if event.consumed and held.next_offset is not None:
        held.confirmed = held.next_offset
    held.curr = held.confirmed


def _commit(m: BalancedMemberState, event: ConfirmAsked, held: Held, *, may_repeat: bool) -> None:
    def make() -> ConfirmConsumed:
        item = ConfirmItem(held.key, held.reg_epoch, event.consumed, held.next_offset if event.consumed else None)
        return ConfirmConsumed(m.group_id, m.consumer_id, m.member_epoch, (item,))

    coordinator.ask(m, make, partial(_on_commit, event, held, may_repeat))


def _on_commit(
    event: ConfirmAsked, held: Held, may_repeat: bool, m: BalancedMemberState, answer: CoordinatorAnswer
) -> None:
    if answer.code == Code.NO_NODE and may_repeat and m.is_current(held):
        _commit(m, event, held, may_repeat=False)  # sent once it is a member again, if it then owns the partition
        return
    said: ConfirmedPartition | None = None
    if isinstance(answer.reply, ConfirmConsumedReply) and not answer.code:
        said = next((one for one in answer.reply.items if one.key == held.key), None)
    _note_confirmed(held, event)
    result = _confirmed(m, held, answer, said)
    if result.code == Code.NOT_OWNER_COMMIT:
        _lose(m, held, result.msg)
    else:
        _free(m, held)
    m.end(event.operation, result)


def _confirmed(
    m: BalancedMemberState, held: Held, answer: CoordinatorAnswer, said: ConfirmedPartition | None
) -> Result:
    if not m.is_current(held):
        return m.refusal or failure(Code.NOT_FOUND, f"{held.key} is not registered any more")
    if answer.code:
        return failure(answer.code, answer.reason)
    if said is None:
        return failure(Code.EMPTY_REPLY, f"the reply lacks {held.key}")
    if said.error_code != ErrorCode.NONE:
        return failure(code_of(said.error_code), f"{held.key} was not confirmed: {said.error_code.name}")
    held.update_offsets(-1, said.end, m.now_ms)
    return success(Confirm(held.key, held.place.topic, held.curr, held.max))
