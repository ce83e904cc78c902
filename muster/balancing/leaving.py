"""Going away (docs/spec/client-balanced-groups.md#5.8), and what there is to ask about the group."""

from functools import partial

from muster.balancing import line
from muster.balancing.events import DescribeAsked, ShutdownAsked
from muster.balancing.member import IN_USE, Answer, Member, Phase, Timer, Use
from muster.balancing.results import Code, failure, success
from protocol.errors import ErrorCode
from protocol.messages.balanced import DescribeBalanced, DescribeBalancedReply, LeaveMember, ReleasedKey


def shut_down(m: Member, event: ShutdownAsked) -> None:
    """From STARTED alone; nothing is handed out from now on, and everybody who waits hears so."""
    if m.phase is Phase.STOPPING:
        m.stopping.append(event.errand)
        return
    if m.phase is not Phase.STARTED:
        m.end(event.errand, success())
        return
    m.phase = Phase.STOPPING
    m.stopping.append(event.errand)
    m.arm(Timer.CLOSING, m.config.closing_pause_ms)
    for one in sorted(m.errands - set(m.stopping)):
        m.end(one, failure(Code.CLIENT_SHUTDOWN, m.not_running))
    m.readers.clear()
    m.leaving.clear()


def settle_closing(m: Member) -> None:
    if m.phase is not Phase.STOPPING or Timer.CLOSING in m.timers:
        return
    if not m.is_joined:
        _end(m)
    elif not m.is_leaving:
        m.is_leaving = True
        line.ask(m, partial(_leave, m), _heard_leave)


def _leave(m: Member) -> LeaveMember:
    released = {
        key: ReleasedKey(key, held.reg_epoch, _is_consumed(m, held.use, held.last_consumed), held.done_to)
        for key, held in m.keys.items()
    }
    return LeaveMember(m.group_id, m.consumer_id, m.member_epoch, tuple((m.released | released).values()))


def _is_consumed(m: Member, use: Use, last_consumed: bool) -> bool:
    """Of a batch that was not confirmed: only if the application wants it so."""
    return not m.config.rolls_back_unconfirmed if use in IN_USE else last_consumed


def _heard_leave(m: Member, answer: Answer) -> None:
    if answer.code and answer.code != Code.NO_NODE:
        m.note("not told that it left", why=answer.reason)
    _end(m)


def _end(m: Member) -> None:
    m.phase, m.is_joined, m.lease_ends_ms = Phase.ENDED, False, None
    for key in tuple(m.keys):
        m.drop(key)
    m.timers.clear()
    m.calls.clear()
    m.wanted.clear()
    m.alarms.clear()
    m.released.clear()
    for errand in m.stopping:
        m.end(errand, success())


def describe(m: Member, event: DescribeAsked) -> None:
    errand = event.errand
    if m.refused is not None:
        m.end(errand, m.refused)
        return

    def heard(m: Member, answer: Answer) -> None:
        found = None
        if isinstance(answer.reply, DescribeBalancedReply):
            found = next((one for one in answer.reply.groups if one.group_id == m.group_id), None)
        if answer.code or found is None:
            m.end(errand, failure(answer.code or Code.EMPTY_REPLY, answer.reason or "nothing was said of this group"))
        elif found.error_code != ErrorCode.NONE:
            m.end(errand, failure(int(found.error_code), found.error_code.name))
        else:
            m.end(errand, success(found))

    line.ask(m, lambda: DescribeBalanced((m.group_id,)), heard)
