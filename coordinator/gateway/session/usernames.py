"""Users named in logins that are forwarded to a broker, which authenticates them."""

import base64
import binascii
from typing import Final

import msgspec

from coordinator.accounts.oauth import OAUTHBEARER, read_bearer
from coordinator.accounts.plain import read_plain
from coordinator.accounts.sasl import MECHANISMS
from coordinator.accounts.scram import SCRAM_MECHANISMS, LoginRejected, ScramServer
from coordinator.gateway.session.apis import SASL_HANDSHAKE
from coordinator.gateway.session.router import Router
from protocol.errors import ProtocolViolation
from protocol.messages import Message
from protocol.messages.node import (
    Login,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshake,
)
from protocol.messages.topics import MetadataReply

LONGEST_LOGIN_BYTES: Final = 1 << 17
"""Longest request of a login that is read; a longer one is only forwarded, and yields no user."""
_PLAIN: Final = "PLAIN"
_OF_TOKENS: Final = b"tokenauth=true"
"""Extension of SCRAM for delegation tokens (KIP-48), with which the name is that of a token."""


def username_of(message: Login) -> str:
    """Return the user that the client's first message names. Raises LoginRejected."""
    if message.mechanism == _PLAIN:
        return read_plain(message.auth_bytes)[0]
    if message.mechanism == OAUTHBEARER:
        name, token = read_bearer(message.auth_bytes)
        return name or _subject(token)
    return ScramServer(SCRAM_MECHANISMS[message.mechanism]).read_first(message.auth_bytes)


def _subject(token: str) -> str:
    """Return the subject of a token, which the broker verifies; empty if it has none."""
    _, _, rest = token.partition(".")
    payload = rest.partition(".")[0]
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, ValueError, RecursionError):  # clients may send any bytes
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
    """Login of one connection. Its user is the one that the first message after the last handshake named, once the
    broker has accepted that message, and has served the client after it. `claimed`: who was named last."""

    __slots__ = ("_accepted", "_confirmed", "_is_authenticating", "_mechanism", "_minute", "claimed")

    def __init__(self) -> None:
        self._mechanism = self.claimed = self._accepted = self._confirmed = ""
        self._is_authenticating = True
        """True from a handshake until the broker has served a request of the client."""
        self._minute = -1
        """Minute of the broker's last such reply; logins expire (KIP-368)."""

    def read(self, router: Router, key: int, version: int, frame: bytes) -> None:
        """Read a request of a login; an incomplete one yields no user."""
        message = router.decode(key, version, frame)
        mechanism, self._mechanism = self._mechanism, ""
        if key == SASL_HANDSHAKE:
            self._is_authenticating, self.claimed = True, ""
            self._mechanism = message.mechanism if isinstance(message, SaslHandshake) else ""
        elif mechanism:  # the first message, even if it is unreadable
            self.claimed = _claim(mechanism, message) if isinstance(message, SaslAuthenticate) else ""

    def answered(self, claimed: str, reply: Message) -> None:
        """Read the broker's reply to a request of a login, by which time the user was `claimed`. A refused one changes
        nothing: Apache Kafka goes on serving a client whose second login it does not want (ILLEGAL_SASL_STATE), as the
        user that logged in first."""
        if isinstance(reply, SaslAuthenticateReply) and not reply.error_code:
            self._accepted = claimed

    def is_unsure(self, minute: int) -> bool:
        """Return true if a query to the broker must succeed before the client is served."""
        return self._is_authenticating or self._minute != minute

    def served(self, reply: Message, minute: int) -> None:
        """Conclude from the broker's reply that the client is authenticated. Raises ProtocolViolation if it is not: in
        the middle of a login Apache Kafka answers Metadata with an error, which names no broker, and disconnects."""
        if not (isinstance(reply, MetadataReply) and reply.brokers):
            raise ProtocolViolation("a group request in the middle of a login, of which the broker wants more")
        self._is_authenticating, self._minute, self._confirmed = False, minute, self._accepted

    @property
    def principal(self) -> str | None:
        """Principal of the client; None if it is not known."""
        return f"User:{self._confirmed}" if self._confirmed else None
