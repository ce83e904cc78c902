"""Tokens with which programs log in over HTTP: created, listed and deleted by administrators."""

from typing import Final

from protocol.errors import ErrorCode
from protocol.messages import Int64, Message, Text

ROLES: Final = ("view", "operate", "admin")
"""Roles of tokens; each includes the rights of those before it."""


class CreateToken(Message):
    """Create a token with a role, which ends after `lifetime_ms`. The client keeps the token: the request has only its
    SHA-256."""

    name: Text
    role: Text
    token_hash: bytes
    lifetime_ms: Int64

    def __repr__(self) -> str:
        return f"CreateToken(name={self.name!r}, role={self.role!r}, lifetime_ms={self.lifetime_ms}, hidden)"


class CreateTokenReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    expires_ms: int = -1


class ListTokens(Message):
    """List all tokens, including expired ones."""


class ListedToken(Message):
    """A token, never its secret. Times are wall times."""

    name: str
    role: str
    made_by: str
    made_ms: int
    expires_ms: int


class ListTokensReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    wall_ms: int = -1
    tokens: tuple[ListedToken, ...] = ()


class DeleteToken(Message):
    """Delete a token; its sessions end."""

    name: Text


class DeleteTokenReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
