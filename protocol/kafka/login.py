"""The client's side of a SASL login, sans-I/O: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677) and OAUTHBEARER (RFC 7628),
in Kafka's frames (KIP-43, KIP-84, KIP-152, KIP-255).

    login = SaslClient("SCRAM-SHA-512", "alice", "secret", nonce)
    send login.begin()                      a SaslHandshake
    while not login.is_done:
        send login.on_reply(reply)          SaslAuthenticate, until there is nothing more to send

The handshake is sent in version 1: after version 0 the exchange has no Kafka frames. Authenticating again on the same
connection (KIP-368) takes another login, with the same mechanism.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import SaslAuthenticate, SaslAuthenticateReply, SaslHandshake, SaslHandshakeReply

__all__ = ["HANDSHAKE_VERSION", "MECHANISMS", "OAUTHBEARER", "LoginRefused", "SaslClient"]

HANDSHAKE_VERSION: Final = 1
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = ("PLAIN", *_HASHES, OAUTHBEARER)
_ACKNOWLEDGED: Final = b"\x01"
"""Acknowledgement of a server's error about a token, after which the server ends the login."""
_FEWEST_ROUNDS: Final = 4096
"""Fewest iterations accepted (RFC 7677, section 4): with fewer, a compromised or false server could guess the
password."""
_MOST_ROUNDS: Final = 1_000_000
"""Most iterations accepted, about a second of work, since a server must not keep the client busy for longer."""
_MOST_CHARACTERS: Final = 300
_WITHOUT_CHANNEL: Final = "n,,"
"""GS2 header without channel binding, which Kafka's brokers do not support."""


