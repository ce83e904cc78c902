"""Jobs of a store, to be run outside the event loop.

A job uses only the disk. Its result is in `outcome`, which the store reads when the job is finished.
"""

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from partition_log.disk.disk import Disk, is_disk_full
from partition_log.disk.unsynced_files import UnsyncedFiles
from partition_log.log.log_deletion import remove_log, remove_segment
from partition_log.log.partition_log import PartitionLog
from partition_log.log.segment_swap import CleanedWrite, Swap
from partition_log.producers.producer_state import Producers, ProducersSnapshot
from partition_log.producers.snapshot_files import remove_snapshots, write_snapshot
from partition_log.segments.index_files import write_indexes
from partition_log.segments.segment import Segment
from partition_log.segments.segment_write import SegmentWrite
from partition_log.wal.checkpoint import Checkpoint, LogEnd, checkpoint_bytes, write_checkpoint
from partition_log.wal.wal_segment import BlockWrite, WalSegment, WalSegmentMaker


class CheckpointOutcome:
    """`written`: number of the spills that are in their files; `cleaned`: true if the write of compaction is done.
    `problem`: the disk was full, and the rest was not done."""

    __slots__ = ("checkpointed", "cleaned", "made", "problem", "written")

    def __init__(self) -> None:
        self.written = 0
        self.checkpointed = self.cleaned = False
        self.made: WalSegment | None = None
        self.problem: OSError | None = None

    def is_full(self, error: OSError) -> bool:
        """Note a full disk; the caller must raise any other error."""
        if is_disk_full(error):
            self.problem = error
            return True
        return False


Spill = tuple[Segment, SegmentWrite]


class LogRemoval(msgspec.Struct, frozen=True):
    """Removal of a log, valid as soon as its frame, which ends at `position`, is durable."""

    log: PartitionLog
    position: int


class SegmentRemoval(msgspec.Struct, frozen=True):
    """Removal of a dropped segment's file, once a checkpoint has noted the log's new start."""

    log: PartitionLog
    base_offset: int


class ProducersSnapshotWrite(msgspec.Struct, frozen=True):
    """Snapshot of a log's idempotent producers to be written. `snapshot` is None once all of them have expired."""

    producers: Producers
    folder: str
    snapshot: ProducersSnapshot | None

    def write(self, disk: Disk) -> None:
        if self.snapshot is not None:
            write_snapshot(disk, self.folder, self.snapshot)

    def remove_older(self, disk: Disk) -> None:
        """Remove older snapshots once the checkpoint is durable: before that, a crash falls back to them."""
        remove_snapshots(disk, self.folder, but=None if self.snapshot is None else self.snapshot.end)


class FlushJob(msgspec.Struct, frozen=True):
    """Job that makes the write-ahead log durable up to `up_to`."""

    up_to: int
    writes: tuple[BlockWrite, ...]

    def run(self, disk: Disk) -> None:
        """Write and sync. Raises `OSError` if the frames are not durable: the process must end."""
        for write in self.writes:
            disk.write_at(write.handle, write.position, write.data)
            disk.sync(write.handle)  # each, in order: a later block must not be durable before an earlier one


class CheckpointJob(msgspec.Struct, frozen=True):
    """Everything that was due of a checkpoint's work.

    `spills` are bytes beyond the logs' limit in memory. `checkpoint` is the content of the new checkpoint file, valid
    once everything in `unsynced` has been synced.
    """

    folder: str
    unsynced: UnsyncedFiles
    removals: tuple[LogRemoval, ...]
    drops: tuple[SegmentRemoval, ...]
    checkpoint: bytes | None
    spills: tuple[SegmentWrite, ...]
    new_folders: tuple[str, ...]
    kept: tuple[ProducersSnapshotWrite, ...]
    indexes: tuple[tuple[str, int, bytes], ...]
    surplus: tuple[str, ...]
    discards: tuple[str, ...]
    making: WalSegmentMaker | None
    cleaned: CleanedWrite | None = None
    swap: Swap | None = None
    outcome: CheckpointOutcome = msgspec.field(default_factory=CheckpointOutcome)

    def run(self, disk: Disk) -> None:
        """Do the work. Raises `OSError` for all but a full disk: the process must end."""
        for step in (
            self._remove,
            self._make_segment,
            self._spill,
            self._write_checkpoint,
            self._write_cleaned,
            self._put_cleaned,
        ):
            try:
                step(disk)
            except OSError as error:
                if not self.outcome.is_full(error):
                    raise

    def _remove(self, disk: Disk) -> None:
        if self.removals:
            names = {removal.log.name: removal.log.folder for removal in self.removals}  # one log may be removed twice
            for folder in names.values():
                self.unsynced.forget(folder)
            for name in disk.list(self.folder):
                if name in names:
                    remove_log(disk, names[name])
            disk.sync_folder(self.folder)
        for path in self.discards:
            self.unsynced.forget(path)
            with suppress(FileNotFoundError):  # nothing was written yet
                disk.remove(path)
        for path in self.surplus:
            disk.remove(path)

    def _make_segment(self, disk: Disk) -> None:
        if self.making is not None:
            self.outcome.made = self.making.run(disk)

    def _spill(self, disk: Disk) -> None:
        for write in self.spills:
            self.unsynced.write(write.path, write.position, write.data)
            self.outcome.written += 1

    def _write_checkpoint(self, disk: Disk) -> None:
        if self.checkpoint is None or self.outcome.problem is not None:
            return
        self.unsynced.sync_all()
        for kept in self.kept:
            kept.write(disk)
        for folder in self.new_folders:
            disk.sync_folder(folder)
        write_checkpoint(disk, f"{self.folder}/wal", self.checkpoint)
        self.outcome.checkpointed = True
        for kept in self.kept:
            kept.remove_older(disk)
        # After a crash before their removal, recovery removes the files before a log's start.
        for drop in self.drops:
            remove_segment(disk, drop.log.folder, drop.base_offset)
        write_indexes(disk, self.indexes)

    def _write_cleaned(self, disk: Disk) -> None:
        if self.cleaned is not None:
            self.cleaned.run(disk, self.unsynced)
            self.outcome.cleaned = True

    def _put_cleaned(self, disk: Disk) -> None:
        if self.swap is not None:
            self.swap.run(disk, self.unsynced)


