"""Access tokens: bearer tokens that administrators create for programs, each with a role and an end."""

from typing import Final

from msgspec import Struct

from coordinator.accounts.roles import PRINCIPAL_TYPE, Role
from coordinator.accounts.scram import LoginRejected
from protocol.access_token import HASH_BYTES, PREFIX, hash_of

MAX_LIFETIME_MS: Final = 10 * 365 * 86_400_000
_MOST_NAME: Final = 200


class AccessToken(Struct, frozen=True):
    """Record of a token, with its SHA-256 in place of the token. Times are wall times."""

    token_hash: bytes
    role: Role
    expires_ms: int
    made_ms: int
    made_by: str

    def __repr__(self) -> str:
        return f"AccessToken(role={self.role}, expires_ms={self.expires_ms}, hidden)"


def principal_of(name: str) -> str:
    """Return the principal of a token."""
    return PRINCIPAL_TYPE + name


def is_access_token(text: str) -> bool:
    """Return whether a bearer token is one of these, rather than an identity provider's."""
    return text.startswith(PREFIX)


class AccessTokens:
    """Tokens by name, and their names by hash."""

    def __init__(self) -> None:
        self.by_name: dict[str, AccessToken] = {}
        self._names: dict[bytes, str] = {}

    def set(self, name: str, token: AccessToken | None) -> None:
        """Store a token, or remove it."""
        known = self.by_name.pop(name, None)
        if known is not None:
            self._names.pop(known.token_hash, None)
        if token is not None:
            self.by_name[name] = token
            self._names[token.token_hash] = name

    def name_of(self, token_hash: bytes) -> str | None:
        """Return the name of the token with this hash. The time that this takes reveals no token, since a client does
        not choose the hash."""
        return self._names.get(token_hash)

    def owner(self, text: str, wall_ms: int) -> tuple[str, AccessToken]:
        """Return the name and the record of a presented token. Raises LoginRejected."""
        name = self.name_of(hash_of(text))
        if name is None:
            raise LoginRejected("there is no such token")
        known = self.by_name[name]
        if wall_ms >= known.expires_ms:
            raise LoginRejected(f"the token {name} has expired")
        return name, known


def problem_of(name: str, role: str, token_hash: bytes, lifetime_ms: int) -> str | None:
    """Return an error message for an invalid new token; None if it is valid."""
    if not name or len(name) > _MOST_NAME or not name.isprintable():
        return f"a token's name has 1 to {_MOST_NAME} printable characters"
    if role not in Role.__members__.values():
        return f"a token's role is one of {', '.join(Role)}, not {role[:40]!r}"
    if len(token_hash) != HASH_BYTES:
        return f"a token is identified by its SHA-256, {HASH_BYTES} bytes, not {len(token_hash)}"
    if not 0 < lifetime_ms <= MAX_LIFETIME_MS:
        return f"a token lasts for 1 to {MAX_LIFETIME_MS} ms, not {lifetime_ms}"
    return None
