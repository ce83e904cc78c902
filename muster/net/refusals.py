"""Servers that refuse the login, or whose certificate is not trusted: errors for the application, and times of the next
attempts.
"""

import ssl
from collections.abc import Callable
from typing import Final

from membership.events import NodeAddress
from muster.errors import AuthenticationFailed, CannotConnect, ClientFailed, MusterError, RequestTimedOut
from muster.net.dialects.handshake_errors import LoginFailed

_RECONNECT_MS, _RECONNECT_MAX_MS = 50, 1_000
"""Shortest and longest pause between attempts to connect to one node; each is twice the one before (Kafka:
reconnect.backoff.ms, .max.ms)."""
_PAUSE_MS: Final = 1_000
"""Pause after a refused login, so that the server does not take the client for one that guesses passwords."""


def authentication_failed(address: NodeAddress, error: BaseException) -> AuthenticationFailed | None:
    """Return the error if authentication of either side failed; None for any other failure."""
    if isinstance(error, LoginFailed):
        return AuthenticationFailed(f"{address}: {error}")
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return AuthenticationFailed(f"{address}: {_of_tls(error)}")
    return None


def _of_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not believed: {error.verify_message or error.reason}"
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if "wrong version number" in reason or "record layer failure" in reason:
        return f"it does not speak TLS there ({reason}): the security protocol of that listener is another one"
    if "alert" in reason:
        return (
            f"it refuses our certificate, or requires one, or supports none of our TLS versions and ciphers: {reason}"
        )
    return f"TLS failed: {reason}"


class Refusals:
    """The last refusal, which the next call raises, and the pause of each server."""

    __slots__ = (
        "_reconnect_at_ms",
        "_failure",
        "_failed_attempts",
        "_jitter",
        "_last",
        "_sentence",
        "_troubles",
        "_unreached",
        "_until_ms",
    )

    def __init__(self, jitter: Callable[[], float] = lambda: 0.5) -> None:
        """`jitter` returns numbers in [0, 1), as `random.random` does."""
        self._jitter = jitter
        self._failed_attempts: dict[tuple[str, int], int] = {}
        self._reconnect_at_ms: dict[tuple[str, int], int] = {}
        self._until_ms: dict[tuple[str, int], int] = {}
        self._sentence = ""
        self._last: tuple[NodeAddress, AuthenticationFailed] | None = None
        self._failure: Exception | None = None
        self._unreached: set[NodeAddress] = set()
        self._troubles: dict[NodeAddress, str] = {}
        """Failures of brokers beside musterd, the newest last, kept since musterd itself answers meanwhile."""

    def note(self, address: NodeAddress, failed: AuthenticationFailed, now_ms: int) -> None:
        self._until_ms[address.host, address.port] = now_ms + _PAUSE_MS
        self._last = address, failed
        self._sentence = str(failed)

    def welcomed(self, address: NodeAddress) -> None:
        """Note that the server accepts the login now."""
        self._unreached.discard(address)
        self._failed_attempts.pop((address.host, address.port), None)
        if self._until_ms.pop((address.host, address.port), None) is not None and self._last is not None:
            where = self._last[0]
            if (where.host, where.port) == (address.host, address.port):
                self._last = None

    def unreached(self, address: NodeAddress) -> bool:
        """Note that a server cannot be reached; return true if that must be reported: for a broker beside musterd, once
        until it answers, since nothing else would explain missing records while musterd answers.
        """
        is_news = bool(address.speaks) and address not in self._unreached
        if is_news:
            self._unreached.add(address)
        return is_news

    def failed(self, address: NodeAddress, sentence: str) -> None:
        """Note that a connection to the server was lost."""
        if address.speaks:
            self._troubles.pop(address, None)
            self._troubles[address] = sentence

    def attempt_failed(self, address: NodeAddress, now_ms: int) -> None:
        """Note that a connection ended before the node answered: the next attempt to connect to this node waits."""
        key = address.host, address.port
        attempts = self._failed_attempts[key] = self._failed_attempts.get(key, 0) + 1
        pause_ms = min(_RECONNECT_MS << min(attempts - 1, 10), _RECONNECT_MAX_MS) * (0.8 + 0.4 * self._jitter())
        self._reconnect_at_ms[key] = now_ms + int(pause_ms)

    def reconnect_at_ms(self, address: NodeAddress) -> int:
        """Return the time from which this node may be connected to again."""
        return self._reconnect_at_ms.get((address.host, address.port), 0)

    def answered(self, address: NodeAddress) -> None:
        """Note that the server has answered more than the handshake."""
        self._failed_attempts.pop((address.host, address.port), None)
        self._troubles.pop(address, None)

    def bars(self, address: NodeAddress, now_ms: int) -> bool:
        """Return true if it is too early for the next login."""
        return now_ms < self._until_ms.get((address.host, address.port), now_ms)

    @property
    def is_clear(self) -> bool:
        """True if there is no error to raise."""
        return self._last is None and self._failure is None

    def fail(self, error: Exception) -> None:
        """Note the unexpected error that ended the client's background work."""
        self._failure = self._failure or error

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def raise_failure(self) -> None:
        """Raise ClientFailed after `fail`, every time."""
        error = self._failure
        if error is not None:
            why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise ClientFailed(f"this client failed and is closed ({why}): make another one") from error

    def error(self, trouble: str) -> MusterError:
        """Return the error for servers that cannot be reached: the last refusal if `trouble` is its text, else
        CannotConnect."""
        return AuthenticationFailed(trouble) if trouble == self._sentence else CannotConnect(trouble)

    def explained(self, error: MusterError, trouble: str) -> MusterError:
        """Return the error of a timeout with its reason, if that is known: `trouble`, if no server can be reached, or
        the last failure of a broker beside musterd.
        """
        if not isinstance(error, RequestTimedOut):
            return error
        reason = trouble or next(reversed(self._troubles.values()), "")
        if not reason:
            return error
        sentence = f"{error}. {reason}"
        if reason == self._sentence:
            return AuthenticationFailed(sentence)
        return CannotConnect(sentence) if trouble else RequestTimedOut(sentence)

    def raise_last(self) -> None:
        """Raise AuthenticationFailed, once for each refusal; ClientFailed."""
        self.raise_failure()
        last, self._last = self._last, None
        if last is not None:
            raise last[1]
