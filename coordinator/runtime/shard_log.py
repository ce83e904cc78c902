"""Interface of a shard's log: an appended batch has a position, replies wait in the outbox until the log is durable up
to that position, and a load replays the durable part. A shard does not know where its log is stored."""

from collections.abc import Iterator
from functools import partial
from typing import Protocol

from partition_log.errors import AppendError, LogDamaged
from partition_log.log.partition_log import PartitionLog
from partition_log.log.state_snapshots import StateSnapshot
from partition_log.store.limits import Appended
from partition_log.store.log_store import LogStore
from protocol.record_batch import BatchHeader


class ShardLog(Protocol):
    """Batches from `start_offset` to `next_offset`, in the order of their positions. One writer at a time."""

    @property
    def name(self) -> str:
        """Name for messages to the operator, such as `__consumer_offsets-12`."""

    @property
    def files(self) -> PartitionLog | None:
        """The log on this node's disk, which the node cleans and serves to readers; None for a log stored elsewhere."""

    @property
    def start_offset(self) -> int:
        """Offset of the first batch to replay."""

    @property
    def next_offset(self) -> int:
        """Offset behind the last append."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""

    def append(self, batch: bytes, *, must_fit: bool = True) -> Appended | AppendError:
        """Append one valid batch and set its offset. Never raises; after an `AppendError` nothing has changed. With
        `must_fit` false the batch may exceed the limit for batches."""

    def batches_from(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Replay the batches from the one that holds the offset. Raises `LogDamaged`."""

    def bytes_from(self, offset: int) -> int:
        """Bytes of the batches from the offset on, for the progress of a replay."""

    def newest_state_snapshot(self) -> StateSnapshot | None:
        """Find the newest snapshot of the shard's state. Raises `OSError`."""

    def note_damage(self, damage: LogDamaged) -> None:
        """Keep damage found by a replay, for the operator."""


class LocalLog:
    """A log of the node's own store, durable by its write-ahead log: positions are those of `LogStore.position`, which
    all logs of the store share. `is_deferred`: no reply waits for its batches, and they force no flush."""

    __slots__ = ("append", "batches_from", "bytes_from", "files", "name", "newest_state_snapshot", "note_damage")

    def __init__(self, store: LogStore, files: PartitionLog, *, is_deferred: bool = False) -> None:
        self.files = files
        self.name = files.name
        self.append = partial(_append_deferred, store, files) if is_deferred else partial(store.append, files)
        self.batches_from = files.batches_from
        self.bytes_from = files.bytes_from
        self.newest_state_snapshot = files.newest_state_snapshot
        self.note_damage = files.note_damage

    @property
    def start_offset(self) -> int:
        return self.files.start_offset

    @property
    def next_offset(self) -> int:
        return self.files.next_offset

    @property
    def size_bytes(self) -> int:
        return self.files.size_bytes


def _append_deferred(
    store: LogStore, files: PartitionLog, batch: bytes, *, must_fit: bool = True
) -> Appended | AppendError:
    begins = store.position
    appended = store.append(files, batch, must_fit=must_fit)
    store.deferral.deferred(begins, store.position)
    return appended
