"""Logins over the native protocol: the same as Kafka's, by `Login` alone."""

import pytest

from coordinator.node.login_limits import BURST
from protocol.errors import ErrorCode
from protocol.kafka.login import SaslClient
from protocol.messages import Message
from protocol.messages.groups import Heartbeat, HeartbeatReply, ListGroups, ListGroupsReply
from protocol.messages.node import (
    Hello,
    HelloReply,
    Login,
    LoginReply,
    SaslAuthenticateReply,
    SaslHandshakeReply,
)
from tests.node.desk import Desk
from tests.node.test_kafka import Peer
from tests.node.test_logins import ALL, DELAY_MS, WRONG, LoginDesk, log_in

BEAT = Heartbeat("g", 1, "m")


@pytest.fixture
def desk() -> LoginDesk:
    return LoginDesk()


def log_in_natively(
    desk: LoginDesk, number: int, mechanism: str = "PLAIN", user: str = "alice", password: str = "secret"
) -> LoginReply:
    """Log in; the last answer."""
    client = SaslClient(mechanism, user, password, "nonce")
    client.begin()
    more = client.on_reply(SaslHandshakeReply())
    reply = LoginReply()
    while more is not None:
        replies = desk.ask(number, Login(mechanism, more.auth_bytes))
        if desk.checks:
            desk.end_check()
            replies = desk.heard(number)
        if not replies:
            desk.wait(DELAY_MS)
            replies = desk.heard(number)
        (said,) = replies
        assert isinstance(said, LoginReply)
        reply = said
        if reply.error_code:
            return reply
        more = client.on_reply(SaslAuthenticateReply(auth_bytes=reply.auth_bytes))
        assert reply.done is client.is_done
    return reply


@pytest.mark.parametrize("mechanism", ALL.all)
def test_who_has_logged_in_is_served(desk: LoginDesk, mechanism: str) -> None:
    desk.connect(1)
    (greeting,) = desk.ask(1, Hello("me"))
    assert isinstance(greeting, HelloReply) and "Login" in greeting.methods
    done = log_in_natively(desk, 1, mechanism)
    assert (done.error_code, done.done, done.session_lifetime_ms) == (ErrorCode.NONE, True, 0)
    assert desk.node.core.connections[1].principal == "User:alice"
    assert isinstance(desk.ask(1, ListGroups())[0], ListGroupsReply)
    assert desk.ask(1, BEAT) == [HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)]


def test_without_logins_there_is_no_such_method() -> None:
    desk = Desk()
    desk.connect(1)
    greeting, refused = desk.ask(1, Hello("me"), Login("PLAIN", b"\0alice\0secret"))
    assert isinstance(greeting, HelloReply) and "Login" not in greeting.methods
    assert isinstance(refused, LoginReply) and refused.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert desk.ask(1, ListGroups())


@pytest.mark.parametrize("message", [ListGroups(), BEAT])
def test_what_is_sent_before_the_login_is_not_served_and_closes_the_connection(
    desk: LoginDesk, message: Message
) -> None:
    desk.connect(1)
    answers = desk.ask(1, Hello("me"), message)
    assert [type(one) for one in answers] == [HelloReply]
    assert "before the login is done" in desk.closed[1]


def test_what_is_sent_in_the_middle_of_a_login_is_not_served(desk: LoginDesk) -> None:
    for number, late in ((1, ListGroups()), (2, Login("PLAIN", b"\0alice\0secret"))):
        desk.connect(number)
        (challenge,) = desk.ask(number, Login("SCRAM-SHA-256", b"n,,n=alice,r=nonce"))
        assert isinstance(challenge, LoginReply) and challenge.auth_bytes and not challenge.done
        assert desk.ask(number, late) == []
        assert "login" in desk.closed[number]


def test_nothing_is_served_while_a_password_is_checked(desk: LoginDesk) -> None:
    desk.connect(1)
    assert desk.ask(1, Login("PLAIN", b"\0alice\0secret"), Login("PLAIN", b"\0alice\0secret")) == []
    assert "during another login" in desk.closed[1]
    assert not desk.checks, "nobody waits for it"
    assert not desk.node.core.connections


@pytest.mark.parametrize("mechanism", ALL.all)
@pytest.mark.parametrize(("user", "password"), [("alice", "other-pass"), ("nobody", "secret")])
def test_a_failed_login_is_answered_as_kafkas_after_the_same_delay_and_closed(
    desk: LoginDesk, mechanism: str, user: str, password: str
) -> None:
    desk.connect(1)
    failed = log_in_natively(desk, 1, mechanism, user, password)
    assert failed.error_code is WRONG
    assert (desk.now_ms, desk.closed[1]) == (DELAY_MS, "")
    kafka = LoginDesk()
    theirs = log_in(kafka, Peer(kafka, 1), mechanism, user, password)
    assert (theirs.error_code, kafka.complaints) == (failed.error_code, desk.complaints)


def test_a_mechanism_that_is_not_enabled_is_refused_by_name(desk: LoginDesk) -> None:
    desk.connect(1)
    assert desk.ask(1, Login("GSSAPI")) == []
    desk.wait(DELAY_MS)
    (refused,) = desk.heard(1)
    assert isinstance(refused, LoginReply) and refused.error_code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert 1 in desk.closed


def test_a_login_ends_and_can_be_renewed_on_the_connection() -> None:
    desk = LoginDesk(connections_max_reauth_ms=10_000)
    desk.connect(1)
    assert log_in_natively(desk, 1).session_lifetime_ms == 10_000
    too_soon = log_in_natively(desk, 1)
    assert too_soon.error_code is ErrorCode.ILLEGAL_SASL_STATE
    desk.wait(9_000)
    assert log_in_natively(desk, 1).session_lifetime_ms == 10_000
    desk.wait(9_999)
    assert desk.ask(1, BEAT) and desk.ask(1, ListGroups())
    desk.wait(1)
    assert desk.ask(1, BEAT) == []
    assert "has expired" in desk.closed[1]


def test_a_connection_cannot_change_its_principal(desk: LoginDesk) -> None:
    desk.connect(1)
    log_in_natively(desk, 1)
    desk.wait(1_000)
    assert log_in_natively(desk, 1, user="bob").error_code is WRONG
    assert 1 in desk.closed


def test_failures_of_both_dialects_fill_one_bucket(desk: LoginDesk) -> None:
    for number in range(BURST):
        log_in(desk, Peer(desk, 10 + number), password="wrong")
    desk.now_ms = 0  # all at once
    desk.connect(1)
    desk.ask(1, Login("PLAIN", b"\0alice\0secret"))
    assert not desk.checks, "not even looked at"


def test_a_large_request_before_the_login_closes_the_connection_and_one_after_it_does_not(desk: LoginDesk) -> None:
    desk.connect(1)
    desk.ask(1, Login("PLAIN", b"x" * 600_000))
    assert 1 in desk.closed
    desk.connect(2)
    log_in_natively(desk, 2)
    assert desk.ask(2, ListGroups(states_filter=("x" * 7_000,) * 100))
    assert 2 not in desk.closed
