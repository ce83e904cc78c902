"""Servers that did not let us in: told once, and left alone for a second."""

import ssl

import pytest

from membership.events import NodeAddress
from muster.core.completions import Completions
from muster.errors import AuthenticationFailed, CannotConnect, RequestTimedOut, WokenUp
from muster.net.dialects.handshake_errors import HandshakeRefused, LoginFailed
from muster.net.refusals import Refusals, authentication_failed
from protocol.errors import ErrorCode, ProtocolViolation

NODE, OTHER = NodeAddress("a", 1, 7), NodeAddress("b", 1)
NO = AuthenticationFailed("a:1: no")


def test_each_time_is_raised_once() -> None:
    refusals = Refusals()
    refusals.raise_last()
    refusals.note(NODE, NO, 0)
    was_told = refusals.is_clear
    with pytest.raises(AuthenticationFailed, match="a:1: no"):
        refusals.raise_last()
    assert (was_told, refusals.is_clear) == (False, True)
    refusals.raise_last()


def test_who_refused_us_is_not_asked_for_a_second_by_whatever_name_it_has() -> None:
    refusals = Refusals()
    refusals.note(NODE, NO, 5_000)
    assert refusals.bars(NodeAddress("a", 1), 5_999)
    assert not refusals.bars(NODE, 6_000)
    assert not refusals.bars(OTHER, 5_500)


def test_attempts_to_reconnect_pause_longer_and_longer_each_node_by_itself() -> None:
    refusals, now_ms, pauses = Refusals(), 0, list[int]()
    for _ in range(7):
        refusals.attempt_failed(NODE, now_ms)
        assert refusals.reconnect_at_ms(OTHER) == 0
        pauses.append(refusals.reconnect_at_ms(NODE) - now_ms)
        now_ms += pauses[-1]
    assert pauses == [50, 100, 200, 400, 800, 1_000, 1_000]
    refusals.answered(NODE)
    refusals.attempt_failed(NODE, now_ms)
    assert refusals.reconnect_at_ms(NODE) == now_ms + 50


def test_who_lets_us_in_later_is_no_trouble_any_more() -> None:
    refusals = Refusals()
    refusals.note(NODE, NO, 0)
    refusals.welcomed(OTHER)
    was_told = refusals.is_clear
    refusals.welcomed(NODE)
    assert (was_told, refusals.is_clear) == (False, True)
    assert not refusals.bars(NODE, 1)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError("gone"),
        ProtocolViolation("nonsense"),
        HandshakeRefused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "later"),
        ssl.SSLEOFError("EOF"),
        ssl.SSLZeroReturnError("closed"),
    ],
)
def test_what_may_be_better_next_time_is_no_refusal(error: Exception) -> None:
    assert authentication_failed(NODE, error) is None


def test_a_refused_login_says_where_and_why() -> None:
    failed = authentication_failed(NODE, LoginFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, "'me' is not let in"))
    assert str(failed) == "a:1: 'me' is not let in"


def test_whoever_waits_is_interrupted_as_by_a_wakeup() -> None:
    refusals = Refusals()
    outcomes = Completions(refusals)
    woken = [outcomes.is_woken]
    refusals.note(NODE, NO, 0)
    woken.append(outcomes.is_woken)
    with pytest.raises(AuthenticationFailed):
        outcomes.raise_wakeup()
    assert [*woken, outcomes.is_woken] == [False, True, False]
    refusals.note(NODE, NO, 0)
    outcomes.wake()
    with pytest.raises(WokenUp):
        outcomes.raise_wakeup()
    assert outcomes.is_woken


def test_why_nobody_can_be_asked_is_the_error_that_it_is() -> None:
    refusals = Refusals()
    assert isinstance(refusals.error("nobody is there"), CannotConnect)
    refusals.note(NODE, NO, 0)
    assert isinstance(refusals.error(str(NO)), AuthenticationFailed)
    assert isinstance(refusals.error("nobody is there"), CannotConnect)


def test_who_closes_is_not() -> None:
    refusals = Refusals()
    outcomes = Completions(refusals)
    outcomes.sleep_through()
    refusals.note(NODE, NO, 0)
    assert not outcomes.is_woken
    outcomes.raise_wakeup()
    assert not refusals.is_clear


def test_a_broker_beside_musterd_that_cannot_be_reached_is_news_once_until_it_answers() -> None:
    broker, refusals = NodeAddress("b", 9092, 1, "kafka"), Refusals()
    assert [refusals.unreached(broker), refusals.unreached(broker)] == [True, False]
    refusals.welcomed(broker)
    assert refusals.unreached(broker)
    assert not refusals.unreached(NodeAddress("musterd", 9390)), "who asks it hears of that"


def test_what_ran_out_of_time_is_told_with_the_trouble_of_the_broker_that_does_not_answer() -> None:
    refusals, late = Refusals(), RequestTimedOut("t-0: too late")
    broker, other = NodeAddress("b", 9092, 1, "kafka"), NodeAddress("c", 9092, 2, "kafka")
    assert refusals.explained(late, "") is late
    refusals.failed(broker, "b hung up")
    refusals.failed(NodeAddress("musterd", 9390), "never mind")
    refusals.failed(other, "c hung up")
    assert refusals.explained(late, "").args == ("t-0: too late. c hung up",)
    refusals.answered(other)
    assert refusals.explained(late, "").args == ("t-0: too late. b hung up",)
    assert isinstance(refusals.explained(late, "nobody is there"), CannotConnect)
    refusals.note(broker, AuthenticationFailed("not let in"), 0)
    refusals.failed(broker, "not let in")
    assert isinstance(refusals.explained(late, ""), AuthenticationFailed)
    refusals.answered(broker)
    assert refusals.explained(late, "") is late
    other_error = CannotConnect("x")
    assert refusals.explained(other_error, "y") is other_error
