"""A node's data folder: all its logs, and the write-ahead log that makes them durable with one sync.

    LOCK  node.toml  wal/  flights-0/  flights-1/  __consumer_offsets-12/ ...

An append goes to two places in memory: the log's last segment and the open block of the write-ahead log. Slow work is a
job, to be run outside the event loop: a `FlushJob` (at most one under way) makes the open block durable, a
`CheckpointJob` (at most one, concurrent with it) writes large unwritten parts of logs to their files, syncs these at
intervals, creates the next write-ahead segment and deletes removed files. A job that fails for lack of space reports
`disk_full`; one that fails otherwise, or by any failed sync, raises, and the process must end: the content of the page
cache is unknown then.
"""

from collections.abc import Iterable
from struct import Struct

from partition_log.cleanup_policy import Policy, Retain
from partition_log.disk.disk import Disk, is_disk_full
from partition_log.disk.open_files import OpenFiles
from partition_log.disk.unsynced_files import UnsyncedFiles
from partition_log.errors import AppendError
from partition_log.log.partition_log import PartitionLog
from partition_log.log.state_snapshots import NewStateSnapshot, write_state_snapshots
from partition_log.producers.expiration import ProducerExpiration
from partition_log.store.deferral import Deferral
from partition_log.store.identity import LOG_NAME, NodeIdentity
from partition_log.store.jobs import (
    CheckpointJob,
    FlushJob,
    LogRemoval,
    PreparedCheckpoint,
    SegmentRemoval,
    Spill,
    end_spills,
    take,
)
from partition_log.store.limits import Appended, StoreLimits
from partition_log.store.pending_cleaning import PendingCleaning
from partition_log.store.recovery import NodeFolder, RecoveryReport
from partition_log.wal.write_ahead_log import WriteAheadLog
from protocol.record_batch import stamp

__all__ = ["AppendError", "Appended", "CheckpointJob", "FlushJob", "LogStore", "PartitionLog", "StoreLimits"]

LOG_NAME_BYTES = 255  # the limit of file systems

# base offset, length, leader epoch, last offset delta, largest timestamp; the last ends a batch's first 43 bytes
_PEEK = Struct(">qii7xi8xq").unpack_from


