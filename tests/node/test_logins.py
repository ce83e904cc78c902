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
from tests.node.test_kafka import NEW, KafkaDesk, Peer

ALL = Mechanisms(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"))
DELAY_MS = 100
WRONG = ErrorCode.SASL_AUTHENTICATION_FAILED


class LoginDesk(KafkaDesk):
    """A desk that asks clients of Kafka's for a login. Alice is known. Checks of passwords run when they are told."""

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
def desk() -> LoginDesk:
    return LoginDesk()


def log_in(desk: LoginDesk, peer: Peer, mechanism: str = "PLAIN", user: str = "alice", password: str = "secret") -> Any:
    """The last answer of a login."""
    client = SaslClient(mechanism, user, password, "nonce")
    (reply,) = peer.ask((client.begin(), 1))
    while (request := client.on_reply(reply)) is not None:
        replies = peer.ask((request, 2))
        if desk.checks:
            desk.end_check()
            desk.wait(0)
            replies = peer.heard()
        desk.wait(0)
        replies = replies or peer.heard()
        if not replies:
            desk.wait(DELAY_MS)
            (failed,) = peer.heard()
            return failed
        (reply,) = replies
    return reply


@pytest.mark.parametrize("mechanism", ALL.all)
def test_who_has_logged_in_is_served(desk: LoginDesk, mechanism: str) -> None:
    peer = Peer(desk, 1)
    assert isinstance(peer.ask((ApiVersions("kafka-python", "2.0"), 3))[0], ApiVersionsReply)
    done = log_in(desk, peer, mechanism)
    assert (done.error_code, done.session_lifetime_ms) == (ErrorCode.NONE, 0)
    assert desk.node.core.connections[1].principal == "User:alice"
    assert isinstance(peer.ask((ListGroups(), 4))[0], ListGroupsReply)
    beat = peer.ask((Heartbeat("g", 1, "m"), 4))
    assert beat == [HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)]


@pytest.mark.parametrize(
    ("request_", "version"),
    [(ListGroups(), 4), (Heartbeat("g", 1, "m"), 4), (SaslAuthenticate(b"\0alice\0secret"), 2)],
)
def test_what_is_sent_before_the_login_closes_the_connection_without_an_answer(
    desk: LoginDesk, request_: Message, version: int
) -> None:
    peer = Peer(desk, 1)
    assert peer.ask((request_, version)) == []
    assert "login" in desk.closed[1] or "SaslHandshake" in desk.closed[1]
    assert not desk.node.core.connections


@pytest.mark.parametrize(("request_", "version"), [(ListGroups(), 4), (SaslHandshake("PLAIN"), 1)])
def test_after_the_handshake_only_the_exchange_goes_on(desk: LoginDesk, request_: Message, version: int) -> None:
    peer = Peer(desk, 1)
    assert peer.ask((SaslHandshake("PLAIN"), 1)) == [SaslHandshakeReply(ErrorCode.NONE, ALL.all)]
    assert peer.ask((request_, version)) == []
    assert 1 in desk.closed


def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are(desk: LoginDesk) -> None:
    peer = Peer(desk, 1)
    assert peer.ask((SaslHandshake("GSSAPI"), 1)) == []
    desk.wait(DELAY_MS)
    assert peer.heard() == [SaslHandshakeReply(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ALL.all)]
    assert 1 in desk.closed


@pytest.mark.parametrize("mechanism", ALL.all)
@pytest.mark.parametrize(("user", "password"), [("alice", "other-pass"), ("nobody", "secret")])
def test_a_failed_login_is_answered_after_the_delay_and_closed(
    desk: LoginDesk, mechanism: str, user: str, password: str
) -> None:
    peer = Peer(desk, 1)
    failed = log_in(desk, peer, mechanism, user, password)
    sentence = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    assert (failed.error_code, failed.error_message) == (WRONG, sentence)
    assert desk.closed[1] == ""
    assert desk.now_ms == DELAY_MS
    (told,) = desk.complaints
    assert repr(user) in told and password not in told


