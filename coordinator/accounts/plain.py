"""PLAIN (RFC 4616), checked against SCRAM credentials: the node stores no password. Deriving the key from the password
takes milliseconds, so a job does it outside the event loop (`PasswordCheck`).
"""

import hashlib
import hmac

from coordinator.accounts.scram import MAX_MESSAGE_BYTES, LoginRejected, ScramCredential, ScramMechanism, credential_of


def read_plain(message: bytes) -> tuple[str, str]:
    """Return user and password. Raises LoginRejected."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise LoginRejected(f"a message of PLAIN has {len(message)} bytes; {MAX_MESSAGE_BYTES} are allowed")
    try:
        parts = message.decode().split("\0")
    except UnicodeDecodeError:
        raise LoginRejected("the message of PLAIN is no text") from None
    if len(parts) != 3:
        raise LoginRejected("the message of PLAIN cannot be read: three texts with a zero byte between them are")
    authorization, username, password = parts
    if not username or not password:
        raise LoginRejected("the message of PLAIN has no user or no password")
    if authorization and authorization != username:
        raise LoginRejected("the client asks for the rights of another user")
    return username, password


class PasswordCheck:
    """Job that derives the key of a password and compares it with a credential. It touches neither disk nor node."""

    __slots__ = ("_credential", "_mechanism", "_password", "is_right")

    def __init__(self, mechanism: ScramMechanism, password: str, credential: ScramCredential) -> None:
        self._mechanism = mechanism
        self._password = password
        self._credential = credential
        self.is_right = False

    def run(self, disk: object = None) -> None:
        """Derive and compare."""
        known, mechanism = self._credential, self._mechanism
        salted = hashlib.pbkdf2_hmac(mechanism.hash_name, self._password.encode(), known.salt, known.iterations)
        self._password = ""
        derived = credential_of(mechanism, known.salt, salted, known.iterations)
        self.is_right = hmac.compare_digest(derived.stored_key, known.stored_key)
