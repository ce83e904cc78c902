"""The connection to the coordinator: lookup, requests, and timeouts."""

from collections.abc import Callable

from membership.channel import normalised
from membership.events import CallFailed, HangUp, NodeAddress, Replied
from muster.core.balancing.member import (
    BalancedMemberState,
    BalancedRequest,
    BalancedTimer,
    CoordinatorAnswer,
    Phase,
    Then,
    Wanted,
)
from muster.core.balancing.results import Code, code_of, failure
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import FindCoordinatorReply

_ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
RETRIABLE = frozenset({14, 15, 16, Code.EMPTY_REPLY, Code.NO_NODE, Code.INTERNAL, Code.UNAVAILABLE})
"""Codes after which the same request may succeed a little later."""


def ask(m: BalancedMemberState, make: Callable[[], Message], then: Then, *, extra_ms: int = 0) -> None:
    """Send a request to the coordinator as soon as that is known and the member is in its group. `then` is always
    called with the outcome, at the latest after the request timeout and `extra_ms`, for which the coordinator may delay
    the reply.
    """
    timeout_ms = m.config.request_timeout_ms
    m.wanted.append(Wanted(make, then, m.now_ms + timeout_ms, timeout_ms + extra_ms))


def send(m: BalancedMemberState, message: Message, then: Then, *, within_ms: int, node: NodeAddress | None) -> None:
    m.effects.append(
        m.channel.send(BalancedRequest(message, then, m.now_ms, m.now_ms + within_ms, node, m.member_epoch))
    )


def on_reply(m: BalancedMemberState, event: Replied) -> None:
    """Handle a reply."""
    sent = m.channel.answered(event.call)
    if sent is None:
        return
    code, reason, reply_or_none = normalised(sent.message, event.reply, event.reason)
    if code in _ELSEWHERE:
        _forget_coordinator(m, sent.node)
    elif code == ErrorCode.NO_NODE and sent.member_epoch == m.member_epoch:
        m.is_joined = False
    elif code == ErrorCode.REPLACED_MEMBER and sent.member_epoch == m.member_epoch:
        _be_replaced(m, reason)
    what = reason or (code.name if code else "")
    sent.then(m, CoordinatorAnswer(sent.sent_ms, reply_or_none, 0 if code == ErrorCode.NONE else code_of(code), what))


def lost(m: BalancedMemberState, event: CallFailed) -> None:
    if event.is_unreached:
        m.channel.note_unreached(event.call, m.now_ms)
    _lose(m, event.call, "the connection was lost")


def _lose(m: BalancedMemberState, call: int, reason: str) -> None:
    """End a request that will not be answered."""
    sent = m.channel.lost(call)
    if sent is None:
        return
    if sent.node is not None:
        _forget_coordinator(m, sent.node)
    sent.then(m, CoordinatorAnswer(sent.sent_ms, None, Code.EMPTY_REPLY, reason))


def pass_time(m: BalancedMemberState) -> None:
    """End requests that have waited too long, for their reply or for the coordinator."""
    m.channel.pass_time(m.now_ms)
    for number, sent in m.channel.overdue(m.now_ms):
        if number in m.channel.requests:
            m.effects.append(HangUp(sent.node))
            _lose(m, number, "no answer came in time")
    while m.wanted and m.is_past(m.wanted[0].deadline_ms):
        m.wanted.popleft().then(
            m, CoordinatorAnswer(m.now_ms, None, Code.EMPTY_REPLY, "the coordinator cannot be reached")
        )


def settle(m: BalancedMemberState) -> None:
    """Look up the coordinator if it is needed, and send it waiting requests."""
    if m.coordinator is None:
        if _wants_coordinator(m) and m.channel.wants_lookup():
            within_ms = m.config.request_timeout_ms
            send(m, m.channel.lookup(), _on_lookup, within_ms=within_ms, node=None)
        return
    while m.wanted and m.is_joined:
        one = m.wanted.popleft()
        send(m, one.make(), one.then, within_ms=one.answer_within_ms, node=m.coordinator)


def fail_wanted(m: BalancedMemberState, code: int, reason: str) -> None:
    """Fail the requests that wait for the coordinator."""
    waiting, now_ms = tuple(m.wanted), m.now_ms
    m.wanted.clear()
    for one in waiting:
        one.then(m, CoordinatorAnswer(now_ms, None, code, reason))


def _wants_coordinator(m: BalancedMemberState) -> bool:
    starts = m.phase is Phase.STARTING and BalancedTimer.RETRY not in m.timers
    return not m.is_replaced and (starts or m.phase is Phase.STARTED or bool(m.wanted))


def _on_lookup(m: BalancedMemberState, answer: CoordinatorAnswer) -> None:
    code, reason = answer.code, answer.reason
    if isinstance(answer.reply, FindCoordinatorReply):
        found, sentence = m.channel.on_lookup_reply(answer.reply)
        if found == ErrorCode.NONE:
            return
        code = code_of(found) if answer.reply.coordinators else Code.UNAVAILABLE
        reason = sentence or found.name
    if answer.reply is None:
        m.effects.append(HangUp(None))  # so that the next lookup goes to another node
    m.channel.look_up_later(m.now_ms)
    hint = " (is musterd's native listener at the bootstrap address?)" if code == Code.EMPTY_REPLY else ""
    m.lookup_trouble = code, f"the coordinator of group {m.group_id} was not found: {reason}{hint}"
    fail_wanted(m, *m.lookup_trouble)


def _forget_coordinator(m: BalancedMemberState, node: NodeAddress | None) -> None:
    if m.coordinator is not None and m.coordinator == node:
        m.channel.forget()


def _be_replaced(m: BalancedMemberState, reason: str) -> None:
    """Note that a newer object has this member's instance id: it has lost its partitions, and sends nothing more."""
    m.is_replaced, m.is_joined = True, False
    m.refusal = failure(Code.REPLACED_MEMBER, reason or "a newer consumer has taken over this instance id")
    m.timers.clear()
    m.lease_ends_ms = None
    m.drop_all("replaced by a newer consumer of the same instance id")
