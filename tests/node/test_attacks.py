"""Attacks on logins while somebody else is logged in and a member: they are refused, and the other notices nothing.
docs/security.md#attacks lists all."""

import hmac
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import pytest

from coordinator.config.keys import Secret
from coordinator.node.events import Lost, PasswordGiven, PasswordWithdrawn
from coordinator.node.login_checks import MOST_STARTED
from protocol.kafka.login import LoginRefused, SaslClient
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.messages.node import HttpLoginReply, Login, SaslAuthenticate, SaslAuthenticateReply, SaslHandshake
from tests.accounts.identity_provider import claims, rsa_key, token
from tests.accounts.test_oauth import part
from tests.node.node_rig import WALL_MS
from tests.node.test_kafka import Peer, member_of
from tests.node.test_logins import ALL, DELAY_MS, WRONG, LoginRig, log_in
from tests.node.test_native_logins import log_in_natively
from tests.node.test_oauth_logins import KEY, oauth_rig

ATTACKER, HTTP = "10.66.0.1", "127.0.0.1"
BYSTANDER, VICTIM, THIEF = 1_000_000, 1, 2


@contextmanager
def bystander(rig: LoginRig) -> Iterator[Callable[[], None]]:
    """Alice, a member whose heartbeats are answered at once, during the attack and after it."""
    peer = Peer(rig, BYSTANDER)
    log_in(rig, peer, "SCRAM-SHA-256")
    member_id, generation = member_of(peer)

    def beats() -> None:
        assert peer.ask((Heartbeat("g", generation, member_id), 4)) == [HeartbeatReply()]

    yield beats
    rig.wait(DELAY_MS)
    beats()
    assert set(rig.node.core.connections) == {BYSTANDER}, "the attacker's are closed"


def recorded_login(peer: Peer, mechanism: str) -> list[bytes]:
    """Log in as alice; the tokens, as one who reads along has them."""
    client, tokens = SaslClient(mechanism, "alice", "secret", "nonce"), []
    (reply,) = peer.ask((client.begin(), 1))
    while (request := client.on_reply(reply)) is not None:
        tokens.append(request.auth_bytes)
        (reply,) = peer.ask((request, 2))
    return tokens


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("dialect", ["kafka", "native"])
def test_a_recorded_login_opens_nothing(mechanism: str, dialect: str) -> None:
    rig = LoginRig()
    with bystander(rig) as beats:
        first, final = recorded_login(Peer(rig, VICTIM), mechanism)
        replayed = _replay(rig, dialect, mechanism, (first, final))
        assert replayed[0].auth_bytes, "a challenge, which the record has no answer to"
        assert replayed[1].error_code is WRONG
        beats()
        assert rig.node.core.connections[VICTIM].principal == "User:alice"
        rig.step(Lost(VICTIM))


def _replay(rig: LoginRig, dialect: str, mechanism: str, tokens: tuple[bytes, bytes]) -> list[Any]:
    """Send what somebody else sent; the answers."""
    if dialect == "native":
        rig.connect_from(THIEF, ATTACKER)
        replies = rig.ask(THIEF, *(Login(mechanism, one) for one in tokens))
        rig.wait(DELAY_MS)
        return replies + rig.heard(THIEF)
    thief = Peer(rig, THIEF, ATTACKER)
    _, *replies = thief.ask((SaslHandshake(mechanism), 1), *((SaslAuthenticate(one), 2) for one in tokens))
    rig.wait(DELAY_MS)
    return replies + thief.heard()


def _sealed(algorithm: str) -> str:
    """A token of root's, with the public key for a secret."""
    signed = f"{part({'alg': algorithm, 'kid': 'one'})}.{part(claims(WALL_MS, sub='root'))}"
    return f"{signed}.{part(hmac.digest(KEY.as_pem(private=False), signed.encode(), 'sha' + algorithm[2:]))}"


