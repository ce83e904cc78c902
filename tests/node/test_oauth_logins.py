"""Logins by tokens of an identity provider: OAUTHBEARER, over Kafka's protocol and the native one."""

import json
from typing import Any

import pytest

from coordinator.accounts.oauth import INVALID_TOKEN
from coordinator.config.accounts import Audiences, Mechanisms
from coordinator.config.keys import Secret
from coordinator.node.events import PasswordGiven
from coordinator.node.login_limits import BURST
from protocol.errors import ErrorCode
from protocol.kafka.login import LoginRefused, SaslClient
from protocol.messages.groups import ListGroups, ListGroupsReply
from protocol.messages.node import (
    HttpLoginReply,
    Login,
    LoginReply,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshakeReply,
)
from tests.accounts.identity_provider import AUDIENCE, ISSUER, claims, key_set, rsa_key, token
from tests.node.node_rig import WALL_MS
from tests.node.test_audit_log import AuditRig
from tests.node.test_kafka import Peer
from tests.node.test_logins import DELAY_MS, WRONG, log_in

KEY = rsa_key()


def oauth_rig(**settings: Any) -> AuditRig:
    given: dict[str, Any] = {
        "sasl_enabled_mechanisms": Mechanisms(("OAUTHBEARER", "SCRAM-SHA-256")),
        "sasl_oauthbearer_expected_audience": Audiences((AUDIENCE,)),
        "sasl_oauthbearer_expected_issuer": ISSUER,
    }
    rig = AuditRig(**given, **settings)
    assert rig.node.core.tokens is not None
    rig.node.core.tokens.set_keys(key_set(KEY))
    return rig


@pytest.fixture
def rig() -> AuditRig:
    return oauth_rig()


def enter(rig: AuditRig, peer: Peer, given: str) -> Any:
    return log_in(rig, peer, "OAUTHBEARER", "", given)


def show(peer: Peer, given: str) -> list[Any]:
    """Show a token, and do no more."""
    client = SaslClient("OAUTHBEARER", "", given)
    (handshake,) = peer.ask((client.begin(), 1))
    first = client.on_reply(handshake)
    assert first is not None
    return peer.ask((first, 2))


def of_alice(**changed: Any) -> str:
    return token(KEY, claims(WALL_MS, **changed))


def test_a_client_with_a_token_is_its_subject(rig: AuditRig) -> None:
    peer = Peer(rig, 1)
    reply = enter(rig, peer, of_alice())
    assert (reply.error_code, reply.auth_bytes) == (ErrorCode.NONE, b"")
    assert rig.node.core.connections[1].principal == "User:alice"
    (listed,) = peer.ask((ListGroups(), 4))
    assert isinstance(listed, ListGroupsReply)
    (line,) = rig.told()
    assert (line["event"], line["principal"], line["mechanism"]) == ("login", "User:alice", "OAUTHBEARER")


def test_a_login_ends_with_its_token_or_before(rig: AuditRig) -> None:
    peer = Peer(rig, 1)
    assert enter(rig, peer, of_alice()).session_lifetime_ms == 300_000
    rig.wait(200_000)
    later = token(KEY, claims(WALL_MS + 200_000))
    assert enter(rig, peer, later).session_lifetime_ms == 300_000, "renewed on the connection"
    rig.wait(299_999)
    assert peer.ask((ListGroups(), 4))
    rig.wait(1)
    assert not peer.ask((ListGroups(), 4)) and "expired" in rig.closed[1]
    short = oauth_rig(connections_max_reauth_ms=60_000)
    assert enter(short, Peer(short, 1), of_alice()).session_lifetime_ms == 60_000


@pytest.mark.parametrize("given", [of_alice(aud="other"), token(rsa_key(), claims(WALL_MS)), "no.token", "x" * 40_000])
def test_a_token_that_is_refused_is_told_in_kafkas_words_and_counts(rig: AuditRig, given: str) -> None:
    peer = Peer(rig, 1)
    client = SaslClient("OAUTHBEARER", "", given)
    (handshake,) = peer.ask((client.begin(), 1))
    first = client.on_reply(handshake)
    assert first is not None
    assert not peer.ask((first, 2))
    rig.end_check()
    (told,) = peer.heard()
    assert isinstance(told, SaslAuthenticateReply) and told.auth_bytes == INVALID_TOKEN and not told.error_code
    last = client.on_reply(told)
    assert last == SaslAuthenticate(b"\x01")
    assert not peer.ask((last, 2)), "not before the delay"
    rig.wait(DELAY_MS)
    (refused,) = peer.heard()
    with pytest.raises(LoginRefused, match="invalid_token"):
        client.on_reply(refused)
    assert 1 in rig.closed
    (line,) = rig.told()
    assert line["event"] == "login failed" and line["why"] and given not in json.dumps(line)


