"""Logins of Kafka's clients: what is answered, what is closed, and who a connection is afterwards."""

from typing import Any

import pytest

from coordinator.config.accounts import Mechanisms
from coordinator.node.effects import CheckPassword, DropCheck, Effect
from coordinator.node.events import Ended, Lost, PasswordChecked
from coordinator.node.login_checks import MOST_CHECKS
from coordinator.node.login_limits import BURST, REFILL_MS, FailedLogins
from protocol.errors import ErrorCode
from protocol.kafka.login import SaslClient
from protocol.messages import Message
from protocol.messages.groups import Heartbeat, HeartbeatReply, ListGroups, ListGroupsReply, ListNotes
from protocol.messages.node import (
    ApiVersions,
    ApiVersionsReply,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshake,
    SaslHandshakeReply,
)
from tests.accounts.rig import NOW, credential_records
from tests.node.test_kafka import NEW, KafkaNodeRig, Peer

ALL = Mechanisms(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))
DELAY_MS = 100
WRONG = ErrorCode.SASL_AUTHENTICATION_FAILED


class LoginRig(KafkaNodeRig):
    """A node that asks clients of Kafka's for a login. Alice is known. Checks of passwords run when they are told."""

    def __init__(self, **settings: Any) -> None:
        self.checks: list[CheckPassword] = []
        super().__init__(**{"sasl_enabled_mechanisms": ALL, **settings})
        self.node.core.accounts.write(credential_records("alice", "secret"), NOW)
        self.node.core.accounts.write(credential_records("bob", "secret"), NOW)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, CheckPassword):
            self.checks.append(effect)
        elif isinstance(effect, DropCheck):
            self.checks = [one for one in self.checks if one.check_id != effect.check_id]
        else:
            super()._carry_out(effect)

    def end_check(self) -> None:
        effect = self.checks.pop(0)
        effect.job.run()
        self.step(PasswordChecked(effect.check_id, effect.job))


@pytest.fixture
def rig() -> LoginRig:
    return LoginRig()


def log_in(rig: LoginRig, peer: Peer, mechanism: str = "PLAIN", user: str = "alice", password: str = "secret") -> Any:
    """The last answer of a login."""
    client = SaslClient(mechanism, user, password, "nonce")
    (reply,) = peer.ask((client.begin(), 1))
    while (request := client.on_reply(reply)) is not None:
        replies = peer.ask((request, 2))
        if rig.checks:
            rig.end_check()
            rig.wait(0)
            replies = peer.heard()
        rig.wait(0)
        replies = replies or peer.heard()
        if not replies:
            rig.wait(DELAY_MS)
            (failed,) = peer.heard()
            return failed
        (reply,) = replies
    return reply


@pytest.mark.parametrize("mechanism", ALL.all)
def test_who_has_logged_in_is_served(rig: LoginRig, mechanism: str) -> None:
    peer = Peer(rig, 1)
    assert isinstance(peer.ask((ApiVersions("kafka-python", "2.0"), 3))[0], ApiVersionsReply)
    done = log_in(rig, peer, mechanism)
    assert (done.error_code, done.session_lifetime_ms) == (ErrorCode.NONE, 0)
    assert rig.node.core.connections[1].principal == "User:alice"
    assert isinstance(peer.ask((ListGroups(), 4))[0], ListGroupsReply)
    beat = peer.ask((Heartbeat("g", 1, "m"), 4))
    assert beat == [HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)]


@pytest.mark.parametrize(
    ("request_", "version"),
    [(ListGroups(), 4), (Heartbeat("g", 1, "m"), 4), (SaslAuthenticate(b"\0alice\0secret"), 2)],
)
def test_what_is_sent_before_the_login_closes_the_connection_without_an_answer(
    rig: LoginRig, request_: Message, version: int
) -> None:
    peer = Peer(rig, 1)
    assert peer.ask((request_, version)) == []
    assert "login" in rig.closed[1] or "SaslHandshake" in rig.closed[1]
    assert not rig.node.core.connections


@pytest.mark.parametrize(("request_", "version"), [(ListGroups(), 4), (SaslHandshake("PLAIN"), 1)])
def test_after_the_handshake_only_the_exchange_goes_on(rig: LoginRig, request_: Message, version: int) -> None:
    peer = Peer(rig, 1)
    assert peer.ask((SaslHandshake("PLAIN"), 1)) == [SaslHandshakeReply(ErrorCode.NONE, ALL.all)]
    assert peer.ask((request_, version)) == []
    assert 1 in rig.closed


def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are(rig: LoginRig) -> None:
    peer = Peer(rig, 1)
    assert peer.ask((SaslHandshake("GSSAPI"), 1)) == []
    rig.wait(DELAY_MS)
    assert peer.heard() == [SaslHandshakeReply(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ALL.all)]
    assert 1 in rig.closed


