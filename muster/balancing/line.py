"""The line to the coordinator: finding it, asking it, and what its silence comes to."""

from collections.abc import Callable

from muster.balancing.member import Answer, Member, Phase, Sent, Then, Timer, Wanted
from muster.balancing.results import Code, code_of, failure
from muster.events import Call, CallFailed, HangUp, NodeAddress, Replied
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import FindCoordinator, FindCoordinatorReply, Refused

BACKOFF_MS, MAX_BACKOFF_MS = 100, 1_000
_ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
RETRIABLE = frozenset({14, 15, 16, Code.EMPTY_REPLY, Code.NO_NODE, Code.INTERNAL, Code.UNAVAILABLE})
"""After these the same question may be answered otherwise a little later."""


def backoff_ms(failures: int) -> int:
    """See docs/spec/client-balanced-groups.md#11: exponential from 100 ms to 1 s."""
    return min(BACKOFF_MS << min(failures, 10), MAX_BACKOFF_MS)


def ask(m: Member, make: Callable[[], Message], then: Then, *, extra_ms: int = 0) -> None:
    """Ask the coordinator as soon as there is one and the member is in its group. `then` is always told what came of
    it, after the request timeout (and `extra_ms`, which the coordinator may take) at the latest.
    """
    timeout_ms = m.config.request_timeout_ms
    m.wanted.append(Wanted(make, then, m.now_ms + timeout_ms, timeout_ms + extra_ms))


def send(m: Member, message: Message, then: Then, *, within_ms: int, node: NodeAddress | None) -> None:
    m.calls_made += 1
    m.calls[m.calls_made] = Sent(message, then, m.now_ms, m.now_ms + within_ms, node, m.member_epoch)
    m.effects.append(Call(m.calls_made, node, message))


def is_asking(m: Member, kind: type[Message]) -> bool:
    return any(type(sent.message) is kind for sent in m.calls.values())


def hear(m: Member, event: Replied) -> None:
    """A reply, whatever it says."""
    sent = m.calls.pop(event.call, None)
    if sent is None:
        return
    if sent.node is not None:
        m.lookup_failures = 0
    reply, reason = event.reply, event.reason
    if isinstance(reply, Refused):
        code, reason, reply_or_none = reply.error_code, reply.error_message or reason, None
    elif type(reply).__name__ != f"{type(sent.message).__name__}Reply":
        code, reply_or_none = ErrorCode.UNKNOWN_SERVER_ERROR, None
        reason = f"a {type(reply).__name__} came back to a {type(sent.message).__name__}"
    else:
        code, reply_or_none = getattr(reply, "error_code", ErrorCode.NONE), reply
        reason = getattr(reply, "error_message", "") or reason
    if code in _ELSEWHERE:
        _forget_coordinator(m, sent.node)
    elif code == ErrorCode.NO_NODE and sent.member_epoch == m.member_epoch:
        m.is_joined = False
    elif code == ErrorCode.REPLACED_MEMBER and sent.member_epoch == m.member_epoch:
        _be_replaced(m, reason)
    what = reason or (code.name if code else "")
    sent.then(m, Answer(sent.sent_ms, reply_or_none, 0 if code == ErrorCode.NONE else code_of(code), what))


def lost(m: Member, event: CallFailed) -> None:
    sent = m.calls.get(event.call)
    is_coordinator = sent is not None and sent.node is not None and sent.node == m.coordinator
    if event.is_unreached and is_coordinator and Timer.LOOKUP not in m.timers:
        _look_up_later(m)  # it would be found again at once, and fail again
    _lose(m, event.call, "the connection was lost")


def _lose(m: Member, call: int, reason: str) -> None:
    """It will not be answered."""
    sent = m.calls.pop(call, None)
    if sent is None:
        return
    if sent.node is not None:
        _forget_coordinator(m, sent.node)
    sent.then(m, Answer(sent.sent_ms, None, Code.EMPTY_REPLY, reason))


def pass_time(m: Member) -> None:
    """Requests that have waited too long, for their answer or for the coordinator."""
    for number, sent in tuple(m.calls.items()):
        if m.is_past(sent.deadline_ms) and number in m.calls:
            m.effects.append(HangUp(sent.node))
            _lose(m, number, "no answer came in time")
    while m.wanted and m.is_past(m.wanted[0].deadline_ms):
        m.wanted.popleft().then(m, Answer(m.now_ms, None, Code.EMPTY_REPLY, "the coordinator cannot be reached"))


def settle(m: Member) -> None:
    """Look for the coordinator if somebody wants it; ask it what is to be asked."""
    if m.coordinator is None:
        if _wants_coordinator(m) and Timer.LOOKUP not in m.timers and not is_asking(m, FindCoordinator):
            within_ms = m.config.request_timeout_ms
            send(m, FindCoordinator((m.group_id,)), _heard_lookup, within_ms=within_ms, node=None)
        return
    while m.wanted and m.is_joined:
        one = m.wanted.popleft()
        send(m, one.make(), one.then, within_ms=one.answer_within_ms, node=m.coordinator)


def fail_wanted(m: Member, code: int, reason: str) -> None:
    """What waits will not be asked."""
    waiting, now_ms = tuple(m.wanted), m.now_ms
    m.wanted.clear()
    for one in waiting:
        one.then(m, Answer(now_ms, None, code, reason))


def _wants_coordinator(m: Member) -> bool:
    starts = m.phase is Phase.STARTING and Timer.RETRY not in m.timers
    return not m.is_replaced and (starts or m.phase is Phase.STARTED or bool(m.wanted))


def _heard_lookup(m: Member, answer: Answer) -> None:
    code, reason = answer.code, answer.reason
    if isinstance(answer.reply, FindCoordinatorReply):
        found = next((one for one in answer.reply.coordinators if one.key == m.group_id), None)
        if found is None:
            code, reason = Code.UNAVAILABLE, "no coordinator was named"
        elif found.error_code == ErrorCode.NONE:
            m.coordinator = NodeAddress(found.host, found.port, found.node_id)
            return
        else:
            code, reason = code_of(found.error_code), found.error_message or found.error_code.name
    if answer.reply is None:
        m.effects.append(HangUp(None))  # the next lookup asks somebody else
    _look_up_later(m)
    hint = " (is musterd's native listener at the bootstrap address?)" if code == Code.EMPTY_REPLY else ""
    m.lookup_trouble = code, f"the coordinator of group {m.group_id} was not found: {reason}{hint}"
    fail_wanted(m, *m.lookup_trouble)


def _forget_coordinator(m: Member, node: NodeAddress | None) -> None:
    if m.coordinator is not None and m.coordinator == node:
        m.coordinator = None


def _look_up_later(m: Member) -> None:
    m.arm(Timer.LOOKUP, backoff_ms(m.lookup_failures))
    m.lookup_failures += 1


def _be_replaced(m: Member, reason: str) -> None:
    """A newer object took this one's instance id: it has nothing left, and says nothing more."""
    m.is_replaced, m.is_joined = True, False
    m.refusal = failure(Code.REPLACED_MEMBER, reason or "a newer consumer has taken over this instance id")
    m.timers.clear()
    m.lease_ends_ms = None
    m.drop_all("replaced by a newer consumer of the same instance id")