class LogStore:
    """`disk_full`: nothing is appended until a checkpoint succeeds; the caller must force one at intervals."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        limits: StoreLimits,
        *,
        cluster_id: str = "muster",
        node_id: int = 1,
        made_with: dict[str, int] | None = None,
    ) -> None:
        """Identity and settings are for the first start; later those of the folder apply (`identity`)."""
        keep = -(-limits.checkpoint_bytes // limits.wal_segment_bytes) + 1
        self._disk = disk
        self.identity = NodeIdentity(cluster_id, node_id, made_with=made_with or {})
        self._files = OpenFiles(disk, limits.open_files)
        self._unsynced = UnsyncedFiles(disk, limits.unsynced_files)
        self.producer_expiration = ProducerExpiration(limits.producers_per_log)
        self._folder = NodeFolder(self._files, self._unsynced, folder, self.identity, self.producer_expiration)
        self._limits = limits
        self._wal = WriteAheadLog(f"{folder}/wal", limits.wal_segment_bytes, keep)
        self._logs: dict[str, PartitionLog] = {}
        self._unflushed: list[PartitionLog] = []
        self._changed: dict[PartitionLog, None] = {}
        self._removals: list[LogRemoval] = []
        self._drops: list[SegmentRemoval] = []
        self.cleaning = PendingCleaning()
        self._wants_checkpoint = False
        self._flush: FlushJob | None = None
        self._flush_marks: list[tuple[PartitionLog, int]] = []
        self.deferral = Deferral()
        self._to_spill: list[PartitionLog] = []
        self._spills: list[Spill] = []  # of the checkpoint job
        self._checkpoint: CheckpointJob | None = None
        self._taken: PreparedCheckpoint | None = None
        self._checkpoint_block = 0
        self._needed: list[str] = []  # write-ahead segments from before the start, until a checkpoint succeeds
        self._checkpointed = 0  # the position of the last checkpoint
        self.disk_full = False
        self.snapshots_problem = ""
        self._wal_append = self._wal.append
        self._reserve = limits.wal_segment_bytes // 4
        self._max_batch_bytes = min(limits.max_batch_bytes, self._wal.largest_frame - LOG_NAME_BYTES)

    # ----------------------------------------------------------------------------------------------- opening, closing

    def open(self) -> RecoveryReport:
        """Lock the folder, create it on the first start, and recover. Raises `FolderInUse`, `LogDamaged`, and `OSError`
        for other errors of the disk; nothing is locked then. A start with existing logs succeeds on a full disk: it is
        `disk_full`, and everything durable can be read.
        """
        try:
            recovered = self._folder.open()
            self.identity = self._folder.identity
            self._logs = recovered.logs
            self._changed = dict.fromkeys(recovered.logs.values())
            self._needed = recovered.needed
            self._wal.resume(recovered.next_base, recovered.blocks_end, recovered.free, recovered.unsynced)
            try:
                making = self._wal.making()
                assert making is not None
                self._wal.made(making.run(self._disk))
                _checkpoint_now(self, self._disk)
            except OSError as error:
                if not is_disk_full(error) or not recovered.logs:
                    raise
                self.disk_full = True
        except BaseException:
            self._release()
            raise
        return recovered.report

    def close(self, snapshots: Iterable[NewStateSnapshot] = ()) -> bool:
        """Stop cleanly: everything appended is durable, and the logs are whole files. No job may be under way.

        Return false if a full disk left the logs as a crash would: nothing is lost, the next start recovers. State
        snapshots are written only for whole logs; `snapshots_problem` has the error if that fails.
        """
        assert self._flush is None and self._checkpoint is None, "jobs come first"
        try:
            _settle(self, self._disk)
            self.snapshots_problem = "" if self.disk_full else write_state_snapshots(self._disk, snapshots)
        finally:
            self._release()
        return not self.disk_full

    def _release(self) -> None:
        for handle in self._wal.handles():
            self._disk.close(handle)
        self._unsynced.close()
        self._folder.close()

    # ------------------------------------------------------------------------------------------------------------ logs

    def log(self, name: str, policy: Policy | None = None) -> PartitionLog:
        """Return the log of that name. A new log has no file before its first batch.

        A policy given replaces the one the log was opened with.
        """
        log = self._logs.get(name)
        if log is None:
            if LOG_NAME.fullmatch(name) is None or len(name) > LOG_NAME_BYTES:
                raise ValueError(f"{name!r} is no name for a log: a topic's name, a dash and a number")
            folder = self._folder.log_folder(name)
            log = PartitionLog(self._files, folder, name, policy or Retain(), self.producer_expiration)
            self._logs[name] = log
        elif policy is not None and policy != log.policy:
            log.policy = policy
            self.note_changed(log)
        return log

    def has(self, name: str) -> bool:
        """Return true if the log holds or has held records."""
        log = self._logs.get(name)
        return log is not None and log.next_offset > 0

    def names(self) -> list[str]:
        """Return the names of the logs that hold or have held records, sorted."""
        return sorted(name for name, log in self._logs.items() if log.next_offset)

    def remove(self, name: str) -> int | AppendError:
        """Delete a log. Return the position from which on it stays deleted.

        Its `PartitionLog` must not be used any more; a new one of this name begins at 0. Allowed while `disk_full`,
        since it frees space, as far as the write-ahead log has room.
        """
        log = self._logs.get(name)
        if log is None or not log.next_offset:
            if log is not None:
                log.is_removed = True
                del self._logs[name]
            return self._wal.flushed
        position = self._wal_append(log.wal_name, b"")
        if not position:
            return AppendError.DISK_FULL
        log.is_removed = True
        if log.producers is not None:
            self.producer_expiration.forget(log.producers)
        self.damaged.pop(name, None)
        self._drops = [drop for drop in self._drops if drop.log is not log]
        del self._logs[name]
        self._removals.append(LogRemoval(log, position))
        return position

    def drop(self, log: PartitionLog, count: int) -> bool:
        """Drop the log's `count` oldest segments. Return false if some must wait for a checkpoint, which is then due.

        The next checkpoint makes the drop durable and removes the files; after an earlier crash they exist again.
        """
        if self._checkpoint is not None or self.cleaning.is_swapping_in(log):
            return False
        bases = log.drop(count)
        self._drops += [SegmentRemoval(log, base) for base in bases]
        self._wants_checkpoint |= len(bases) < count
        return len(bases) == count

    def note_changed(self, log: PartitionLog) -> None:
        """Note that a log has other segments or another policy, so that retention checks it again."""
        self._changed[log] = None

    def take_changed(self) -> list[PartitionLog]:
        """Return the logs flushed, cleaned or given another policy since the last call; all logs at the first call."""
        changed, self._changed = self._changed, {}
        return [log for log in changed if not log.is_removed]

    def want_checkpoint(self) -> None:
        """Make a checkpoint due, even if little was written since the last."""
        self._wants_checkpoint = True

    @property
    def damaged(self) -> dict[str, str]:
        """Logs that were found damaged since the start, and the texts about them."""
        return self._files.damaged

    def append(
        self, log: PartitionLog, batch: bytes, *, must_fit: bool = True, makes_room: bool = False
    ) -> Appended | AppendError:
        """Append one valid batch (`check_batch`) at the log's end, and set its offset unless it is set already. Never
        raises; after an `AppendError` nothing has changed. With `must_fit` false the batch is bounded only by a
        write-ahead segment, not by `max_batch_bytes`. With `makes_room`, for records of a log's removal, it is accepted
        while `disk_full` too, as far as the write-ahead log has room.
        """
        offset, length, leader_epoch, last_offset_delta, max_timestamp_ms = _PEEK(batch)
        size = len(batch)
        assert length + 12 == size, "one whole batch at a time"
        if size > self._max_batch_bytes and (must_fit or size > self._wal.largest_frame - LOG_NAME_BYTES):
            return AppendError.RECORD_TOO_LARGE
        if self.disk_full and not makes_room:
            return AppendError.DISK_FULL
        base_offset = log.next_offset
        if offset != base_offset or leader_epoch:
            batch = stamp(batch, base_offset)
        position = self._wal_append(log.wal_name, batch)
        if not position:
            return AppendError.DISK_FULL
        next_offset = base_offset + last_offset_delta + 1
        log.append(batch, next_offset, max_timestamp_ms)
        if not log.unflushed:
            log.unflushed = True
            self._unflushed.append(log)
        return Appended(base_offset, next_offset, position)

    def should_wait(self, size: int) -> bool:
        """Return true if `size` bytes of records should wait for the next write-ahead segment, which a checkpoint job
        creates.

        The room left until then is for records that cannot wait. On a full disk they do not wait: `append` reports it.
        """
        return not self.disk_full and self._wal.wants_segment and self._wal.room < size + self._reserve

    # -------------------------------------------------------------------------------------------------------- flushing

    @property
    def position(self) -> int:
        """Position of the write-ahead log after the last append; it only grows, over restarts too."""
        return self._wal.position

    @property
    def flushed(self) -> int:
        """Position up to which everything appended is durable."""
        return self._wal.flushed

    def begin_flush(self) -> FlushJob | None:
        """Return a job for everything appended since the last one; None if no reply waits, or a flush is under way."""
        position = self._wal.position
        if self._flush is not None or position <= self._wal.flushed or self.deferral.may_wait(position):
            return None
        up_to, writes = self._wal.take()
        self.deferral.taken(up_to)
        self._flush_marks = [(log, log.next_offset) for log in self._unflushed]
        for log in self._unflushed:
            log.unflushed = False
        self._unflushed = []
        self._flush = FlushJob(up_to, writes)
        return self._flush

    def finish_flush(self, up_to: int) -> list[PartitionLog]:
        """End the flush: `flushed` and the logs' `flushed_offset` move. Return these logs."""
        job, marks = self._flush, self._flush_marks
        assert job is not None and job.up_to == up_to, "not the flush that is under way"
        self._flush, self._flush_marks = None, []
        self._wal.flushed_to(up_to)
        for log, next_offset in marks:
            log.flushed_offset = next_offset
            self._changed[log] = None
            if log.wants_spill(self._limits.spill_bytes):
                self._to_spill.append(log)
        self._retire()
        return [log for log, _offset in marks]

    def _retire(self) -> None:
        for segment in self._wal.retire(self._checkpoint_block):
            self._disk.close(segment.handle)

    # ---------------------------------------------------------------------------------------------------- checkpoints

    def begin_checkpoint(self, *, force: bool = False) -> CheckpointJob | None:
        """Return a job for the work that is due; None if there is none, or a job is under way.

        Work is the deletion of removed logs, the next write-ahead segment, spills, writes of cleaning, and a sync of
        the logs (always with `force`). Cheap to call after every step.
        """
        wal = self._wal
        if self._checkpoint is not None:
            return None
        due = wal.position - self._checkpointed >= self._limits.checkpoint_bytes
        due |= self._wants_checkpoint or bool(self._drops)
        has_work = due or wal.wants_segment or bool(self._to_spill) or self.cleaning.is_due
        if not force and not self._removals and (self.disk_full or not has_work):
            return None
        removals = tuple(removal for removal in self._removals if removal.position <= wal.flushed)
        for removal in removals:
            removal.log.close()
        # Not while files of a removed log may still exist where a new log of its name writes.
        taken = self._take() if (due or force) and not self._removals and wal.is_started else None
        making = wal.making() if force or not self.disk_full else None
        surplus, self._spills = wal.surplus(), taken.spills if taken else self._spill()
        cleaned, swap, discards = self.cleaning.take()
        if not any((taken, making, swap, cleaned, removals, surplus, discards, self._spills)):
            return None
        self._taken = taken
        self._checkpoint = CheckpointJob(
            folder=self._folder.path,
            unsynced=self._unsynced,
            removals=removals,
            drops=tuple(self._drops) if taken else (),
            checkpoint=taken.content if taken else None,
            spills=tuple(write for _segment, write in self._spills),
            new_folders=taken.new_folders if taken else (),
            kept=taken.kept if taken else (),
            indexes=taken.indexes if taken else (),
            surplus=surplus,
            discards=discards,
            making=making,
            cleaned=cleaned,
            swap=swap,
        )
        return self._checkpoint

    def _spill(self) -> list[Spill]:
        """Return the bytes beyond the logs' limit in memory.

        A log is skipped while it is removed, or while files of an older log of its name may still exist.
        """
        logs, self._to_spill = dict.fromkeys(self._to_spill), []
        removed = {removal.log.name for removal in self._removals}
        if self.disk_full:
            return []
        return [spill for log in logs if log.name not in removed for spill in log.spills(self._limits.spill_bytes)]

    def _take(self) -> PreparedCheckpoint:
        self._wants_checkpoint = False
        self._to_spill = []
        return take(self._logs, self._wal.position, self._wal.block, self._folder.path)

    def finish_checkpoint(self, job: CheckpointJob) -> None:
        """End the checkpoint: older write-ahead segments are freed."""
        assert job is self._checkpoint, "not the job that is under way"
        taken, outcome = self._taken, job.outcome
        self._checkpoint = self._taken = None
        self._removals = [removal for removal in self._removals if removal not in job.removals]
        if outcome.made is not None:
            self._wal.made(outcome.made)
        if (swapped := self.cleaning.finished(job)) is not None:
            self.note_changed(swapped)
        end_spills(self._spills, outcome.written)
        if taken is not None:
            taken.end(done=outcome.checkpointed)
            if outcome.checkpointed:
                self._checkpointed, self._checkpoint_block = taken.position, taken.block
                self._wal.spares += self._needed
                self._needed = []
                self._drops = [drop for drop in self._drops if drop not in job.drops]
        if outcome.problem is not None:
            self.disk_full = True
        elif taken is not None:
            self.disk_full = False
        self._retire()


def _checkpoint_now(store: LogStore, disk: Disk) -> None:
    job = store.begin_checkpoint(force=True)
    assert job is not None
    job.run(disk)
    store.finish_checkpoint(job)
    if job.outcome.problem is not None:
        raise job.outcome.problem


def _settle(store: LogStore, disk: Disk) -> None:
    """Flush and write out everything for which the disk has room."""
    store.deferral.end()
    if (flush := store.begin_flush()) is not None:
        flush.run(disk)
        store.finish_flush(flush.up_to)
    while (job := store.begin_checkpoint(force=True)) is not None:
        job.run(disk)
        store.finish_checkpoint(job)
        if job.checkpoint is not None or store.disk_full:
            break
