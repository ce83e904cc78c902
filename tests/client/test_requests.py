"""Single requests: each is sent once, and answered or not."""

from membership.events import CallFailed, HangUp, NodeAddress, Replied, SendRequest, TimePassed
from muster.core.requests import Requests
from protocol.errors import ErrorCode
from protocol.messages.node import ApiVersions, DescribeNode, ErrorReply

HERE = NodeAddress("here", 1)
WHO, WHAT = DescribeNode(), ApiVersions("test", "1")
ANSWER = ErrorReply(ErrorCode.UNSUPPORTED_VERSION)


def test_what_is_asked_is_sent_once_and_answered_by_its_number() -> None:
    core = Requests()
    first, second = core.ask(WHO, None), core.ask(WHAT, HERE)
    assert core.step(TimePassed(), 0) == [SendRequest(first, None, WHO), SendRequest(second, HERE, WHAT)]
    assert core.step(Replied(second, ANSWER), 0) == []
    assert (core.is_over(first), core.is_over(second)) == (False, True)
    assert core.take(second) is ANSWER


def test_where_any_node_would_do_the_next_is_asked_after_a_failure() -> None:
    core = Requests()
    anybody, somebody = core.ask(WHO, None), core.ask(WHAT, HERE)
    core.step(TimePassed(), 0)
    assert core.step(CallFailed(anybody), 0) == [HangUp(None)]
    assert core.step(CallFailed(somebody), 0) == []
    assert core.take(anybody) is core.take(somebody) is None


def test_an_unanswered_request_that_nobody_waits_for_holds_up_no_other() -> None:
    core = Requests()
    number = core.ask(WHAT, HERE)
    core.step(TimePassed(), 0)
    assert core.forget(number) == [HangUp(HERE)]
    assert core.step(Replied(number, ANSWER), 0) == [], "too late"


def test_an_answered_one_is_forgotten_without_hanging_up() -> None:
    core = Requests()
    answered, unsent = core.ask(WHO, HERE), 2
    core.step(TimePassed(), 0)
    core.step(Replied(answered, ANSWER), 0)
    assert core.ask(WHAT, HERE) == unsent
    assert core.forget(answered) == core.forget(unsent) == []
