"""The client's side of a SASL login, sans-I/O: PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677), in Kafka's frames
(KIP-43, KIP-84, KIP-152).

    login = Login("SCRAM-SHA-512", "alice", "secret", nonce)
    send login.begin()                      a SaslHandshake
    while not login.is_done:
        send login.hear(reply)              SaslAuthenticate, until there is nothing more to send

The handshake goes out in version 1: what follows version 0 has no frames of Kafka's. To authenticate once more on the
same connection (KIP-368) is another login, of the same mechanism.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import SaslAuthenticate, SaslAuthenticateReply, SaslHandshake, SaslHandshakeReply

__all__ = ["HANDSHAKE_VERSION", "MECHANISMS", "Login", "LoginRefused"]

HANDSHAKE_VERSION: Final = 1
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS: Final = ("PLAIN", *_HASHES)
_FEWEST_ROUNDS: Final = 4096
"""RFC 7677, section 4; what a server of fewer holds is too easily guessed from, and it may be none of ours."""
_MOST_ROUNDS: Final = 1_000_000
"""About a second: no server may keep us busy for longer."""
_MOST_TOLD: Final = 300
_WITHOUT_CHANNEL: Final = "n,,"
"""The connection itself takes no part in what is proved: neither do Kafka's brokers ask that."""