def test_the_delay_counts_from_the_request_however_long_the_check_took(desk: LoginDesk) -> None:
    peer = Peer(desk, 1)
    peer.ask((SaslHandshake("PLAIN"), 1))
    peer.ask((SaslAuthenticate(b"\0nobody\0secret"), 2))
    desk.wait(60)
    desk.end_check()
    assert peer.heard() == []
    desk.wait(39)
    assert peer.heard() == []
    desk.wait(1)
    (failed,) = peer.heard()
    assert failed.error_code is WRONG  # type: ignore[attr-defined]


def begin_plain(desk: LoginDesk, number: int, *behind: tuple[Message, int]) -> Peer:
    """A client whose password is being checked."""
    peer = Peer(desk, number)
    peer.ask((SaslHandshake("PLAIN"), 1))
    peer.send((SaslAuthenticate(b"\0alice\0secret"), 2), *behind)
    return peer


@pytest.mark.parametrize("event", [Lost, Ended])
def test_the_check_of_a_client_that_has_gone_is_dropped(desk: LoginDesk, event: type[Lost | Ended]) -> None:
    begin_plain(desk, 1)
    begin_plain(desk, 2)
    desk.step(event(1))
    assert set(desk.node.core.connections) == {2}
    assert len(desk.checks) == 1
    desk.end_check()
    assert desk.node.core.connections[2].principal == "User:alice"
    assert not desk.complaints


def test_a_check_that_has_run_when_its_client_goes_lets_nobody_in(desk: LoginDesk) -> None:
    begin_plain(desk, 1)
    (check,) = desk.checks
    check.job.run()
    desk.step(Lost(1))
    desk.step(PasswordChecked(check.check_id, check.job))
    assert not desk.node.core.connections
    assert "logins" not in desk.node.core.counters


def test_clients_that_have_gone_take_no_room_from_the_living(desk: LoginDesk) -> None:
    for number in range(1, 2 * MOST_CHECKS):
        begin_plain(desk, number)
        desk.step(Ended(number))
    peer = begin_plain(desk, 2 * MOST_CHECKS)
    desk.end_check()
    (done,) = peer.heard()
    assert isinstance(done, SaslAuthenticateReply) and not done.error_code


def test_a_half_closed_client_is_answered_what_it_asked_behind_its_login(desk: LoginDesk) -> None:
    peer = begin_plain(desk, 1, (ListGroups(), 4))
    desk.step(Ended(1))
    desk.end_check()
    desk.wait(0)
    assert [type(one) for one in peer.heard()] == [SaslAuthenticateReply, ListGroupsReply]
    assert desk.closed == {1: ""}


def test_requests_behind_a_failed_login_are_not_served(desk: LoginDesk) -> None:
    peer = Peer(desk, 1)
    peer.ask((SaslHandshake("PLAIN"), 1))
    peer.send((SaslAuthenticate(b"\0alice\0wrong"), 2), (ListGroups(), 4))
    desk.end_check()
    desk.wait(DELAY_MS)
    (failed,) = peer.heard()
    assert failed.error_code is WRONG  # type: ignore[attr-defined]
    assert 1 in desk.closed


def test_a_login_lasts_as_long_as_it_says_and_can_be_renewed_on_the_connection() -> None:
    desk = LoginDesk(connections_max_reauth_ms=10_000)
    peer = Peer(desk, 1)
    assert log_in(desk, peer, "SCRAM-SHA-256").session_lifetime_ms == 10_000
    desk.wait(9_000)
    assert log_in(desk, peer, "SCRAM-SHA-256").session_lifetime_ms == 10_000
    desk.wait(9_999)
    assert peer.ask((Heartbeat("g", 1, "m"), 4)) and peer.ask((ListGroups(), 4))
    desk.wait(1)
    assert peer.ask((Heartbeat("g", 1, "m"), 4)) == []
    assert "has expired" in desk.closed[1]


def test_a_login_that_has_expired_can_still_be_renewed() -> None:
    desk = LoginDesk(connections_max_reauth_ms=10_000)
    peer = Peer(desk, 1)
    log_in(desk, peer)
    desk.wait(20_000)
    assert not log_in(desk, peer).error_code
    assert peer.ask((ListGroups(), 4))


@pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "bob"), ("SCRAM-SHA-256", "alice")])
def test_a_connection_cannot_change_its_principal_or_its_mechanism(desk: LoginDesk, mechanism: str, user: str) -> None:
    peer = Peer(desk, 1)
    log_in(desk, peer)
    desk.wait(1_000)
    failed = log_in(desk, peer, mechanism, user)
    assert failed.error_code is WRONG
    assert "during re-authentication" in failed.error_message
    assert 1 in desk.closed


def test_logins_in_quick_succession_are_refused_and_the_connection_goes_on(desk: LoginDesk) -> None:
    peer = Peer(desk, 1)
    log_in(desk, peer)
    assert peer.ask((SaslHandshake("PLAIN"), 1)) == [SaslHandshakeReply(ErrorCode.ILLEGAL_SASL_STATE)]
    (reply,) = peer.ask((SaslAuthenticate(b"\0alice\0secret"), 2))
    assert isinstance(reply, SaslAuthenticateReply) and reply.error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert peer.ask((ListGroups(), 4))


def test_an_address_from_which_many_logins_failed_is_not_listened_to_for_a_while(desk: LoginDesk) -> None:
    for number in range(BURST):
        log_in(desk, Peer(desk, 10 + number), password="wrong")
    desk.now_ms = 0  # all at once
    peer = Peer(desk, 1)
    peer.ask((SaslHandshake("PLAIN"), 1))
    peer.ask((SaslAuthenticate(b"\0alice\0secret"), 2))
    assert not desk.checks, "not even looked at"


def test_a_bucket_of_failures_empties_with_time() -> None:
    failed = FailedLogins()
    for _ in range(BURST):
        assert not failed.is_limited("one", 0)
        failed.add("one", 0)
    assert failed.is_limited("one", REFILL_MS - 1)
    assert not failed.is_limited("other", 0)
    assert not failed.is_limited("one", REFILL_MS)


def test_a_large_request_before_the_login_closes_the_connection_and_one_after_it_does_not(desk: LoginDesk) -> None:
    peer = Peer(desk, 1)
    assert peer.ask((SaslHandshake("PLAIN"), 1))
    peer.ask((SaslAuthenticate(b"x" * 600_000), 2))
    assert "allowed" in desk.closed[1]
    later = Peer(desk, 2)
    log_in(desk, later)
    later.ask((ListGroups(states_filter=("x" * 7_000,) * 100), 4))
    assert 2 not in desk.closed


def test_notes_name_the_principal(desk: LoginDesk) -> None:
    peer = Peer(desk, 1)
    log_in(desk, peer)
    peer.ask((NEW, 3))
    desk.wait(0)
    (reply,) = peer.ask((ListGroups(), 4))
    assert isinstance(reply, ListGroupsReply)
    assert desk.node.core.client(1).principal == "User:alice"
    assert "User:alice" in repr(desk.ask_inside(ListNotes("g")))


def test_ten_thousand_failed_logins_fill_no_memory_and_no_log_and_others_are_served(desk: LoginDesk) -> None:
    other = Peer(desk, 1)
    log_in(desk, other, "SCRAM-SHA-256")
    guess = [(SaslHandshake("SCRAM-SHA-256"), 1), (SaslAuthenticate(b"n,,n=alice,r=x"), 2)]
    for number in range(2, 10_002):
        attacker = Peer(desk, number)
        attacker.send(*guess, (SaslAuthenticate(b"c=biws,r=x,p=AAAA"), 2))
        if number % 500 == 0:
            assert other.ask((Heartbeat("g", 1, "m"), 4)) == [HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)]
            desk.wait(DELAY_MS)
            assert set(desk.node.core.connections) == {1}
    desk.wait(DELAY_MS)
    core = desk.node.core
    assert set(core.connections) == {1}
    assert set(desk.node.logins._states) == {1}
    assert not desk.checks
    assert len(desk.complaints) < 2 * BURST
    assert core.counters["logins_limited"] > 9_000
    assert core.counters["logins_failed"] == 10_000


def test_nothing_is_served_in_the_middle_of_a_login_on_a_live_connection(desk: LoginDesk) -> None:
    peer = Peer(desk, 1)
    log_in(desk, peer, "SCRAM-SHA-256")
    desk.wait(2_000)
    peer.ask((SaslHandshake("SCRAM-SHA-256"), 1))
    assert not peer.ask((ListGroups(), 4)) and "before the login is done" in desk.closed[1]