_UNSIGNED = f"{part({'alg': 'none', 'kid': 'one'})}.{part(claims(WALL_MS, sub='root'))}."
FALSE_TOKENS = {
    "of another audience": token(KEY, claims(WALL_MS, aud="another service")),
    "of another issuer": token(KEY, claims(WALL_MS, iss="https://evil.example")),
    "that has ended": token(KEY, claims(WALL_MS - 3_600_000)),
    "without a signature": _UNSIGNED,
    "with the public key for a secret": _sealed("HS256"),
    "by another key of the same name": token(rsa_key("one"), claims(WALL_MS)),
    "with its own key": token(rsa_key("own"), claims(WALL_MS), jwk=rsa_key("own").as_dict(private=False)),
    "that is huge": token(KEY, claims(WALL_MS, groups=["x" * 100] * 300)),
    "that is far too large": "x" * 60_000,
    "that nests": token(KEY, b"[" * 20_000),
}


@pytest.mark.parametrize("way", ["kafka", "native", "http"])
@pytest.mark.parametrize("kind", FALSE_TOKENS)
def test_a_false_token_is_no_login(kind: str, way: str) -> None:
    rig, given = oauth_rig(), FALSE_TOKENS[kind]
    with bystander(rig) as beats:
        beats()
        if way == "kafka":
            code = log_in(rig, Peer(rig, 1, ATTACKER), "OAUTHBEARER", "", given).error_code
        elif way == "native":
            rig.connect_from(1, ATTACKER)
            code = log_in_natively(rig, 1, "OAUTHBEARER", "", given).error_code
        else:
            rig.step(PasswordGiven(7, None, Secret(given), ATTACKER))
            while rig.checks:
                rig.end_check()
            rig.wait(DELAY_MS)
            reply = rig.replied[7]
            assert isinstance(reply, HttpLoginReply)
            code = reply.error_code
        assert code is WRONG
        assert not [line for line in rig.told() if line["event"] == "login" and line["principal"] == "User:root"]


@pytest.mark.parametrize("hosts", [1, 100])
def test_ten_thousand_passwords_of_http_and_plain_delay_nobody(hosts: int) -> None:
    rig = LoginRig()
    with bystander(rig) as beats:
        for number in range(10_000):
            host = f"10.66.0.{number % hosts}"
            if number % 2:
                rig.step(PasswordGiven(number, "alice", Secret("a guess"), host))
            else:
                guess = SaslAuthenticate(b"\0alice\0a guess")
                Peer(rig, number, host).send((SaslHandshake("PLAIN"), 1), (guess, 2))
            if number % 1_000 == 0:
                beats()
        rig.step(PasswordGiven(BYSTANDER, "alice", Secret("secret"), HTTP))
        for _ in range(MOST_STARTED + hosts + 1):
            rig.end_check()
        assert rig.replied[BYSTANDER] == HttpLoginReply("User:alice")
        for number in range(10_000):
            rig.step(PasswordWithdrawn(number) if number % 2 else Lost(number))
        assert not rig.checks


@pytest.mark.parametrize("mechanism", ALL.all)
def test_an_unknown_user_is_answered_what_a_known_one_is_when_a_known_one_is(mechanism: str) -> None:
    def told(user: str) -> list[tuple[int, str]]:
        """Times and forms of all that a client with a wrong password is sent."""
        rig, heard = LoginRig(), []
        peer = Peer(rig, 1)
        client = SaslClient(mechanism, user, "a guess", "nonce")
        said: tuple[Any, int] | None = (client.begin(), 1)
        for _ in range(2 * DELAY_MS):
            replies = peer.ask(said) if said else peer.heard()
            said = None
            while rig.checks:
                rig.end_check()
            for reply in (*replies, *peer.heard()):
                salt = re.compile(rb"(?<=,s=)[^,]+|(?<=r=nonce)[^,]+")
                form = (
                    msgspec.structs.replace(reply, auth_bytes=salt.sub(_form, reply.auth_bytes))
                    if isinstance(reply, SaslAuthenticateReply)
                    else reply
                )
                heard.append((rig.now_ms, repr(form)))
                with suppress(LoginRefused):
                    more = client.on_reply(reply)
                    said = None if more is None else (more, 2)
            if not said:
                rig.wait(1)
        return heard

    known, unknown = told("alice"), told("nobody")
    assert known == unknown
    assert known[-1][0] == DELAY_MS and "SASL_AUTHENTICATION_FAILED" in known[-1][1]


def _form(found: re.Match[bytes]) -> bytes:
    """Length of what is random."""
    return b"<%d>" % len(found[0])
