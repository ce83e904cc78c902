"""Logins by SCRAM and PLAIN: the exchange with the client of `protocol.kafka.login`, and attacks on it."""

import hashlib

import pytest

from coordinator.accounts.accounts import Accounts
from coordinator.accounts.decoys import CredentialShape, decoy
from coordinator.accounts.oauth import TokenCheck
from coordinator.accounts.plain import PasswordCheck, read_plain
from coordinator.accounts.sasl import Challenge, LoggedIn, SaslLogin
from coordinator.accounts.scram import LoginRejected, ScramMechanism, ScramServer, credential_of
from protocol.kafka.login import LoginRefused, SaslClient
from protocol.messages.node import SaslAuthenticate, SaslAuthenticateReply, SaslHandshakeReply
from tests.accounts.rig import accounts_of

SHA_256, SHA_512 = ScramMechanism
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def log_in(accounts: Accounts, mechanism: str, username: str, password: str) -> LoggedIn:
    """Run a whole login of our client's against the server's side."""
    client, server = SaslClient(mechanism, username, password, "client-nonce"), SaslLogin(mechanism, accounts)
    client.begin()
    request = client.on_reply(SaslHandshakeReply())
    while True:
        assert request is not None
        answer = server.step(request.auth_bytes)
        if isinstance(answer, PasswordCheck):
            answer.run()
            answer = server.checked(answer)
        assert not isinstance(answer, TokenCheck)
        token = answer.token
        request = client.on_reply(SaslAuthenticateReply(auth_bytes=token))
        if isinstance(answer, LoggedIn):
            assert client.is_done and request is None
            return answer


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("username", ["alice", "a=b,c", "Jürgen"])
def test_who_knows_the_password_is_let_in_as_the_user(mechanism: str, username: str) -> None:
    accounts = accounts_of({username: "secret, and = more"})
    assert log_in(accounts, mechanism, username, "secret, and = more").principal == f"User:{username}"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("username", "password"), [("alice", "Secret"), ("nobody", "secret"), ("Alice", "secret")])
def test_a_wrong_password_and_an_unknown_user_are_refused_by_the_same_words(
    mechanism: str, username: str, password: str
) -> None:
    with pytest.raises(LoginRejected, match=r"^wrong user or password$"):
        log_in(accounts_of({"alice": "secret"}), mechanism, username, password)


def test_the_example_of_the_rfc() -> None:
    """RFC 7677, section 3."""
    server = ScramServer(SHA_256)
    assert server.read_first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == "user"
    salt = bytes.fromhex("5b6d99689d12358eecA04b141236fa81".lower())
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    first = server.first(credential_of(SHA_256, salt, salted, 4096), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    proof = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    final = server.final(b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=" + proof)
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_client_that_asks_the_server_for_its_proof_refuses_a_server_that_knows_only_the_name() -> None:
    client, server = SaslClient("SCRAM-SHA-256", "alice", "secret", "mine"), ScramServer(SHA_256)
    client.begin()
    first = client.on_reply(SaslHandshakeReply())
    assert isinstance(first, SaslAuthenticate)
    server.read_first(first.auth_bytes)
    answer = server.first(decoy(SHA_256, b"x", "alice", {CredentialShape(4096, 16)}), "more")
    assert client.on_reply(SaslAuthenticateReply(auth_bytes=answer)) is not None
    with pytest.raises(LoginRefused):
        client.on_reply(SaslAuthenticateReply(auth_bytes=b"v=AAAA"))


def exchange(accounts: Accounts) -> tuple[SaslLogin, bytes]:
    """A SCRAM login that the client has to finish, and its final message."""
    client, server = SaslClient("SCRAM-SHA-256", "alice", "secret", "mine"), SaslLogin("SCRAM-SHA-256", accounts)
    client.begin()
    request = client.on_reply(SaslHandshakeReply())
    assert request is not None
    challenge = server.step(request.auth_bytes)
    assert isinstance(challenge, Challenge)
    final = client.on_reply(SaslAuthenticateReply(auth_bytes=challenge.token))
    assert final is not None
    return server, final.auth_bytes


def test_a_recorded_login_opens_no_other_one() -> None:
    accounts = accounts_of({"alice": "secret"})
    first, recorded = exchange(accounts)
    second, _ = exchange(accounts)
    with pytest.raises(LoginRejected, match="belongs to another exchange"):
        second.step(recorded)
    assert isinstance(first.step(recorded), LoggedIn)
    with pytest.raises(LoginRejected):
        first.step(recorded)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xfe",
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,r=x,n=alice",
        b"n,,n=al=ice,r=x",
        b"n,a=bob,n=alice,r=x",
        b"n,,m=ext,n=alice,r=x",
        b"n,,n=alice,r=" + b"x" * 5_000,
    ],
)
def test_a_first_message_that_no_client_sends_is_refused(message: bytes) -> None:
    with pytest.raises(LoginRejected):
        SaslLogin("SCRAM-SHA-256", accounts_of({"alice": "secret"})).step(message)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"c=biws", b"c=eSws"), (b"r=mine", b"r=yours"), (b"p=", b"p=AAAA"), (b"p=", b"q="), (b",p=", b",p=*")],
)
def test_a_final_message_that_was_changed_is_refused(old: bytes, new: bytes) -> None:
    server, final = exchange(accounts_of({"alice": "secret"}))
    with pytest.raises(LoginRejected):
        server.step(final.replace(old, new))


@pytest.mark.parametrize(
    "message", [b"", b"alice\0secret", b"\0alice\0", b"\0\0secret", b"bob\0alice\0secret", b"\xff"]
)
def test_a_message_of_plain_that_names_no_user_or_password_is_refused(message: bytes) -> None:
    with pytest.raises(LoginRejected):
        read_plain(message)


def test_plain_takes_one_message() -> None:
    server = SaslLogin("PLAIN", accounts_of({"alice": "secret"}))
    server.step(b"\0alice\0wrong")
    with pytest.raises(LoginRejected, match="one message"):
        server.step(b"\0alice\0secret")


def test_no_secret_is_shown_by_what_holds_it() -> None:
    accounts = accounts_of({"alice": "secret"})
    check = SaslLogin("PLAIN", accounts).step(b"\0alice\0pass-phrase")
    shown = repr(accounts.users) + repr(check)
    assert "pass-phrase" not in shown
    assert accounts.users["alice"][SHA_256].stored_key.hex() not in shown
    assert "stored_key" not in shown
