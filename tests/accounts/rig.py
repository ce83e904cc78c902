"""Accounts on a simulated disk."""

import hashlib
from collections.abc import Mapping

from coordinator.accounts.accounts import Accounts
from coordinator.accounts.authorizer import Authorizer
from coordinator.accounts.records import CredentialRecord
from coordinator.accounts.scram import ScramMechanism, credential_of
from coordinator.clock import Moment
from partition_log.cleanup_policy import Compact
from partition_log.store.log_store import LogStore, StoreLimits
from tests.groups.checks import CountingIds
from tests.simulation.disk import SimDisk

LIMITS = StoreLimits(wal_segment_bytes=1 << 18, checkpoint_bytes=1 << 17, max_batch_bytes=1 << 16)
NOW = Moment(0, 1_700_000_000_000)


def open_store(disk: SimDisk) -> LogStore:
    store = LogStore(disk, "data", LIMITS, cluster_id="rig")
    store.open()
    return store


def flush(store: LogStore, disk: SimDisk) -> None:
    """Make all appended records durable."""
    job = store.begin_flush()
    if job is not None:
        job.run(disk)
        store.finish_flush(job.up_to)


def opened(store: LogStore, authorizer: Authorizer | None = None) -> Accounts:
    accounts = Accounts(store, CountingIds(), authorizer or Authorizer(), Compact())
    accounts.load()
    return accounts


def credential_records(username: str, password: str, iterations: int = 4_096) -> list[CredentialRecord]:
    """Return credentials of every mechanism."""
    records = []
    for mechanism in ScramMechanism:
        salt = f"salt of {username}".encode()[:16].ljust(16, b".")
        salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)
        credential = credential_of(mechanism, salt, salted, iterations)
        records.append(CredentialRecord(mechanism, username, credential))
    return records


def accounts_of(passwords: Mapping[str, str], iterations: int = 4_096) -> Accounts:
    accounts = opened(open_store(SimDisk(1)))
    for username, password in passwords.items():
        assert not accounts.write(credential_records(username, password, iterations), NOW)
    return accounts
