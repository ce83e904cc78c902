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
from tests.node.node_rig import NodeRig
from tests.node.test_kafka import Peer
from tests.node.test_logins import ALL, DELAY_MS, WRONG, LoginRig, log_in

BEAT = Heartbeat("g", 1, "m")


@pytest.fixture
def rig() -> LoginRig:
    return LoginRig()


def log_in_natively(
    rig: LoginRig, number: int, mechanism: str = "PLAIN", user: str = "alice", password: str = "secret"
) -> LoginReply:
    """Log in; the last answer."""
    client = SaslClient(mechanism, user, password, "nonce")
    client.begin()
    more = client.on_reply(SaslHandshakeReply())
    reply = LoginReply()
    while more is not None:
        replies = rig.ask(number, Login(mechanism, more.auth_bytes))
        if rig.checks:
            rig.end_check()
            replies = rig.heard(number)
        if not replies:
            rig.wait(DELAY_MS)
            replies = rig.heard(number)
        (said,) = replies
        assert isinstance(said, LoginReply)
        reply = said
        if reply.error_code:
            return reply
        more = client.on_reply(SaslAuthenticateReply(auth_bytes=reply.auth_bytes))
        assert reply.done is client.is_done
    return reply


@pytest.mark.parametrize("mechanism", ALL.all)
def test_who_has_logged_in_is_served(rig: LoginRig, mechanism: str) -> None:
    rig.connect(1)
    (greeting,) = rig.ask(1, Hello("me"))
    assert isinstance(greeting, HelloReply) and "Login" in greeting.methods
    done = log_in_natively(rig, 1, mechanism)
    assert (done.error_code, done.done, done.session_lifetime_ms) == (ErrorCode.NONE, True, 0)
    assert rig.node.core.connections[1].principal == "User:alice"
    assert isinstance(rig.ask(1, ListGroups())[0], ListGroupsReply)
    assert rig.ask(1, BEAT) == [HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)]


def test_without_logins_there_is_no_such_method() -> None:
    rig = NodeRig()
    rig.connect(1)
    greeting, refused = rig.ask(1, Hello("me"), Login("PLAIN", b"\0alice\0secret"))
    assert isinstance(greeting, HelloReply) and "Login" not in greeting.methods
    assert isinstance(refused, LoginReply) and refused.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert rig.ask(1, ListGroups())


@pytest.mark.parametrize("message", [ListGroups(), BEAT])
def test_what_is_sent_before_the_login_is_not_served_and_closes_the_connection(rig: LoginRig, message: Message) -> None:
    rig.connect(1)
    answers = rig.ask(1, Hello("me"), message)
    assert [type(one) for one in answers] == [HelloReply]
    assert "before the login is done" in rig.closed[1]


def test_what_is_sent_in_the_middle_of_a_login_is_not_served(rig: LoginRig) -> None:
    for number, late in ((1, ListGroups()), (2, Login("PLAIN", b"\0alice\0secret"))):
        rig.connect(number)
        (challenge,) = rig.ask(number, Login("SCRAM-SHA-256", b"n,,n=alice,r=nonce"))
        assert isinstance(challenge, LoginReply) and challenge.auth_bytes and not challenge.done
        assert rig.ask(number, late) == []
        assert "login" in rig.closed[number]


def test_nothing_is_served_while_a_password_is_checked(rig: LoginRig) -> None:
    rig.connect(1)
    assert rig.ask(1, Login("PLAIN", b"\0alice\0secret"), Login("PLAIN", b"\0alice\0secret")) == []
    assert "during another login" in rig.closed[1]
    assert not rig.checks, "nobody waits for it"
    assert not rig.node.core.connections


@pytest.mark.parametrize("mechanism", ALL.all)
@pytest.mark.parametrize(("user", "password"), [("alice", "other-pass"), ("nobody", "secret")])
def test_a_failed_login_is_answered_as_kafkas_after_the_same_delay_and_closed(
    rig: LoginRig, mechanism: str, user: str, password: str
) -> None:
    rig.connect(1)
    failed = log_in_natively(rig, 1, mechanism, user, password)
    assert failed.error_code is WRONG
    assert (rig.now_ms, rig.closed[1]) == (DELAY_MS, "")
    kafka = LoginRig()
    theirs = log_in(kafka, Peer(kafka, 1), mechanism, user, password)
    assert (theirs.error_code, kafka.complaints) == (failed.error_code, rig.complaints)


def test_a_mechanism_that_is_not_enabled_is_refused_by_name(rig: LoginRig) -> None:
    rig.connect(1)
    assert rig.ask(1, Login("GSSAPI")) == []
    rig.wait(DELAY_MS)
    (refused,) = rig.heard(1)
    assert isinstance(refused, LoginReply) and refused.error_code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert 1 in rig.closed


def test_a_login_ends_and_can_be_renewed_on_the_connection() -> None:
    rig = LoginRig(connections_max_reauth_ms=10_000)
    rig.connect(1)
    assert log_in_natively(rig, 1).session_lifetime_ms == 10_000
    too_soon = log_in_natively(rig, 1)
    assert too_soon.error_code is ErrorCode.ILLEGAL_SASL_STATE
    rig.wait(9_000)
    assert log_in_natively(rig, 1).session_lifetime_ms == 10_000
    rig.wait(9_999)
    assert rig.ask(1, BEAT) and rig.ask(1, ListGroups())
    rig.wait(1)
    assert rig.ask(1, BEAT) == []
    assert "has expired" in rig.closed[1]


def test_a_connection_cannot_change_its_principal(rig: LoginRig) -> None:
    rig.connect(1)
    log_in_natively(rig, 1)
    rig.wait(1_000)
    assert log_in_natively(rig, 1, user="bob").error_code is WRONG
    assert 1 in rig.closed


def test_failures_of_both_dialects_fill_one_bucket(rig: LoginRig) -> None:
    for number in range(BURST):
        log_in(rig, Peer(rig, 10 + number), password="wrong")
    rig.now_ms = 0  # all at once
    rig.connect(1)
    rig.ask(1, Login("PLAIN", b"\0alice\0secret"))
    assert not rig.checks, "not even looked at"


def test_a_large_request_before_the_login_closes_the_connection_and_one_after_it_does_not(rig: LoginRig) -> None:
    rig.connect(1)
    rig.ask(1, Login("PLAIN", b"x" * 600_000))
    assert 1 in rig.closed
    rig.connect(2)
    log_in_natively(rig, 2)
    assert rig.ask(2, ListGroups(states_filter=("x" * 7_000,) * 100))
    assert 2 not in rig.closed
