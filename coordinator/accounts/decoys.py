"""Credentials of users that do not exist. A login with such a name runs through the whole exchange (RFC 5802), and its
challenge looks like that of a user: a salt or iterations of another shape would reveal that no user has the name."""

import hmac
import re
from collections.abc import Collection
from typing import Final, NamedTuple

from coordinator.accounts.scram import ScramCredential, ScramMechanism

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_KAFKA_BITS: Final = 130
_KAFKA_SALT: Final = re.compile(rb"[0-9a-z]{20,26}")
"""Salts of Kafka's tools: numbers of 130 bits, in base 36 (ScramFormatter.secureRandomBytes)."""


class CredentialShape(NamedTuple):
    """Traits of a credential that its challenge shows. `salt_bytes` is 0 for salts of Kafka's tools."""

    iterations: int
    salt_bytes: int


def shape_of(credential: ScramCredential) -> CredentialShape:
    """Return the shape of a user's credential."""
    is_kafkas = _KAFKA_SALT.fullmatch(credential.salt) is not None
    return CredentialShape(credential.iterations, 0 if is_kafkas else len(credential.salt))


def decoy(
    mechanism: ScramMechanism, secret: bytes, username: str, shapes: Collection[CredentialShape]
) -> ScramCredential:
    """Make a credential that is valid for no password. It has one of the `shapes`, and is the same for the same name as
    long as these are unchanged."""
    sign = mechanism.hash_name
    seed = hmac.digest(secret, username.encode("utf-8", "surrogatepass"), sign)
    shape = max(shapes, key=lambda one: hmac.digest(seed, repr(tuple(one)).encode(), sign))
    return ScramCredential(
        _salt(seed, shape.salt_bytes),
        hmac.digest(seed, b"stored", sign),
        hmac.digest(seed, b"server", sign),
        shape.iterations,
    )


def _salt(seed: bytes, length: int) -> bytes:
    if length:
        blocks = [hmac.digest(seed, b"salt %d" % at, "sha256") for at in range(0, length, 32)]
        return b"".join(blocks)[:length]
    number = int.from_bytes(hmac.digest(seed, b"salt", "sha256")) >> (256 - _KAFKA_BITS)
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits.encode()
