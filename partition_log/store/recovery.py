"""Recovery of a node's data folder: its identity, its logs, and the frames to append again."""

from struct import error as StructError  # noqa: N812 - it is an exception's name

import msgspec

from partition_log.cleanup_policy import Retain
from partition_log.disk.disk import is_disk_full
from partition_log.disk.open_files import OpenFiles
from partition_log.disk.unsynced_files import UnsyncedFiles
from partition_log.errors import ADVICE, MISSING, LogDamaged
from partition_log.log.log_deletion import remove_log
from partition_log.log.log_loader import cut, load, load_producers
from partition_log.log.partition_log import PartitionLog
from partition_log.log.segment_swap import finish_swaps
from partition_log.producers.expiration import ProducerExpiration
from partition_log.store.identity import LOG_NAME, NodeIdentity, identify
from partition_log.wal.checkpoint import Checkpoint, read_checkpoint
from partition_log.wal.reader import Frame, WalReader
from partition_log.wal.wal_segment import LastBlock
from protocol.record_batch import CorruptBatch, extent

LOCK_FILE = "LOCK"
"""File of a folder that the process that serves it has locked."""
_SPILL_BYTES = 1024 * 1024


class RecoveryReport(msgspec.Struct, frozen=True):
    """Report of `LogStore.open`. `torn`: place where a torn tail of the write-ahead log was cut."""

    first_start: bool
    logs: int
    frames: int
    replayed_bytes: int
    torn: str | None


class Recovered(msgspec.Struct, frozen=True):
    """`next_base`: where a new write-ahead segment may begin; `blocks_end`: where the last valid block ends; `free`:
    files that may be reused as segments now, `needed`: those that may be after the next checkpoint. `unsynced`: the
    last block, if it may not be durable.
    """

    logs: dict[str, PartitionLog]
    free: list[str]
    needed: list[str]
    unsynced: LastBlock | None
    next_base: int
    blocks_end: int
    report: RecoveryReport


