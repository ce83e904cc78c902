"""The server's side of SCRAM (RFC 5802, RFC 7677) as Kafka speaks it (KIP-84), and credentials (KIP-554).

An exchange with an unknown user runs to its end with a credential of `decoys`, with the same salt each time, the same
work and the same refusal. No key is derived from a password on the event loop: the client does that, or a
`PasswordCheck`.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from enum import IntEnum
from typing import Final

from msgspec import Struct

MIN_ITERATIONS: Final = 4096
"""Fewest iterations of a credential (RFC 7677, section 4)."""
MAX_ITERATIONS: Final = 16_384
"""Most iterations of a credential, as in Kafka."""
MAX_MESSAGE_BYTES: Final = 4_096
"""Longest message of an exchange: names and nonces are short."""
_CLIENT_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authorization>[^,]+))?,n=(?P<name>[^,]+),r=(?P<nonce>[!-+\--~]+)(?:,.*)?"
)
_CLIENT_FINAL: Final = re.compile(
    r"(?P<unsigned>c=(?P<binding>[A-Za-z0-9/+=]+),r=(?P<nonce>[!-+\--~]+)(?:,.*)?),p=(?P<proof>[A-Za-z0-9/+=]+)",
)


class LoginRejected(Exception):
    """A login is refused. The text is for the log: it has the reason, and no secret."""


class ScramMechanism(IntEnum):
    """SCRAM mechanisms, by Kafka's numbers in AlterUserScramCredentials."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def title(self) -> str:
        """Name in SASL."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """Name of the hash, for `hashlib`."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


SCRAM_MECHANISMS: Final = {mechanism.title: mechanism for mechanism in ScramMechanism}


class ScramCredential(Struct, frozen=True):
    """Keys that verify a password without revealing it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, hidden)"


def credential_of(mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
    """Make the credential from a password's salted hash (SaltedPassword of RFC 5802)."""
    sign = mechanism.hash_name
    client_key = hmac.digest(salted_password, b"Client Key", sign)
    return ScramCredential(
        salt,
        hashlib.new(sign, client_key).digest(),
        hmac.digest(salted_password, b"Server Key", sign),
        iterations,
    )


class ScramServer:
    """One exchange: `first`, then `final`. Both raise LoginRejected, which ends it."""

    __slots__ = ("_bare", "_credential", "_header", "_nonce", "_server_first", "_sign", "username")

    def __init__(self, mechanism: ScramMechanism) -> None:
        self._sign = mechanism.hash_name
        self.username = ""
        self._bare = self._header = self._nonce = self._server_first = ""
        self._credential: ScramCredential | None = None

    def read_first(self, message: bytes) -> str:
        """Read the client's first message; return the name in it."""
        text = _text(message)
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            raise LoginRejected("the first message of SCRAM cannot be read")
        name = found["name"]
        if re.search("=(?!2C|3D)", name):
            raise LoginRejected("the first message of SCRAM cannot be read: its name has a false escape")
        self.username = name.replace("=2C", ",").replace("=3D", "=")
        if found["authorization"] is not None and found["authorization"] != name:
            raise LoginRejected("the client asks for the rights of another user")
        self._header, self._bare = text[: found.start("name") - 2], text[found.start("name") - 2 :]
        self._nonce = found["nonce"]
        return self.username

    def first(self, credential: ScramCredential, nonce: str) -> bytes:
        """Return the answer to the first message. `nonce` must never be used twice."""
        self._credential = credential
        self._nonce += nonce
        salt = b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first.encode()

    def final(self, message: bytes) -> bytes:
        """Check the client's proof; return the server's."""
        credential, text = self._credential, _text(message)
        self._credential = None  # a proof is checked once
        found = _CLIENT_FINAL.fullmatch(text)
        if credential is None or found is None:
            raise LoginRejected("the final message of SCRAM cannot be read")
        if _base64(found["binding"]) != self._header.encode() or not hmac.compare_digest(
            found["nonce"].encode(), self._nonce.encode()
        ):
            raise LoginRejected("the final message of SCRAM belongs to another exchange")
        whole = f"{self._bare},{self._server_first},{found['unsigned']}".encode()
        signature = hmac.digest(credential.stored_key, whole, self._sign)
        proof = _base64(found["proof"])
        if len(proof) != len(signature):
            raise LoginRejected("wrong user or password")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._sign, client_key).digest(), credential.stored_key):
            raise LoginRejected("wrong user or password")
        return b"v=" + b64encode(hmac.digest(credential.server_key, whole, self._sign))


def _text(message: bytes) -> str:
    if len(message) > MAX_MESSAGE_BYTES:
        raise LoginRejected(f"a message of SCRAM has {len(message)} bytes; {MAX_MESSAGE_BYTES} are allowed")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise LoginRejected("a message of SCRAM is no text") from None


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise LoginRejected("a message of SCRAM cannot be read: it is not Base64") from None