class LoginRefused(Exception):
    """The server lets nobody in by this name and password, or is not who it should be: a sentence for people.
    `error_code` is what it said, SASL_AUTHENTICATION_FAILED where we refuse it."""

    def __init__(self, error_code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.error_code = error_code


class Login:
    """One login. `nonce` is to be printable ASCII without commas, random, and never used before; PLAIN needs none.

    Name and password go out as their UTF-8 is: as Kafka's own clients and brokers do it, who do without SASLprep
    (RFC 4013), so that each password that they know is known here too.
    """

    __slots__ = ("_mechanism", "_password", "_scram", "_stage", "_username", "session_lifetime_ms")

    def __init__(self, mechanism: str, username: str, password: str, nonce: str = "") -> None:
        """Raises ValueError with a sentence for what can be no login."""
        check_login(mechanism, username, password)
        self._mechanism = mechanism
        self._username = username
        self._password = password
        self._scram = _Scram(_HASHES[mechanism], username, password, nonce) if mechanism in _HASHES else None
        self._stage = "new"
        self.session_lifetime_ms = 0
        """How long the server lets us stay without another login, counted from its last answer; 0: forever."""

    @property
    def is_done(self) -> bool:
        return self._stage == "done"

    def begin(self) -> SaslHandshake:
        """To be sent first."""
        self._stage = "handshake"
        return SaslHandshake(self._mechanism)

    def hear(self, reply: Message) -> SaslAuthenticate | None:
        """What to send next, None once we are in. Raises LoginRefused; this login is over then."""
        stage, self._stage = self._stage, "failed"
        if stage == "handshake" and isinstance(reply, SaslHandshakeReply):
            self._check_offer(reply)
            self._stage = "first"
            return SaslAuthenticate(self._scram.first() if self._scram else self._plain())
        if stage in {"first", "final"} and isinstance(reply, SaslAuthenticateReply):
            if reply.error_code:
                raise LoginRefused(reply.error_code, self._refusal(reply.error_message or reply.error_code.name))
            if self._scram is not None:
                more = self._hear_scram(self._scram, stage, reply.auth_bytes)
                if more is not None:
                    self._stage = "final"
                    return SaslAuthenticate(more)
            self.session_lifetime_ms = max(0, reply.session_lifetime_ms)
            self._stage = "done"
            return None
        raise LoginRefused(ErrorCode.ILLEGAL_SASL_STATE, f"a login was answered with {type(reply).__name__}")

    def _check_offer(self, reply: SaslHandshakeReply) -> None:
        if reply.error_code:
            offered = ", ".join(reply.mechanisms)
            what = f"it offers {offered}, not {self._mechanism}" if offered else reply.error_code.name
            if reply.error_code == ErrorCode.ILLEGAL_SASL_STATE:
                what += ", as a listener says that asks nobody for a login"
            raise LoginRefused(reply.error_code, self._refusal(what))

    def _hear_scram(self, scram: "_Scram", stage: str, said: bytes) -> bytes | None:
        try:
            if stage == "first":
                return scram.final(said)
            scram.check(said)
        except ValueError as wrong:
            raise LoginRefused(ErrorCode.SASL_AUTHENTICATION_FAILED, self._refusal(str(wrong))) from None
        return None

    def _plain(self) -> bytes:
        return f"\0{self._username}\0{self._password}".encode()

    def _refusal(self, why: str) -> str:
        """What a server said ends up in logs and on pages: it may have repeated the password."""
        told = why.replace(self._password, "***")
        told = told if len(told) <= _MOST_TOLD else f"{told[:_MOST_TOLD]}..."
        return f"{self._username!r} is not let in by {self._mechanism}: {told}"


def check_login(mechanism: str, username: str, password: str) -> None:
    """Raises ValueError with a sentence, which has no password in it, for what can be no login."""
    if mechanism not in MECHANISMS:
        raise ValueError(f"{mechanism!r} is no mechanism of SASL known here: {', '.join(MECHANISMS)} are")
    for what, text in (("username", username), ("password", password)):
        if not text:
            raise ValueError(f"{mechanism} needs a {what}")
        if any(ord(one) < 0x20 or 0x7F <= ord(one) < 0xA0 for one in text):
            raise ValueError(f"the {what} has control characters in it")
        if any(0xD800 <= ord(one) < 0xE000 for one in text):
            raise ValueError(f"the {what} has halves of characters in it: it cannot be written as UTF-8")


class _Scram:
    """Raises ValueError, with what is wrong, for a server that does not keep to it."""

    __slots__ = ("_first", "_hash", "_nonce", "_password", "_signature")

    def __init__(self, hash_name: str, username: str, password: str, nonce: str) -> None:
        if not nonce or any(not "!" <= one <= "~" or one == "," for one in nonce):
            raise ValueError("SCRAM needs a nonce of printable characters without commas")
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._hash = hash_name
        self._password = password.encode()
        self._nonce = nonce
        self._first = f"n={name},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return f"{_WITHOUT_CHANNEL}{self._first}".encode()

    def final(self, said: bytes) -> bytes:
        """The proof that we know the password, for the server's salt."""
        text = _text(said)
        found = _attributes(text)
        if "m" in found:
            raise ValueError("the server demands an extension of SCRAM that is not known here")
        if "e" in found:
            raise ValueError(f"the server says {found['e']}")
        nonce = found.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ValueError("the server's nonce does not go on from ours")
        salt, rounds = _base64(found.get("s", ""), "salt"), _rounds(found.get("i", ""))
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, rounds)
        without_proof = f"c={b64encode(_WITHOUT_CHANNEL.encode()).decode()},r={nonce}"
        whole = f"{self._first},{text},{without_proof}".encode()
        client_key = self._sign(salted, b"Client Key")
        signature = self._sign(hashlib.new(self._hash, client_key).digest(), whole)
        self._signature = self._sign(self._sign(salted, b"Server Key"), whole)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def check(self, said: bytes) -> None:
        """Whether the server knows the password too."""
        found = _attributes(_text(said))
        if "e" in found:
            raise ValueError(f"the server says {found['e']}")
        if not hmac.compare_digest(_base64(found.get("v", ""), "signature"), self._signature):
            raise ValueError("the server cannot show that it knows the password: it is not who it should be")

    def _sign(self, key: bytes, what: bytes) -> bytes:
        return hmac.digest(key, what, self._hash)


def _text(said: bytes) -> str:
    try:
        return said.decode()
    except UnicodeDecodeError:
        raise ValueError("the server says what is no text") from None


def _attributes(text: str) -> dict[str, str]:
    """Of `a=...,b=...`; what says something twice says the first."""
    found: dict[str, str] = {}
    for one in text.split(","):
        name, _, value = one.partition("=")
        found.setdefault(name, value)
    return found


def _base64(text: str, what: str) -> bytes:
    try:
        found = b64decode(text, validate=True)
    except (NotBase64, ValueError):
        found = b""
    if not found:
        raise ValueError(f"the server's {what} cannot be read")
    return found


def _rounds(text: str) -> int:
    """How often the password is hashed."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ValueError("the server does not say how often the password is hashed")
    rounds = int(text)
    if not _FEWEST_ROUNDS <= rounds <= _MOST_ROUNDS:
        raise ValueError(f"the server hashes passwords {rounds} times; {_FEWEST_ROUNDS} to {_MOST_ROUNDS} are sound")
    return rounds
