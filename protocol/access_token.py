"""The text of an access token: a prefix by which searches for secrets find it, and 32 random bytes."""

import hashlib
from base64 import urlsafe_b64encode
from typing import Final

PREFIX: Final = "muster_"
SECRET_BYTES: Final = 32
HASH_BYTES: Final = 32


def token_of(secret: bytes) -> str:
    """Return the token of random bytes."""
    assert len(secret) == SECRET_BYTES
    return PREFIX + urlsafe_b64encode(secret).decode().rstrip("=")


def hash_of(token: str) -> bytes:
    """Return the hash of a token that a node stores. It needs no salt and no iterations, since 32 random bytes cannot
    be guessed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
