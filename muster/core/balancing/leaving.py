"""Leaving (docs/spec/client-balanced-groups.md#5.8), and requests about the group."""

from functools import partial

from muster.core.balancing import coordinator
from muster.core.balancing.events import DescribeAsked, ShutdownAsked
from muster.core.balancing.member import (
    IN_USE,
    BalancedMemberState,
    BalancedTimer,
    CoordinatorAnswer,
    PartitionUse,
    Phase,
)
from muster.core.balancing.results import Code, failure, success
from protocol.errors import ErrorCode
from protocol.messages.balanced import DescribeBalanced, DescribeBalancedReply, LeaveMember, ReleasedKey


def shut_down(m: BalancedMemberState, event: ShutdownAsked) -> None:
    """Shut down, only from STARTED: no more records are returned, and all waiting operations end."""
    if m.phase is Phase.STOPPING:
        m.stopping.append(event.operation)
        return
    if m.phase is not Phase.STARTED:
        m.end(event.operation, success())
        return
    m.phase = Phase.STOPPING
    m.stopping.append(event.operation)
    m.arm(BalancedTimer.CLOSING, m.config.closing_pause_ms)
    for one in sorted(m.operations - set(m.stopping)):
        m.end(one, failure(Code.CLIENT_SHUTDOWN, m.not_running))
    m.readers.clear()
    m.leaving.clear()


def settle_closing(m: BalancedMemberState) -> None:
    if m.phase is not Phase.STOPPING or BalancedTimer.CLOSING in m.timers:
        return
    if not m.is_joined:
        _end(m)
    elif not m.is_leaving:
        m.is_leaving = True
        coordinator.ask(m, partial(_leave, m), _on_leave)


def _leave(m: BalancedMemberState) -> LeaveMember:
    released = {
        key: ReleasedKey(key, held.reg_epoch, _is_consumed(m, held.use, held.last_consumed), held.done_to)
        for key, held in m.keys.items()
    }
    return LeaveMember(m.group_id, m.consumer_id, m.member_epoch, tuple((m.released | released).values()))


def _is_consumed(m: BalancedMemberState, use: PartitionUse, last_consumed: bool) -> bool:
    """Return whether an unconfirmed batch counts as consumed, which the application's settings decide."""
    return not m.config.rolls_back_unconfirmed if use in IN_USE else last_consumed


def _on_leave(m: BalancedMemberState, answer: CoordinatorAnswer) -> None:
    if answer.code and answer.code != Code.NO_NODE:
        m.note("not told that it left", why=answer.reason)
    _end(m)


def _end(m: BalancedMemberState) -> None:
    m.phase, m.is_joined, m.lease_ends_ms = Phase.ENDED, False, None
    for key in tuple(m.keys):
        m.drop(key)
    m.timers.clear()
    m.channel.requests.clear()
    m.wanted.clear()
    m.alarms.clear()
    m.released.clear()
    for operation in m.stopping:
        m.end(operation, success())


def describe(m: BalancedMemberState, event: DescribeAsked) -> None:
    operation = event.operation
    if m.refused is not None:
        m.end(operation, m.refused)
        return

    def on_reply(m: BalancedMemberState, answer: CoordinatorAnswer) -> None:
        found = None
        if isinstance(answer.reply, DescribeBalancedReply):
            found = next((one for one in answer.reply.groups if one.group_id == m.group_id), None)
        if answer.code or found is None:
            m.end(operation, failure(answer.code or Code.EMPTY_REPLY, answer.reason or "the reply lacks this group"))
        elif found.error_code != ErrorCode.NONE:
            m.end(operation, failure(int(found.error_code), found.error_code.name))
        else:
            m.end(operation, success(found))

    coordinator.ask(m, lambda: DescribeBalanced((m.group_id,)), on_reply)