class LoginRefused(Exception):
    """Raised with a sentence if the server refuses name and password, or does not prove that it knows the password.
    `error_code` is the server's error, or SASL_AUTHENTICATION_FAILED if the client refuses the server."""

    def __init__(self, error_code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.error_code = error_code


class SaslClient:
    """One SASL exchange. `nonce` must be printable ASCII without commas, random and never used before; PLAIN needs
    none. The password of OAUTHBEARER is a token, and its username is empty.

    Name and password are sent as UTF-8 without SASLprep (RFC 4013), like Kafka's own clients and brokers, so that every
    password that works there works here.
    """

    __slots__ = ("_mechanism", "_password", "_scram", "_stage", "_username", "session_lifetime_ms")

    def __init__(self, mechanism: str, username: str, password: str, nonce: str = "") -> None:
        """Check the arguments. Raises ValueError with a sentence for an impossible login."""
        check_login(mechanism, username, password)
        self._mechanism = mechanism
        self._username = username
        self._password = password
        self._scram = _Scram(_HASHES[mechanism], username, password, nonce) if mechanism in _HASHES else None
        self._stage = "new"
        self.session_lifetime_ms = 0
        """Lifetime of the session from the server's last reply, after which another login is needed; 0: no limit."""

    @property
    def mechanism(self) -> str:
        return self._mechanism

    @property
    def is_done(self) -> bool:
        return self._stage == "done"

    def begin(self) -> SaslHandshake:
        """Return the request to be sent first."""
        self._stage = "handshake"
        return SaslHandshake(self._mechanism)

    def on_reply(self, reply: Message) -> SaslAuthenticate | None:
        """Return the next request; None once the login is done. Raises LoginRefused, which ends this login."""
        stage, self._stage = self._stage, "failed"
        if stage == "handshake" and isinstance(reply, SaslHandshakeReply):
            self._check_offer(reply)
            self._stage = "first"
            return SaslAuthenticate(self._scram.first() if self._scram else self._whole())
        if stage in {"first", "final"} and isinstance(reply, SaslAuthenticateReply):
            if reply.error_code:
                raise LoginRefused(reply.error_code, self._refusal(reply.error_message or reply.error_code.name))
            if self._scram is not None:
                more = self._on_scram_message(self._scram, stage, reply.auth_bytes)
                if more is not None:
                    self._stage = "final"
                    return SaslAuthenticate(more)
            elif self._mechanism == OAUTHBEARER and stage == "first" and reply.auth_bytes:
                self._stage = "final"
                return SaslAuthenticate(_ACKNOWLEDGED)
            self.session_lifetime_ms = max(0, reply.session_lifetime_ms)
            self._stage = "done"
            return None
        raise LoginRefused(ErrorCode.ILLEGAL_SASL_STATE, f"a login was answered with {type(reply).__name__}")

    def _check_offer(self, reply: SaslHandshakeReply) -> None:
        if reply.error_code:
            offered = ", ".join(reply.mechanisms)
            what = f"it offers {offered}, not {self._mechanism}" if offered else reply.error_code.name
            if reply.error_code == ErrorCode.ILLEGAL_SASL_STATE:
                what += "; a listener without authentication answers so"
            raise LoginRefused(reply.error_code, self._refusal(what))

    def _on_scram_message(self, scram: "_Scram", stage: str, message: bytes) -> bytes | None:
        try:
            if stage == "first":
                return scram.final(message)
            scram.check(message)
        except ValueError as wrong:
            raise LoginRefused(ErrorCode.SASL_AUTHENTICATION_FAILED, self._refusal(str(wrong))) from None
        return None

    def _whole(self) -> bytes:
        """Return the client's only message, for mechanisms with one."""
        if self._mechanism == OAUTHBEARER:
            return f"n,,\x01auth=Bearer {self._password}\x01\x01".encode()
        return f"\0{self._username}\0{self._password}".encode()

    def _refusal(self, why: str) -> str:
        """Return the server's error message, which is logged and shown, without the password that it may repeat."""
        sentence = why.replace(self._password, "***")
        sentence = sentence if len(sentence) <= _MOST_CHARACTERS else f"{sentence[:_MOST_CHARACTERS]}..."
        who = repr(self._username) if self._username else "the token"
        return f"{who} is not let in by {self._mechanism}: {sentence}"


def check_login(mechanism: str, username: str, password: str) -> None:
    """Check mechanism, name, and password or token. Raises ValueError with a sentence that does not contain them."""
    if mechanism not in MECHANISMS:
        raise ValueError(f"{mechanism!r} is no mechanism of SASL known here: {', '.join(MECHANISMS)} are")
    is_token = mechanism == OAUTHBEARER
    if is_token and username:
        raise ValueError("OAUTHBEARER has no username: the token says it")
    for what, text in (("token", password),) if is_token else (("username", username), ("password", password)):
        if not text:
            raise ValueError(f"{mechanism} needs a {what}")
        if any(ord(one) < 0x20 or 0x7F <= ord(one) < 0xA0 for one in text):
            raise ValueError(f"the {what} has control characters in it")
        if any(0xD800 <= ord(one) < 0xE000 for one in text):
            raise ValueError(f"the {what} has halves of characters in it: it cannot be written as UTF-8")


class _Scram:
    """The client's side of a SCRAM exchange. Raises ValueError with a sentence if the server violates the protocol."""

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

    def final(self, message: bytes) -> bytes:
        """Return the final message, which proves with the server's salt that the client knows the password."""
        text = _text(message)
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

    def check(self, message: bytes) -> None:
        """Check the server's signature, which proves that it knows the password."""
        found = _attributes(_text(message))
        if "e" in found:
            raise ValueError(f"the server says {found['e']}")
        if not hmac.compare_digest(_base64(found.get("v", ""), "signature"), self._signature):
            raise ValueError("the server cannot show that it knows the password: it is not who it should be")

    def _sign(self, key: bytes, what: bytes) -> bytes:
        return hmac.digest(key, what, self._hash)


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ValueError("the server says what is no text") from None


def _attributes(text: str) -> dict[str, str]:
    """Parse the attributes of `a=...,b=...`; the first one counts if one is repeated."""
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
    """Return the number of iterations of the password's hash."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ValueError("the server does not say how often the password is hashed")
    rounds = int(text)
    if not _FEWEST_ROUNDS <= rounds <= _MOST_ROUNDS:
        raise ValueError(f"the server hashes passwords {rounds} times; {_FEWEST_ROUNDS} to {_MOST_ROUNDS} are sound")
    return rounds
