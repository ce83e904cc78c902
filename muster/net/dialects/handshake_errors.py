"""Logins, errors of the handshake, and requests that cannot be encoded."""

from collections.abc import Callable
from typing import Final

from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.login import LoginRefused, SaslClient
from protocol.messages import Message
from protocol.messages.node import ErrorReply

_TLS_ALERT: Final = b"\x15\x03"
Logins = Callable[[], SaslClient | None]
"""Returns a new login each time; None for servers without logins."""


def no_login() -> None:
    """Return no login, for servers without logins."""


class HandshakeRefused(ProtocolViolation):
    """The server answered the handshake with an error, so the connection is unusable."""

    def __init__(self, error_code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.error_code = error_code


class LoginFailed(HandshakeRefused):
    """The server refuses the login, or does not prove that it knows the password: a retry fails until something is
    changed.
    """


def login_refused(refused: LoginRefused) -> HandshakeRefused:
    """Return the error of the connection, which is not LoginFailed if the server only asks for a retry."""
    kind = HandshakeRefused if refused.error_code.retriable else LoginFailed
    return kind(refused.error_code, str(refused))


def new_login(logins: Logins) -> SaslClient | None:
    """Begin a login, if there is one. Raises LoginFailed if there is no token."""
    try:
        return logins()
    except LoginRefused as refused:
        raise login_refused(refused) from None


def spoken_in_tls(data: bytes) -> ProtocolViolation | None:
    """Return an error for a TLS alert, which a listener with TLS sends to a client without it; None for other bytes."""
    if data[:2] != _TLS_ALERT:
        return None
    return ProtocolViolation("that listener speaks TLS: the security protocol SSL is wanted, or SASL_SSL")


def closed(*, words: int, answers: int, is_tls: bool, is_up: bool) -> str:
    """Return an error message for a connection that the server has closed after sending `words` frames, `answers` of
    them replies. `is_up`: whether the TLS handshake was done.
    """
    if is_tls and not is_up:
        return "the server closed the connection before TLS was agreed on: maybe it does not speak TLS there"
    if not words:
        wish = "requires a client certificate" if is_tls else "speaks TLS there"
        return f"the server closed the connection without a reply: maybe it {wish}"
    if not answers:
        return "the server closed the connection after its greeting: maybe it wants a login (SASL)"
    return "the server closed the connection"


def unsayable(message: Message, reason: Exception) -> ErrorReply:
    """Return the reply to a request that could not be encoded, and was not sent."""
    return ErrorReply(ErrorCode.INVALID_REQUEST, f"{type(message).__name__} cannot be sent: {reason}")
