"""Logins, errors of the handshake, and requests that cannot be encoded."""

from collections.abc import Callable
from typing import Final

from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.login import LoginRefused, SaslClient
from protocol.messages import Message
from protocol.messages.node import ErrorReply

_TLS_ALERT: Final = b"\x15\x03"
Logins = Callable[[], SaslClient | None]
"""A new login each time, or none where nobody asks who we are."""


def no_login() -> None:
    """Give no login, for servers that want none."""


class HandshakeRefused(ProtocolViolation):
    """The server answered the greeting with an error: nothing else can be asked on this connection."""

    def __init__(self, error_code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.error_code = error_code


class LoginFailed(HandshakeRefused):
    """The server does not let us in by our name and password, or does not know them itself: trying again is in vain
    until somebody changes something.
    """


def login_refused(refused: LoginRefused) -> HandshakeRefused:
    """Return what a connection ends with: not LoginFailed where the server only asks for another attempt."""
    kind = HandshakeRefused if refused.error_code.retriable else LoginFailed
    return kind(refused.error_code, str(refused))


def new_login(logins: Logins) -> SaslClient | None:
    """Begin a login, if there is to be one. Raises LoginFailed where there is nothing to show."""
    try:
        return logins()
    except LoginRefused as refused:
        raise login_refused(refused) from None


def spoken_in_tls(data: bytes) -> ProtocolViolation | None:
    """Recognise bytes that are none of the dialect's: an alert of TLS is what a listener with TLS says to whoever has
    not heard of that.
    """
    if data[:2] != _TLS_ALERT:
        return None
    return ProtocolViolation("that listener speaks TLS: the security protocol SSL is wanted, or SASL_SSL")


def closed(*, words: int, answers: int, is_tls: bool, is_up: bool) -> str:
    """Return what it may mean that the server has closed a connection, as a sentence: on which it said `words` of the
    dialect, with `answers` among them. `is_up`: whether TLS was agreed on.
    """
    if is_tls and not is_up:
        return "the server closed the connection before TLS was agreed on: maybe it does not speak TLS there"
    if not words:
        wish = "wants a certificate of ours" if is_tls else "speaks TLS there"
        return f"the server closed the connection without a word: maybe it {wish}"
    if not answers:
        return "the server closed the connection after its greeting: maybe it wants a login (SASL)"
    return "the server closed the connection"


def unsayable(message: Message, reason: Exception) -> ErrorReply:
    """The answer to a request that could not be encoded: the server never saw it."""
    return ErrorReply(ErrorCode.INVALID_REQUEST, f"{type(message).__name__} cannot be sent: {reason}")
