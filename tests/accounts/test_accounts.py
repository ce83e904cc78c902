"""The log of accounts: what was acknowledged is there after a crash, and nothing unreadable is passed over."""

import pytest

from coordinator.accounts.accounts import Accounts
from coordinator.accounts.acls import Acl
from coordinator.accounts.permission import CLUSTER, GROUP
from coordinator.accounts.records import (
    AccountsCorrupt,
    AccountsRecord,
    AclRecord,
    CredentialRecord,
    DecoyRecord,
    TokenRecord,
    decode,
    encode,
)
from coordinator.accounts.roles import Role
from coordinator.accounts.scram import ScramMechanism
from coordinator.accounts.tokens import AccessToken
from protocol.errors import ErrorCode
from protocol.messages.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from protocol.record_batch import encode_batch
from tests.accounts.rig import NOW, credential_records, flush, open_store, opened
from tests.simulation.disk import SimDisk

SHA_256, SHA_512 = ScramMechanism
ACL = Acl(
    AclResourceType.GROUP, "pay", AclPatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW
)

TOKEN = AccessToken(b"h" * 32, Role.OPERATE, 2_000, 1_000, "User:alice")


def reopened(disk: SimDisk) -> Accounts:
    disk.crash()
    return opened(open_store(disk))


def test_everything_that_was_flushed_is_there_after_a_crash_and_nothing_else() -> None:
    disk = SimDisk(1)
    store = open_store(disk)
    accounts = opened(store)
    accounts.write([*credential_records("alice", "secret"), AclRecord(ACL, is_there=True)], NOW)
    flush(store, disk)
    before, decoy = dict(accounts.users), accounts.credential(SHA_256, "nobody")
    accounts.write(credential_records("bob", "later"), NOW)  # its reply has not left
    again = reopened(disk)
    assert again.users == before
    assert list(again.authorizer.acls) == [ACL]
    assert again.credential(SHA_256, "nobody") == decoy


def test_deleted_credentials_and_bindings_stay_deleted() -> None:
    disk = SimDisk(1)
    store = open_store(disk)
    accounts = opened(store)
    accounts.write([*credential_records("alice", "secret"), AclRecord(ACL, is_there=True)], NOW)
    accounts.write([CredentialRecord(SHA_256, "alice", None), AclRecord(ACL, is_there=False)], NOW)
    assert set(accounts.users["alice"]) == {SHA_512}
    accounts.write([CredentialRecord(SHA_512, "alice", None)], NOW)
    assert not accounts.users
    flush(store, disk)
    again = reopened(disk)
    assert not again.users
    assert not again.authorizer.acls


def test_a_full_disk_changes_nothing() -> None:
    disk = SimDisk(1)
    accounts = opened(open_store(disk))
    too_large = [AclRecord(ACL._replace(name=f"{number:07000}"), is_there=True) for number in range(40)]
    assert accounts.write(too_large, NOW) is ErrorCode.MESSAGE_TOO_LARGE
    assert not accounts.authorizer.acls


def test_an_administrator_may_do_everything_and_log_in_by_every_mechanism() -> None:
    disk = SimDisk(1)
    store = open_store(disk)
    opened(store).make_administrator("root", "secret", NOW)
    flush(store, disk)
    again = reopened(disk)
    assert set(again.users["root"]) == set(ScramMechanism)
    view = again.authorizer.of("User:root", "10.0.0.1")
    assert view.permits(CLUSTER, "", AclOperation.ALTER)
    assert view.permits(GROUP, "any", AclOperation.DELETE)
    assert not again.authorizer.of("User:alice", "10.0.0.1").permits(CLUSTER, "", AclOperation.ALTER)


@pytest.mark.parametrize(
    "record",
    [*credential_records("a/b ü", "x"), CredentialRecord(SHA_256, "a", None), AclRecord(ACL, is_there=True),
     AclRecord(ACL, is_there=False), TokenRecord("a/b ü", TOKEN), TokenRecord("a", None), DecoyRecord(b"secret")],
)  # fmt: skip
def test_a_record_is_read_as_it_was_written(record: AccountsRecord) -> None:
    assert decode(*encode(record)) == record


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"group/x", b"\x00\x01"),
        (b"scram/SCRAM-SHA-1/alice", b"\x00\x01\x80"),
        (b"scram/SCRAM-SHA-256/alice", b"\x00\x01\x80"),
        (b"scram/SCRAM-SHA-256/alice", b"\x00\x02\x80"),
        (b"acl/\x80", b"\x00\x01"),
        (b"token/x", b"\x00\x01\x80"),
        (b"token/\xff", None),
        (b"decoy", None),
    ],
)
def test_a_record_that_cannot_be_read_stops_the_start(key: bytes | None, value: bytes | None) -> None:
    disk = SimDisk(1)
    store = open_store(disk)
    accounts = opened(store)
    store.append(accounts.log, encode_batch([(key, value)], timestamp_ms=0))
    flush(store, disk)
    with pytest.raises(AccountsCorrupt, match="__muster_accounts-0"):
        reopened(disk)