def test_a_client_that_does_not_end_a_refused_login_is_limited_all_the_same(rig: AuditRig) -> None:
    for number in range(BURST):
        show(Peer(rig, number + 1), "no.token")
        rig.end_check()
    assert not show(Peer(rig, 1_000), of_alice()) and not rig.checks


def test_a_refused_token_is_told_once_whether_the_client_ends_its_login_or_not(rig: AuditRig) -> None:
    peer = Peer(rig, 1)
    show(peer, "no.token")
    rig.end_check()
    (line,) = rig.told()
    assert line["event"] == "login failed" and line["why"]
    assert rig.node.core.counters["logins_failed"] == 1
    peer.heard()
    assert not peer.ask((ListGroups(), 4)) and "before the login is done" in rig.closed[1]
    ending = Peer(rig, 2)
    show(ending, "no.token")
    rig.end_check()
    ending.ask((SaslAuthenticate(b"\x01"), 2))
    rig.wait(DELAY_MS)
    assert rig.node.core.counters["logins_failed"] == 2


def test_after_a_refusal_another_token_does_not_help(rig: AuditRig) -> None:
    peer = Peer(rig, 1)
    show(peer, "no.token")
    rig.end_check()
    peer.heard()
    good = f"n,,\x01auth=Bearer {of_alice()}\x01\x01".encode()
    assert not peer.ask((SaslAuthenticate(good), 2)) and not rig.checks
    rig.wait(DELAY_MS)
    (refused,) = peer.heard()
    assert refused.error_code is WRONG  # type: ignore[attr-defined]


def test_nobody_asks_for_the_rights_of_another_or_changes_who_it_is(rig: AuditRig) -> None:
    peer = Peer(rig, 1)
    enter(rig, peer, of_alice())
    rig.wait(2_000)
    refused = enter(rig, peer, of_alice(sub="root"))
    assert refused.error_code is WRONG
    other = Peer(rig, 2)
    client = SaslClient("OAUTHBEARER", "", "x")
    other.ask((client.begin(), 1))
    other.ask((SaslAuthenticate(f"n,a=root,\x01auth=Bearer {of_alice()}\x01\x01".encode()), 2))
    rig.end_check()
    (told,) = other.heard()
    assert told == SaslAuthenticateReply(auth_bytes=INVALID_TOKEN)


def test_native_clients_come_in_by_tokens_as_well(rig: AuditRig) -> None:
    def say(number: int, auth_bytes: bytes) -> list[Any]:
        replies = rig.ask(number, Login("OAUTHBEARER", auth_bytes))
        if rig.checks:
            rig.end_check()
            replies = rig.heard(number)
        return replies

    first = SaslClient("OAUTHBEARER", "", of_alice())
    first.begin()
    message = first.on_reply(SaslHandshakeReply())
    assert message is not None
    rig.connect(1)
    assert say(1, message.auth_bytes) == [LoginReply(b"", True, 300_000)]
    rig.connect(2)
    bad = message.auth_bytes.replace(b"Bearer ", b"Bearer x")
    assert say(2, bad) == [LoginReply(INVALID_TOKEN, False, 0)]
    assert not say(2, b"\x01")
    rig.wait(DELAY_MS)
    (refused,) = rig.heard(2)
    assert isinstance(refused, LoginReply) and refused.error_code is WRONG


def test_tokens_are_a_login_of_http_requests_too(rig: AuditRig) -> None:
    for number, given in enumerate((of_alice(), of_alice(aud="other"), "é \x01", "")):
        rig.step(PasswordGiven(number, None, Secret(given), "127.0.0.1"))
        if rig.checks:
            rig.end_check()
        rig.wait(DELAY_MS)
    assert rig.replied.pop(0) == HttpLoginReply("User:alice")
    assert {one.error_code for one in rig.replied.values()} == {WRONG} and len(rig.replied) == 3  # type: ignore[attr-defined]
    good, *bad = rig.told()
    assert (good["principal"], good["mechanism"], good["listener"]) == ("User:alice", "Bearer", "http")
    assert len(bad) == 3 and {one["event"] for one in bad} == {"login failed"}


def test_without_an_identity_provider_a_token_is_no_login() -> None:
    rig = AuditRig()
    rig.step(PasswordGiven(1, None, Secret(of_alice()), "127.0.0.1"))
    rig.wait(DELAY_MS)
    assert rig.replied[1] == HttpLoginReply(error_code=WRONG)