def end_spills(spills: list[Spill], written: int) -> None:
    """End the spills: the first `written` are in their files, the others are not."""
    for index, (segment, write) in enumerate(spills):
        if index < written:
            segment.spilled(write)
        else:
            segment.not_spilled()


class PreparedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint's content when it began, with the writes that must be durable before the content is valid."""

    content: bytes
    position: int
    block: int
    spills: list[Spill]
    new_folders: tuple[str, ...]
    kept: tuple[ProducersSnapshotWrite, ...]
    indexes: tuple[tuple[str, int, bytes], ...]
    segments: list[Segment]
    entries: list[int]
    fresh_logs: list[PartitionLog]
    ends: list[tuple[PartitionLog, int]]

    def end(self, *, done: bool) -> None:
        """End the checkpoint: it is valid now, or the disk was full and all of it is still to do."""
        for segment, entries in zip(self.segments, self.entries, strict=True):
            if done:
                segment.indexed(entries)
            else:
                segment.unsynced = True
        for log in self.fresh_logs:
            log.has_new_files |= not done
        for log, end in self.ends if done else ():
            log.checkpointed_offset = end
        for kept in self.kept if done else ():
            kept.producers.kept_at = None if kept.snapshot is None else kept.snapshot.end


def take(logs: Mapping[str, PartitionLog], position: int, block: int, folder: str) -> PreparedCheckpoint:
    """Prepare a checkpoint of everything that is in `logs` now."""
    spills: list[Spill] = []
    segments: list[Segment] = []
    for log in logs.values():
        for segment in log.unsynced():
            if segment.pending_bytes:
                spills.append((segment, log.spill(segment)))
            segments.append(segment)
    for segment in segments:
        segment.unsynced = False
    fresh_logs = [log for log in logs.values() if log.has_new_files]
    for log in fresh_logs:
        log.has_new_files = False
    known = [log for log in logs.values() if log.next_offset]
    ends = tuple(map(_end_of, known))
    return PreparedCheckpoint(
        content=checkpoint_bytes(Checkpoint(position, block, ends)),
        position=position,
        block=block,
        spills=spills,
        new_folders=(*(log.folder for log in fresh_logs), *([folder] if fresh_logs else [])),
        kept=tuple(_kept(log, log.producers) for log in logs.values() if log.producers is not None and _is_due(log)),
        indexes=tuple(write for segment in segments for write in segment.index_writes()),
        segments=segments,
        entries=[segment.entries for segment in segments],
        fresh_logs=fresh_logs,
        ends=[(log, log.next_offset) for log in known],
    )


def _end_of(log: PartitionLog) -> LogEnd:
    return LogEnd(
        name=log.name,
        start=log.start_offset,
        end=log.next_offset,
        producers=bool(log.producers),
        cleaned=log.cleaned_offset,
        horizon_ms=log.horizon_ms,
        segment_bytes=log.policy.segment_bytes,
    )


def _is_due(log: PartitionLog) -> bool:
    """Return true unless the snapshot on disk has the end that the new checkpoint will record."""
    producers = log.producers
    return producers is not None and producers.kept_at != (log.next_offset if producers else None)


def _kept(log: PartitionLog, producers: Producers) -> ProducersSnapshotWrite:
    return ProducersSnapshotWrite(producers, log.folder, producers.snapshot(log.next_offset) if producers else None)