class NodeFolder:
    def __init__(
        self,
        files: OpenFiles,
        unsynced: UnsyncedFiles,
        path: str,
        identity: NodeIdentity,
        producer_expiration: ProducerExpiration,
    ) -> None:
        self._disk = files.disk
        self._unsynced_files = unsynced
        self._files = files
        self._producer_expiration = producer_expiration
        self._lock: int | None = None
        self.path = path
        self.wal = f"{path}/wal"
        self.identity = identity
        self._logs: dict[str, PartitionLog] = {}
        self._is_full = False
        self._unsynced: LastBlock | None = None

    def log_folder(self, name: str) -> str:
        return f"{self.path}/{name}"

    def close(self) -> None:
        self._files.close_all()
        if self._lock is not None:
            self._disk.close(self._lock)
            self._lock = None

    def open(self) -> Recovered:
        """Lock and identify the folder, and recover its logs, whole in memory and page cache. The caller writes a
        checkpoint."""
        self._disk.make_folder(self.path)
        self._lock = self._disk.lock(f"{self.path}/{LOCK_FILE}")
        self.identity, first_start = identify(self._disk, self.path, self.identity)
        self._disk.make_folder(self.wal)
        self._disk.sync_folder(self.path)
        checkpoint = read_checkpoint(self._disk, self.wal)
        reader = WalReader(self._disk, self.wal, checkpoint or Checkpoint(0, 0, ()))
        if checkpoint is None:
            self._must_be_new(reader)
            report = RecoveryReport(first_start=first_start, logs=0, frames=0, replayed_bytes=0, torn=None)
        else:
            report = self._recover(checkpoint, reader)
        return Recovered(self._logs, reader.free, reader.needed, self._unsynced, reader.end, reader.blocks_end, report)

    def _must_be_new(self, reader: WalReader) -> None:
        """Check that the folder is new: without a checkpoint nothing was acknowledged, and there is no log."""
        path = f"{self.wal}/checkpoint"
        if found := self._log_folders():
            raise LogDamaged(path, 0, None, f"{MISSING}, but there are logs, as {found[0]}", ADVICE)
        if (written := reader.first_written()) is not None:
            raise LogDamaged(path, 0, None, f"{MISSING}, but {written} was written", ADVICE)

    def _log_folders(self) -> list[str]:
        return [name for name in self._disk.list(self.path) if LOG_NAME.fullmatch(name)]

    # ------------------------------------------------------------------------------------------------------ recovering

    def _recover(self, checkpoint: Checkpoint, reader: WalReader) -> RecoveryReport:
        """Read and check everything first; then cut the logs to their checkpoint and append the frames again."""
        frames, replayed, removed = reader.scan()
        self._make_durable(reader.last_block(), must=any(noted.name in removed for noted in checkpoint.logs))
        for noted in checkpoint.logs:
            if noted.name not in removed:
                log = self._logs[noted.name] = self._new_log(noted.name, noted.segment_bytes)
                finish_swaps(self._disk, log.folder)
                load(log, noted.start, noted.end)
                log.cleaned_offset, log.horizon_ms = noted.cleaned, noted.horizon_ms
                if noted.producers:
                    load_producers(log)
        self._remove_strays()
        for log in self._logs.values():
            cut(log, self._unsynced_files)
        for frame in reader.frames():
            if frame.position > removed.get(frame.name, 0):
                self._replay(frame)
        return RecoveryReport(
            first_start=False, logs=len(self._logs), frames=frames, replayed_bytes=replayed, torn=reader.torn
        )

    def _make_durable(self, last: LastBlock | None, *, must: bool) -> None:
        """Make the last block durable before changes that rely on it: they must not survive a crash without it.

        These are the removal of logs, and the next segment's first block. If a full disk prevents the write, that first
        block waits.
        """
        if last is None:
            return
        try:
            last.make_durable(self._disk)
        except OSError as error:
            if must or not is_disk_full(error):
                raise
            self._unsynced = last

    def _remove_strays(self) -> None:
        """Remove files of logs that were removed, or begun after the checkpoint: the frames have all their content."""
        strays = [name for name in self._log_folders() if name not in self._logs]
        for name in strays:
            remove_log(self._disk, self.log_folder(name))
        if strays:
            self._disk.sync_folder(self.path)

    def _replay(self, frame: Frame) -> None:
        log = self._logs.get(frame.name)
        if log is None:
            log = self._logs[frame.name] = self._new_log(frame.name)
        try:
            base_offset, next_offset, size, timestamp = extent(frame.batch)
        except (CorruptBatch, StructError) as error:
            raise LogDamaged(frame.path, frame.file_position, None, str(error), ADVICE) from None
        if base_offset != log.next_offset or size != len(frame.batch):
            what = f"a frame of {frame.name} has offset {base_offset}, the log is at {log.next_offset}"
            raise LogDamaged(frame.path, frame.file_position, base_offset, what, ADVICE)
        log.append(bytes(frame.batch), next_offset, timestamp)
        log.flushed_offset = next_offset
        if log.segments[-1].pending_bytes >= _SPILL_BYTES and not self._is_full:
            self._spill(log)

    def _spill(self, log: PartitionLog) -> None:
        """Write bytes in memory to files. A full disk is no error: memory is bounded by the write-ahead log it came
        from."""
        try:
            for segment, write in log.spills(_SPILL_BYTES):
                try:
                    self._unsynced_files.write(write.path, write.position, write.data)
                except OSError:
                    segment.not_spilled()
                    raise
                segment.spilled(write)
        except OSError as error:
            if not is_disk_full(error):
                raise
            self._is_full = True

    def _new_log(self, name: str, segment_bytes: int = 0) -> PartitionLog:
        policy = Retain(segment_bytes=segment_bytes) if segment_bytes else Retain()
        return PartitionLog(self._files, self.log_folder(name), name, policy, self._producer_expiration)