@pytest.mark.parametrize("mechanism", ALL.all)
@pytest.mark.parametrize(("user", "password"), [("alice", "other-pass"), ("nobody", "secret")])
def test_a_failed_login_is_answered_after_the_delay_and_closed(
    rig: LoginRig, mechanism: str, user: str, password: str
) -> None:
    peer = Peer(rig, 1)
    failed = log_in(rig, peer, mechanism, user, password)
    sentence = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    assert (failed.error_code, failed.error_message) == (WRONG, sentence)
    assert rig.closed[1] == ""
    assert rig.now_ms == DELAY_MS
    (told,) = rig.complaints
    assert repr(user) in told and password not in told


def test_the_delay_counts_from_the_request_however_long_the_check_took(rig: LoginRig) -> None:
    peer = Peer(rig, 1)
    peer.ask((SaslHandshake("PLAIN"), 1))
    peer.ask((SaslAuthenticate(b"\0nobody\0secret"), 2))
    rig.wait(60)
    rig.end_check()
    assert peer.heard() == []
    rig.wait(39)
    assert peer.heard() == []
    rig.wait(1)
    (failed,) = peer.heard()
    assert failed.error_code is WRONG  # type: ignore[attr-defined]


def begin_plain(rig: LoginRig, number: int, *behind: tuple[Message, int]) -> Peer:
    """A client whose password is being checked."""
    peer = Peer(rig, number)
    peer.ask((SaslHandshake("PLAIN"), 1))
    peer.send((SaslAuthenticate(b"\0alice\0secret"), 2), *behind)
    return peer


@pytest.mark.parametrize("event", [Lost, Ended])
def test_the_check_of_a_client_that_has_gone_is_dropped(rig: LoginRig, event: type[Lost | Ended]) -> None:
    begin_plain(rig, 1)
    begin_plain(rig, 2)
    rig.step(event(1))
    assert set(rig.node.core.connections) == {2}
    assert len(rig.checks) == 1
    rig.end_check()
    assert rig.node.core.connections[2].principal == "User:alice"
    assert not rig.complaints


def test_a_check_that_has_run_when_its_client_goes_lets_nobody_in(rig: LoginRig) -> None:
    begin_plain(rig, 1)
    (check,) = rig.checks
    check.job.run()
    rig.step(Lost(1))
    rig.step(PasswordChecked(check.check_id, check.job))
    assert not rig.node.core.connections
    assert "logins" not in rig.node.core.counters


def test_clients_that_have_gone_take_no_room_from_the_living(rig: LoginRig) -> None:
    for number in range(1, 2 * MOST_CHECKS):
        begin_plain(rig, number)
        rig.step(Ended(number))
    peer = begin_plain(rig, 2 * MOST_CHECKS)
    rig.end_check()
    (done,) = peer.heard()
    assert isinstance(done, SaslAuthenticateReply) and not done.error_code


def test_a_half_closed_client_is_answered_what_it_asked_behind_its_login(rig: LoginRig) -> None:
    peer = begin_plain(rig, 1, (ListGroups(), 4))
    rig.step(Ended(1))
    rig.end_check()
    rig.wait(0)
    assert [type(one) for one in peer.heard()] == [SaslAuthenticateReply, ListGroupsReply]
    assert rig.closed == {1: ""}


def test_requests_behind_a_failed_login_are_not_served(rig: LoginRig) -> None:
    peer = Peer(rig, 1)
    peer.ask((SaslHandshake("PLAIN"), 1))
    peer.send((SaslAuthenticate(b"\0alice\0wrong"), 2), (ListGroups(), 4))
    rig.end_check()
    rig.wait(DELAY_MS)
    (failed,) = peer.heard()
    assert failed.error_code is WRONG  # type: ignore[attr-defined]
    assert 1 in rig.closed


def test_a_login_lasts_as_long_as_it_says_and_can_be_renewed_on_the_connection() -> None:
    rig = LoginRig(connections_max_reauth_ms=10_000)
    peer = Peer(rig, 1)
    assert log_in(rig, peer, "SCRAM-SHA-256").session_lifetime_ms == 10_000
    rig.wait(9_000)
    assert log_in(rig, peer, "SCRAM-SHA-256").session_lifetime_ms == 10_000
    rig.wait(9_999)
    assert peer.ask((Heartbeat("g", 1, "m"), 4)) and peer.ask((ListGroups(), 4))
    rig.wait(1)
    assert peer.ask((Heartbeat("g", 1, "m"), 4)) == []
    assert "has expired" in rig.closed[1]


