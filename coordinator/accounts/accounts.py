"""`Accounts`: credentials, bindings, limits and tokens in memory, and the log that they are replayed from.

Decide, append, apply: a change is in force once it is in the log's memory, and its reply waits for `position`.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from coordinator.accounts.acls import WILDCARD, Acl
from coordinator.accounts.authorizer import Authorizer
from coordinator.accounts.decoys import CredentialShape, decoy, shape_of
from coordinator.accounts.quotas import Quotas
from coordinator.accounts.records import (
    ACCOUNTS_LOG,
    AccountsRecord,
    AclRecord,
    CredentialRecord,
    DecoyRecord,
    QuotaRecord,
    TokenRecord,
    decode,
    encode,
)
from coordinator.accounts.scram import ScramCredential, ScramMechanism, credential_of
from coordinator.accounts.tokens import AccessTokens, principal_of
from coordinator.clock import Moment
from partition_log.cleanup_policy import Compact
from partition_log.errors import AppendError
from partition_log.store.log_store import LogStore
from protocol.errors import ErrorCode
from protocol.messages.acls import CLUSTER_NAME, AclOperation, AclPatternType, AclPermission, AclResourceType
from protocol.record_batch import decode_batch, encode_batch

ITERATIONS: Final = 8_192
"""Iterations of credentials that this node makes itself."""
_SALT_BYTES: Final = 24
"""Bytes of the salts that it makes, as many as `muster users` uses."""
_OWN_SHAPE: Final = CredentialShape(ITERATIONS, _SALT_BYTES)
_PLAIN_ORDER: Final = (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256)
_ERRORS: Final = {
    AppendError.DISK_FULL: ErrorCode.KAFKA_STORAGE_ERROR,
    AppendError.RECORD_TOO_LARGE: ErrorCode.MESSAGE_TOO_LARGE,
}


class SecretSource(Protocol):
    """Source of unguessable ids."""

    def member_id(self, prefix: str) -> str:
        """See `coordinator.groups.outcome.IdSource`."""


class Accounts:
    """Users and bindings of a node. `users` has the credentials by name, then by mechanism."""

    def __init__(self, store: LogStore, ids: SecretSource, authorizer: Authorizer, policy: Compact) -> None:
        self._store = store
        self._ids = ids
        self.log = store.log(ACCOUNTS_LOG, policy)
        self.authorizer = authorizer
        self.users: dict[str, dict[ScramMechanism, ScramCredential]] = {}
        self.tokens = AccessTokens()
        self.quotas = Quotas()
        self.on_quotas: Callable[[], None] = lambda: None
        """Called when limits have changed."""
        self._decoy_secret = b""
        self._shapes: dict[ScramMechanism, frozenset[CredentialShape]] = {}
        """Shapes of users' credentials, computed when they are first needed after a change."""
        self.position = 0
        """Write-ahead position of the last change."""

    def load(self) -> None:
        """Replay the log. Raises `AccountsCorrupt`, `LogDamaged`."""
        for _header, data in self.log.batches_from(self.log.start_offset):
            for entry in decode_batch(bytes(data)):
                self._apply(decode(entry.key, entry.value))

    def _apply(self, record: AccountsRecord) -> None:
        if isinstance(record, CredentialRecord):
            self._shapes.clear()
        match record:
            case CredentialRecord(mechanism, username, None):
                credentials = self.users.get(username, {})
                credentials.pop(mechanism, None)
                if not credentials:
                    self.users.pop(username, None)
            case CredentialRecord(mechanism, username, credential):
                assert credential is not None
                self.users.setdefault(username, {})[mechanism] = credential
            case AclRecord(acl, is_there):
                change = self.authorizer.add if is_there else self.authorizer.remove
                change(acl)
            case QuotaRecord(entity, limits):
                self.quotas.set(entity, limits)
                self.on_quotas()
            case TokenRecord(name, token):
                self.tokens.set(name, token)
                self.authorizer.set_role(principal_of(name), None if token is None else token.role)
            case DecoyRecord(secret):
                self._decoy_secret = secret

    def write(self, records: Iterable[AccountsRecord], moment: Moment) -> ErrorCode:
        """Append the records as one batch and apply them, or do neither. Durable when `position` is."""
        written = list(records)
        if not written:
            return ErrorCode.NONE
        if not self._decoy_secret:
            written.append(DecoyRecord(self.secret()))
        batch = encode_batch([encode(record) for record in written], timestamp_ms=moment.wall_ms)
        appended = self._store.append(self.log, batch)
        if isinstance(appended, AppendError):
            return _ERRORS[appended]
        self.position = appended.position
        for record in written:
            self._apply(record)
        return ErrorCode.NONE

    def secret(self) -> bytes:
        """Return thirty-two unguessable bytes."""
        return hashlib.sha256((self._ids.member_id("") + self._ids.member_id("")).encode()).digest()

    def nonce(self) -> str:
        """Return a nonce for SCRAM."""
        return self._ids.member_id("").strip("-")

    # --------------------------------------------------------------------------------------------------- credentials

    def credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential:
        """Return the user's credential; for an unknown user a decoy that no password matches. A decoy is made in either
        case, so that both take the same time."""
        made = decoy(mechanism, self._decoy_secret, username, self._shapes_of(mechanism))
        return self.users.get(username, {}).get(mechanism, made)

    def credential_for_plain(self, username: str) -> tuple[ScramMechanism, ScramCredential]:
        """Return the strongest credential of the user, or a decoy."""
        known = self.users.get(username, {})
        mechanism = next((one for one in _PLAIN_ORDER if one in known), ScramMechanism.SCRAM_SHA_512)
        return mechanism, self.credential(mechanism, username)

    def _shapes_of(self, mechanism: ScramMechanism) -> frozenset[CredentialShape]:
        shapes = self._shapes.get(mechanism)
        if shapes is None:
            found = {shape_of(known[mechanism]) for known in self.users.values() if mechanism in known}
            shapes = self._shapes[mechanism] = frozenset(found or {_OWN_SHAPE})
        return shapes

    def make_administrator(self, username: str, password: str, moment: Moment) -> ErrorCode:
        """Create a user who may do everything. Derives keys, which takes some milliseconds: for the start alone."""
        records: list[AccountsRecord] = []
        for mechanism in ScramMechanism:
            salt = self.secret()[:_SALT_BYTES]
            salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, ITERATIONS)
            records.append(CredentialRecord(mechanism, username, credential_of(mechanism, salt, salted, ITERATIONS)))
        records += [AclRecord(acl, is_there=True) for acl in _everything(f"User:{username}")]
        return self.write(records, moment)


def _everything(principal: str) -> Sequence[Acl]:
    names = {
        AclResourceType.CLUSTER: CLUSTER_NAME,
        AclResourceType.TOPIC: WILDCARD,
        AclResourceType.GROUP: WILDCARD,
        AclResourceType.TRANSACTIONAL_ID: WILDCARD,
    }
    return [
        Acl(kind, name, AclPatternType.LITERAL, principal, WILDCARD, AclOperation.ALL, AclPermission.ALLOW)
        for kind, name in names.items()
    ]
