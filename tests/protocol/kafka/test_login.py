"""A client's login: the RFCs' own examples, and a server that is not who it should be."""

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from protocol.kafka.login import MECHANISMS, LoginRefused, SaslClient
from protocol.messages import Message
from protocol.messages.node import SaslAuthenticate, SaslAuthenticateReply, SaslHandshake, SaslHandshakeReply
from protocol.messages.topics import MetadataReply

NONCE = "rOprNGfwEbeRWgbNEkqO"
SALT = b"a salt of theirs"
SAYS_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
OFFER = SaslHandshakeReply(mechanisms=MECHANISMS)


def begun(
    mechanism: str = "SCRAM-SHA-256", username: str = "user", password: str = "pencil"
) -> tuple[SaslClient, bytes]:
    """A login that the server has answered the handshake of, and what it says then."""
    login = SaslClient(mechanism, username, password, NONCE)
    assert login.begin() == SaslHandshake(mechanism)
    said = login.on_reply(OFFER)
    assert said is not None and not login.is_done
    return login, said.auth_bytes


def says(auth_bytes: bytes) -> SaslAuthenticateReply:
    return SaslAuthenticateReply(auth_bytes=auth_bytes)


class Server:
    """Knows the password, and proves by other means than the client what it should say (RFC 5802, section 3)."""

    def __init__(self, hash_name: str, password: str, rounds: int = 4096) -> None:
        self.hash = hash_name
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), SALT, rounds)
        client_key = hmac.new(salted, b"Client Key", hash_name).digest()
        self.stored_key = hashlib.new(hash_name, client_key).digest()
        self.server_key = hmac.new(salted, b"Server Key", hash_name).digest()
        self.rounds = rounds

    def first(self, said: bytes) -> bytes:
        assert said.startswith(b"n,,")
        self.bare = said[3:]
        self.nonce = self.bare.split(b",r=")[1] + b"theirs"
        self.answer = b"r=" + self.nonce + b",s=" + b64encode(SALT) + b",i=%d" % self.rounds
        return self.answer

    def final(self, said: bytes) -> bytes:
        without_proof, _, proof = said.rpartition(b",p=")
        assert without_proof == b"c=biws,r=" + self.nonce
        whole = self.bare + b"," + self.answer + b"," + without_proof
        signature = hmac.new(self.stored_key, whole, self.hash).digest()
        key = bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True))
        if hashlib.new(self.hash, key).digest() != self.stored_key:
            return b"e=invalid-proof"
        return b"v=" + b64encode(hmac.new(self.server_key, whole, self.hash).digest())