def test_a_login_that_has_expired_can_still_be_renewed() -> None:
    rig = LoginRig(connections_max_reauth_ms=10_000)
    peer = Peer(rig, 1)
    log_in(rig, peer)
    rig.wait(20_000)
    assert not log_in(rig, peer).error_code
    assert peer.ask((ListGroups(), 4))


@pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "bob"), ("SCRAM-SHA-256", "alice")])
def test_a_connection_cannot_change_its_principal_or_its_mechanism(rig: LoginRig, mechanism: str, user: str) -> None:
    peer = Peer(rig, 1)
    log_in(rig, peer)
    rig.wait(1_000)
    failed = log_in(rig, peer, mechanism, user)
    assert failed.error_code is WRONG
    assert "during re-authentication" in failed.error_message
    assert 1 in rig.closed


def test_logins_in_quick_succession_are_refused_and_the_connection_goes_on(rig: LoginRig) -> None:
    peer = Peer(rig, 1)
    log_in(rig, peer)
    assert peer.ask((SaslHandshake("PLAIN"), 1)) == [SaslHandshakeReply(ErrorCode.ILLEGAL_SASL_STATE)]
    (reply,) = peer.ask((SaslAuthenticate(b"\0alice\0secret"), 2))
    assert isinstance(reply, SaslAuthenticateReply) and reply.error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert peer.ask((ListGroups(), 4))


def test_an_address_from_which_many_logins_failed_is_not_listened_to_for_a_while(rig: LoginRig) -> None:
    for number in range(BURST):
        log_in(rig, Peer(rig, 10 + number), password="wrong")
    rig.now_ms = 0  # all at once
    peer = Peer(rig, 1)
    peer.ask((SaslHandshake("PLAIN"), 1))
    peer.ask((SaslAuthenticate(b"\0alice\0secret"), 2))
    assert not rig.checks, "not even looked at"


def test_a_bucket_of_failures_empties_with_time() -> None:
    failed = FailedLogins()
    for _ in range(BURST):
        assert not failed.is_limited("one", 0)
        failed.add("one", 0)
    assert failed.is_limited("one", REFILL_MS - 1)
    assert not failed.is_limited("other", 0)
    assert not failed.is_limited("one", REFILL_MS)


def test_a_large_request_before_the_login_closes_the_connection_and_one_after_it_does_not(rig: LoginRig) -> None:
    peer = Peer(rig, 1)
    assert peer.ask((SaslHandshake("PLAIN"), 1))
    peer.ask((SaslAuthenticate(b"x" * 600_000), 2))
    assert "allowed" in rig.closed[1]
    later = Peer(rig, 2)
    log_in(rig, later)
    later.ask((ListGroups(states_filter=("x" * 7_000,) * 100), 4))
    assert 2 not in rig.closed


def test_notes_name_the_principal(rig: LoginRig) -> None:
    peer = Peer(rig, 1)
    log_in(rig, peer)
    peer.ask((NEW, 3))
    rig.wait(0)
    (reply,) = peer.ask((ListGroups(), 4))
    assert isinstance(reply, ListGroupsReply)
    assert rig.node.core.client(1).principal == "User:alice"
    assert "User:alice" in repr(rig.ask_inside(ListNotes("g")))


def test_ten_thousand_failed_logins_fill_no_memory_and_no_log_and_others_are_served(rig: LoginRig) -> None:
    other = Peer(rig, 1)
    log_in(rig, other, "SCRAM-SHA-256")
    guess = [(SaslHandshake("SCRAM-SHA-256"), 1), (SaslAuthenticate(b"n,,n=alice,r=x"), 2)]
    for number in range(2, 10_002):
        attacker = Peer(rig, number)
        attacker.send(*guess, (SaslAuthenticate(b"c=biws,r=x,p=AAAA"), 2))
        if number % 500 == 0:
            assert other.ask((Heartbeat("g", 1, "m"), 4)) == [HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)]
            rig.wait(DELAY_MS)
            assert set(rig.node.core.connections) == {1}
    rig.wait(DELAY_MS)
    core = rig.node.core
    assert set(core.connections) == {1}
    assert set(rig.node.logins._states) == {1}
    assert not rig.checks
    assert len(rig.complaints) < 2 * BURST
    assert core.counters["logins_limited"] > 9_000
    assert core.counters["logins_failed"] == 10_000


def test_nothing_is_served_in_the_middle_of_a_login_on_a_live_connection(rig: LoginRig) -> None:
    peer = Peer(rig, 1)
    log_in(rig, peer, "SCRAM-SHA-256")
    rig.wait(2_000)
    peer.ask((SaslHandshake("SCRAM-SHA-256"), 1))
    assert not peer.ask((ListGroups(), 4)) and "before the login is done" in rig.closed[1]
