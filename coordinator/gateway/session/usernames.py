"""Users that clients' logins name on their way to a broker, which decides whether they are these."""

import base64
import binascii
from typing import Final

import msgspec

from coordinator.accounts.oauth import OAUTHBEARER, read_bearer
from coordinator.accounts.plain import read_plain
from coordinator.accounts.sasl import MECHANISMS
from coordinator.accounts.scram import SCRAM_MECHANISMS, LoginRejected, ScramServer
from coordinator.gateway.session.router import Router
from protocol.messages.node import Login, SaslAuthenticate, SaslHandshake

LONGEST_LOGIN_BYTES: Final = 1 << 17
"""Longest request of a login that is read; a longer one is the broker's alone, and names nobody."""
_PLAIN: Final = "PLAIN"
_OF_TOKENS: Final = b"tokenauth=true"
"""Extension of SCRAM for delegation tokens (KIP-48), where the name is that of a token."""


def username_of(message: Login) -> str:
    """Return the user that the client's first message names. Raises LoginRejected."""
    if message.mechanism == _PLAIN:
        return read_plain(message.auth_bytes)[0]
    if message.mechanism == OAUTHBEARER:
        name, token = read_bearer(message.auth_bytes)
        return name or _subject(token)
    return ScramServer(SCRAM_MECHANISMS[message.mechanism]).read_first(message.auth_bytes)


def _subject(token: str) -> str:
    """Return the subject of a token that the broker is to check; empty if it has none."""
    _, _, rest = token.partition(".")
    payload = rest.partition(".")[0]
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, ValueError, RecursionError):  # anybody may send anything
        return ""
    found = claims.get("sub") if isinstance(claims, dict) else None
    return found if isinstance(found, str) else ""


def _claim(mechanism: str, message: SaslAuthenticate) -> str:
    if mechanism not in MECHANISMS or _OF_TOKENS in message.auth_bytes:
        return ""
    try:
        return username_of(Login(mechanism, message.auth_bytes))
    except LoginRejected:
        return ""


class ClaimedUser:
    """User of one connection: the one that the first message after the last handshake named, once the broker has served
    the client after it. Empty: none that is known here."""

    __slots__ = ("_claimed", "_confirmed", "_mechanism")

    def __init__(self) -> None:
        self._mechanism = self._claimed = self._confirmed = ""

    def read(self, router: Router, key: int, version: int, frame: bytes) -> None:
        """Read a whole request of a login; an empty frame stands for one that is too long."""
        message = router.decode(key, version, frame) if frame else None
        mechanism, self._mechanism = self._mechanism, ""
        if isinstance(message, SaslHandshake):
            self._mechanism, self._claimed = message.mechanism, ""
        elif mechanism:  # the first message, whatever it is
            self._claimed = _claim(mechanism, message) if isinstance(message, SaslAuthenticate) else ""

    def confirm(self) -> None:
        """Believe the claim: the broker serves the client."""
        self._confirmed = self._claimed

    @property
    def principal(self) -> str | None:
        """Principal of the client; None if it is not known."""
        return f"User:{self._confirmed}" if self._confirmed else None