def test_the_example_of_rfc_7677() -> None:
    login, first = begun()
    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = login.on_reply(says(SAYS_FIRST))
    assert final == SaslAuthenticate(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not login.is_done
    assert login.on_reply(says(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")) is None
    assert login.is_done


def test_plain_says_everything_at_once_as_rfc_4616_has_it() -> None:
    login, first = begun("PLAIN", "tim", "tanstaaftanstaaf")
    assert first == b"\0tim\0tanstaaftanstaaf"
    assert login.on_reply(says(b"")) is None
    assert login.is_done


@settings(deadline=None, max_examples=20)
@given(
    st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]),
    st.text(st.characters(min_codepoint=0x20, blacklist_categories=["Cs", "Cc"]), min_size=1),
    st.text(st.characters(min_codepoint=0x20, blacklist_categories=["Cs", "Cc"]), min_size=1),
)
def test_whoever_knows_the_password_is_let_in(mechanism: str, username: str, password: str) -> None:
    server = Server(mechanism.removeprefix("SCRAM-").replace("-", "").lower(), password)
    login, first = begun(mechanism, username, password)
    final = login.on_reply(says(server.first(first)))
    assert final is not None
    assert login.on_reply(says(server.final(final.auth_bytes))) is None
    assert login.is_done


def test_commas_and_equals_signs_of_a_name_are_written_so_that_they_part_nothing() -> None:
    _, first = begun(username="a,b=c")
    assert first == b"n,,n=a=2Cb=3Dc,r=" + NONCE.encode()


def test_a_password_goes_out_as_it_is_for_so_do_kafkas_brokers_keep_it() -> None:
    composed, decomposed = "\u00e9", "e\u0301"  # one letter, of two spellings that SASLprep would make one
    _, first = begun("PLAIN", "me", decomposed)
    assert first == b"\0me\0" + decomposed.encode()
    server = Server("sha256", composed)
    login, first = begun(password=decomposed)
    final = login.on_reply(says(server.first(first)))
    assert final is not None
    assert server.final(final.auth_bytes) == b"e=invalid-proof"


def test_a_wrong_password_is_refused_in_the_servers_own_words() -> None:
    login, _ = begun("PLAIN")
    refusal = SaslAuthenticateReply(ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed: Invalid username")
    with pytest.raises(LoginRefused, match="'user' is not let in by PLAIN: Authentication failed: Invalid") as refused:
        login.on_reply(refusal)
    assert refused.value.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not login.is_done


def test_a_server_of_other_mechanisms_is_told_by_what_it_offers() -> None:
    login = SaslClient("PLAIN", "user", "pencil")
    login.begin()
    with pytest.raises(LoginRefused, match="it offers SCRAM-SHA-512, OAUTHBEARER, not PLAIN"):
        login.on_reply(SaslHandshakeReply(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("SCRAM-SHA-512", "OAUTHBEARER")))


def test_a_listener_without_sasl_is_told_by_its_code() -> None:
    login = SaslClient("PLAIN", "user", "pencil")
    login.begin()
    with pytest.raises(LoginRefused, match="ILLEGAL_SASL_STATE"):
        login.on_reply(SaslHandshakeReply(ErrorCode.ILLEGAL_SASL_STATE))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (SAYS_FIRST.replace(b"i=4096", b"i=4095"), "4095 times"),
        (SAYS_FIRST.replace(b"i=4096", b"i=99999999"), "99999999 times"),
        (SAYS_FIRST.replace(b"i=4096", b"i=-1"), "how often"),
        (SAYS_FIRST.replace(b"i=4096", "i=४०९६".encode()), "how often"),
        (SAYS_FIRST.replace(b",i=4096", b""), "how often"),
        (SAYS_FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", b""), "salt cannot be read"),
        (SAYS_FIRST.replace(b"W22Z", b"W2\n2Z"), "salt cannot be read"),
        (b"m=mine," + SAYS_FIRST, "extension"),
        (b"e=unknown-user", "says unknown-user"),
        (b"\xff", "no text"),
        (b"", "nonce"),
    ],
)
def test_a_server_that_does_not_keep_to_scram_is_told_no_proof(said: bytes, why: str) -> None:
    login, _ = begun()
    with pytest.raises(LoginRefused, match=why) as refused:
        login.on_reply(says(said))
    assert refused.value.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "not who it should be"),
        (b"v=", "signature cannot be read"),
        (b"", "signature cannot be read"),
        (b"e=invalid-proof", "says invalid-proof"),
    ],
)
def test_a_server_that_does_not_know_the_password_itself_is_not_believed(said: bytes, why: str) -> None:
    login, _ = begun()
    login.on_reply(says(SAYS_FIRST))
    with pytest.raises(LoginRefused, match=why):
        login.on_reply(says(said))
    assert not login.is_done


def test_how_long_one_may_stay_is_known_at_the_end() -> None:
    login, _ = begun("PLAIN")
    assert login.session_lifetime_ms == 0
    login.on_reply(SaslAuthenticateReply(session_lifetime_ms=60_000))
    assert login.session_lifetime_ms == 60_000


@pytest.mark.parametrize("reply", [MetadataReply(), OFFER])
def test_another_reply_than_the_next_ends_the_login(reply: Message) -> None:
    login, _ = begun()
    with pytest.raises(LoginRefused, match=f"answered with {type(reply).__name__}"):
        login.on_reply(reply)
    with pytest.raises(LoginRefused):
        login.on_reply(says(SAYS_FIRST))


@pytest.mark.parametrize(
    ("mechanism", "username", "password", "why"),
    [
        ("GSSAPI", "user", "pencil", "'GSSAPI' is no mechanism of SASL known here: PLAIN, SCRAM-SHA-256"),
        ("PLAIN", "", "pencil", "needs a username"),
        ("PLAIN", "user", "", "needs a password"),
        ("PLAIN", "us\0er", "pencil", "username has control characters"),
        ("SCRAM-SHA-256", "user", "pen\ncil", "password has control characters"),
        ("SCRAM-SHA-256", "user", "pen\ud800cil", "password has halves of characters"),
    ],
)
def test_what_can_be_no_login_is_said_at_once_without_the_password(
    mechanism: str, username: str, password: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        SaslClient(mechanism, username, password, NONCE)
    assert "cil" not in str(refused.value)


@pytest.mark.parametrize("nonce", ["", "a,b", "a b", "ä"])
def test_scram_wants_a_nonce(nonce: str) -> None:
    with pytest.raises(ValueError, match="nonce"):
        SaslClient("SCRAM-SHA-256", "user", "pencil", nonce)
