"""EDGE: groups and offsets of a data folder: read without changing it, and written as a new folder."""

import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from coordinator.cluster_log.entries import Pair
from coordinator.cluster_log.log_move import Records, apply
from coordinator.gateway.io.cluster_identity import ClusterIdentity
from coordinator.records.codec import decode_marker
from coordinator.topics.rules import OFFSETS_TOPIC
from partition_log.disk.disk import OsDisk, ReadOnlyDisk
from partition_log.errors import AppendError
from partition_log.inspection.findings import Severity
from partition_log.inspection.inspector import FramedBatch, Inspector
from partition_log.store.identity import read_identity
from partition_log.store.limits import StoreLimits
from partition_log.store.log_store import LogStore
from partition_log.store.recovery import LOCK_FILE
from protocol.record_batch import decode_batch, encode_batch

SHARDS_KEY, IN_CLUSTER_KEY = "offsets.topic.num.partitions", "offsets.log.cluster"
_BATCH_BYTES = 500_000
_FLUSH_BYTES = 8 << 20
_UNFINISHED = ".unfinished"


class MoveRefused(Exception):
    """Raised with a sentence if nothing can be moved, or not all of it was."""


class FolderRecords(NamedTuple):
    """Records of a folder, by shard. `in_use`: a daemon is serving the folder."""

    shards: Sequence[Records]
    in_use: bool


def read_folder(folder: Path) -> FolderRecords:
    """Return the records of a folder with a local log, which is not changed. Raises MoveRefused, LogDamaged, OSError,
    CorruptBatch, LogCorrupt."""
    disk = ReadOnlyDisk()
    if not (folder / "node.toml").is_file():
        raise MoveRefused(f"{folder} is no data folder: there is no node.toml in it")
    made_with = read_identity(disk, str(folder)).made_with
    if made_with.get(IN_CLUSTER_KEY):
        raise MoveRefused(f"{folder} was made with offsets.log=cluster: its groups are in the cluster already")
    if not ClusterIdentity(folder).recorded_cluster_id:
        raise MoveRefused(
            f"{folder} was never served in front of a Kafka cluster: its offsets belong to topics of its own"
        )
    if SHARDS_KEY not in made_with:
        raise MoveRefused(f"{folder}/node.toml does not say {SHARDS_KEY}: start musterd on it once")
    inspector = Inspector(disk, str(folder), lambda _: True, in_use=disk.is_locked(f"{folder}/{LOCK_FILE}"))
    # The write-ahead log is read as a whole each time: while a daemon writes it, an earlier reading would miss records.
    frames = None if inspector.in_use else list(inspector.frames())
    shards = [_read_log(inspector, f"{OFFSETS_TOPIC}-{index}", frames) for index in range(made_with[SHARDS_KEY])]
    return FolderRecords(shards, inspector.in_use)


def _read_log(inspector: Inspector, name: str, frames: Sequence[FramedBatch] | None) -> Records:
    records: Records = {}
    pending: dict[int, list[Pair]] = {}
    for batch in inspector.batches(name, frames):
        header = batch.header
        if header is None:
            raise MoveRefused(f"{name} is damaged: {batch.problem}; `musterd log verify` says more")
        entries = decode_batch(batch.data)
        if header.is_control:
            for entry in entries:
                marker = decode_marker(header, entry.key, entry.value)
                if marker is not None:
                    ended = pending.pop(marker.producer_id, [])
                    apply(records, ended if marker.is_committed else ())
            continue
        pairs = [(entry.key or b"", entry.value) for entry in entries]
        if header.is_transactional:
            pending.setdefault(header.producer_id, []).extend(pairs)
        else:
            apply(records, pairs)
    if pending:
        raise MoveRefused(f"{name} has offsets of a transaction that has not ended, of producer {min(pending)}")
    return records


def write_folder(target: Path, shards: Sequence[Mapping[bytes, bytes]], cluster_id: str, node_id: int) -> Path:
    """Make a folder with these records beside the target, read it back and sync it; `finish` renames it to the target.
    Raises MoveRefused, OSError."""
    unfinished = target.with_name(target.name + _UNFINISHED)
    if unfinished.exists():
        shutil.rmtree(unfinished)
    disk = OsDisk()
    made_with = {SHARDS_KEY: len(shards)}
    store = LogStore(
        disk, str(unfinished), StoreLimits(), cluster_id=str(uuid.uuid4()), node_id=node_id, made_with=made_with
    )
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    store.open()
    try:
        for index, records in enumerate(shards):
            _write_log(store, disk, f"{OFFSETS_TOPIC}-{index}", records)
    finally:
        is_whole = store.close()
    if not is_whole:
        raise MoveRefused(f"there is no room for {unfinished}")
    if problem := ClusterIdentity(unfinished).mismatch(cluster_id):
        raise MoveRefused(problem)
    inspector = Inspector(ReadOnlyDisk(), str(unfinished), lambda _: True)
    damage = [one.sentence for one in inspector.verify() if one.severity is Severity.DAMAGE]
    if damage or read_folder(unfinished).shards != list(shards):
        raise MoveRefused(f"what was read back from {unfinished} is not what was written: {', '.join(damage[:1])}")
    return unfinished


def finish(unfinished: Path, target: Path) -> None:
    """Rename the folder to the target, which must be empty. Raises OSError."""
    if target.exists():
        target.rmdir()
    unfinished.rename(target)
    OsDisk().sync_folder(str(target.parent))


def _write_log(store: LogStore, disk: OsDisk, name: str, records: Mapping[bytes, bytes]) -> None:
    log, now_ms = store.log(name), time.time_ns() // 1_000_000
    batch: list[Pair] = []
    size = unflushed = 0

    def append() -> None:
        done = store.append(log, encode_batch(batch, timestamp_ms=now_ms), must_fit=False)
        if isinstance(done, AppendError):
            raise MoveRefused(f"{name} cannot be written: {done.name}")
        batch.clear()

    for pair in records.items():
        batch.append(pair)
        size += len(pair[0]) + len(pair[1])
        if size >= _BATCH_BYTES:
            append()
            unflushed += size
            size = 0
        if unflushed >= _FLUSH_BYTES:
            _flush(store, disk)
            unflushed = 0
    if batch:
        append()
    _flush(store, disk)


def _flush(store: LogStore, disk: OsDisk) -> None:
    if (flush := store.begin_flush()) is not None:
        flush.run(disk)
        store.finish_flush(flush.up_to)
    while (job := store.begin_checkpoint()) is not None:
        job.run(disk)
        store.finish_checkpoint(job)
        if job.outcome.problem is not None:
            raise job.outcome.problem
