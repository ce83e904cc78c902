"""Records of `__muster_accounts-0`, a compacted log: credentials, access control lists, limits and tokens.

| key | value, version 1 |
|---|---|
| "scram/", mechanism, "/", user | MessagePack of a `ScramCredential` |
| "acl/", MessagePack of an `Acl` | empty |
| "quota/", MessagePack of an `Entity` | MessagePack of its limits by key |
| "token/", name | MessagePack of an `AccessToken` |
| "decoy" | secret that decoys of unknown users are made from |

A value begins with two bytes of version. No value: deleted.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from coordinator.accounts.acls import Acl
from coordinator.accounts.quotas import Entity
from coordinator.accounts.scram import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from coordinator.accounts.tokens import AccessToken

ACCOUNTS_LOG: Final = "__muster_accounts-0"
_SCRAM, _ACL, _DECOY, _QUOTA, _TOKEN = b"scram/", b"acl/", b"decoy", b"quota/", b"token/"
_VERSION: Final = b"\x00\x01"

Entry = tuple[bytes, bytes | None]
"""Key and value of a record."""


class AccountsCorrupt(Exception):
    """A record of the log does not parse, or was written by a newer version. The node must not start: access would be
    granted or denied against the rules."""


class CredentialRecord(NamedTuple):
    mechanism: ScramMechanism
    username: str
    credential: ScramCredential | None


class AclRecord(NamedTuple):
    acl: Acl
    is_there: bool


class QuotaRecord(NamedTuple):
    """All limits of an entity; empty if they were removed."""

    entity: Entity
    limits: Mapping[str, float]


class TokenRecord(NamedTuple):
    name: str
    token: AccessToken | None


class DecoyRecord(NamedTuple):
    secret: bytes


AccountsRecord = CredentialRecord | AclRecord | QuotaRecord | TokenRecord | DecoyRecord


def encode(record: AccountsRecord) -> Entry:
    """Return the key and the value of the record."""
    match record:
        case CredentialRecord(mechanism, username, credential):
            key = _SCRAM + f"{mechanism.title}/{username}".encode("utf-8", "surrogatepass")
            return key, _encoded(credential)
        case AclRecord(acl, is_there):
            return _ACL + msgspec.msgpack.encode(tuple(acl)), _VERSION if is_there else None
        case QuotaRecord(entity, limits):
            kept = _VERSION + msgspec.msgpack.encode(limits) if limits else None
            return _QUOTA + msgspec.msgpack.encode(entity), kept
        case TokenRecord(name, token):
            return _TOKEN + name.encode("utf-8", "surrogatepass"), _encoded(token)
        case DecoyRecord(secret):
            return _DECOY, _VERSION + secret


def _encoded(kept: ScramCredential | AccessToken | None) -> bytes | None:
    return None if kept is None else _VERSION + msgspec.msgpack.encode(kept)


def decode(key: bytes | None, value: bytes | None) -> AccountsRecord:
    """Return the record. Raises AccountsCorrupt."""
    key = key or b""
    if value is not None and value[:2] != _VERSION:
        raise AccountsCorrupt(f"{_shown(key)}: the record is of version {value[:2].hex()}; 0001 is known here")
    try:
        if key.startswith(_SCRAM):
            mechanism, _, username = key[len(_SCRAM) :].decode("utf-8", "surrogatepass").partition("/")
            known = None if value is None else msgspec.msgpack.decode(value[2:], type=ScramCredential)
            return CredentialRecord(SCRAM_MECHANISMS[mechanism], username, known)
        if key.startswith(_ACL):
            return AclRecord(msgspec.msgpack.decode(key[len(_ACL) :], type=Acl), value is not None)
        if key.startswith(_QUOTA):
            entity = msgspec.msgpack.decode(key[len(_QUOTA) :], type=Entity)
            found = {} if value is None else msgspec.msgpack.decode(value[2:], type=dict[str, float])
            return QuotaRecord(entity, found)
        if key.startswith(_TOKEN):
            token = None if value is None else msgspec.msgpack.decode(value[2:], type=AccessToken)
            return TokenRecord(key[len(_TOKEN) :].decode("utf-8", "surrogatepass"), token)
        if key == _DECOY and value is not None:
            return DecoyRecord(value[2:])
    except (KeyError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise AccountsCorrupt(f"{_shown(key)}: {type(error).__name__}") from None
    raise AccountsCorrupt(f"{_shown(key)}: no such record is known here")


def _shown(key: bytes) -> str:
    return f"{ACCOUNTS_LOG}, record under {key[:200]!r}"
