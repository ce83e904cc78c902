"""Sessions of browsers: a secret in a cookie stands for a login that was made once."""

import hashlib
from typing import Any, Final, NamedTuple

from coordinator.accounts.accounts import Accounts
from coordinator.accounts.roles import PRINCIPAL_TYPE

LIFETIME_MS: Final = 12 * 3_600_000
"""Longest time between two logins."""
_MOST: Final = 10_000


class BrowserSession(NamedTuple):
    """A login: `proof` is the stored credential or token with which it was made. `ends_ms`: wall time."""

    principal: str
    proof: Any
    ends_ms: int


class Sessions:
    """Sessions by the SHA-256 of their secret. They end with the process, at their end time, and as soon as their
    user's password or their token is changed or deleted."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._open: dict[bytes, BrowserSession] = {}

    def open(self, principal: str, ends_ms: int) -> str:
        """Open a session, and return its secret. If there are too many, the oldest ends."""
        secret = self._accounts.secret().hex()
        if len(self._open) >= _MOST:
            del self._open[next(iter(self._open))]
        self._open[_key(secret)] = BrowserSession(principal, self._proof(principal), ends_ms)
        return secret

    def find(self, secret: str, wall_ms: int) -> BrowserSession | None:
        """Return the session with this secret, if it has not ended."""
        session = self._open.get(_key(secret))
        if session is None:
            return None
        if wall_ms >= session.ends_ms or self._proof(session.principal) != session.proof:
            self.close(secret)
            return None
        return session

    def close(self, secret: str) -> None:
        """End a session; one that is not there is no error."""
        self._open.pop(_key(secret), None)

    def _proof(self, principal: str) -> Any:
        if principal.startswith(PRINCIPAL_TYPE):
            return self._accounts.tokens.by_name.get(principal.removeprefix(PRINCIPAL_TYPE))
        return dict(self._accounts.users.get(principal.removeprefix("User:"), {}))


def _key(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
