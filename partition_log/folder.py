"""A node's data folder as it is found at the start: whose it is, which logs it holds, what must be done again."""

import posixpath
import re
import tomllib
from struct import error as StructError  # noqa: N812 - it is an exception's name

import msgspec
from crc32c import crc32c

from partition_log.cleaning import Retain
from partition_log.disk import Disk, is_disk_full
from partition_log.errors import ADVICE, MISSING, LogDamaged
from partition_log.log import PartitionLog, remove_log
from partition_log.open_files import OpenFiles
from partition_log.recovery import (
    Checkpoint,
    Frame,
    RecoveryReport,
    WalReader,
    read_checkpoint,
    read_file,
    write_file,
)
from partition_log.swapping import finish_swaps
from partition_log.unsynced import UnsyncedFiles
from partition_log.wal import LastBlock
from protocol.record_batch import CorruptBatch, extent

FORMAT = 1
LOG_NAME = re.compile(r"[A-Za-z0-9._-]+-[0-9]+")
_SPILL_BYTES = 1024 * 1024
_CHANGED = "its checksum does not hold"


class Identity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose data this is; in `node.toml`. `made_with`: what was settled at the first start and must not change since,
    for whoever opens the store to compare.
    """

    cluster_id: str
    node_id: int
    format: int = FORMAT
    made_with: dict[str, int] = {}


class Recovered(msgspec.Struct, frozen=True):
    """`next_base`: where a new write-ahead segment may begin; `blocks_end`: where the last sound block ends; `free`:
    files that may become a segment now, `needed`: those that may after the next checkpoint. `unsynced`: the
    last block, if it may not be durable.
    """

    logs: dict[str, PartitionLog]
    free: list[str]
    needed: list[str]
    unsynced: LastBlock | None
    next_base: int
    blocks_end: int
    report: RecoveryReport


def _checksum(data: bytes) -> str:
    return f"{crc32c(data):08x}"


def read_identity(disk: Disk, folder: str) -> Identity:
    """What `node.toml` says. Raises `LogDamaged`."""
    path = f"{folder}/node.toml"
    if "node.toml" not in disk.list(folder):
        raise LogDamaged(path, 0, None, MISSING, ADVICE)
    data = read_file(disk, path)
    head, _, rest = data.partition(b"\n")
    # The first folders had no checksum.
    holds = data.startswith(b"format") or head == b'checksum = "%s"' % _checksum(rest).encode()
    try:
        settings = tomllib.loads(data.decode())
        if settings.get("format", FORMAT) != FORMAT:
            what = f"format {settings['format']}, only {FORMAT} is understood"
            raise LogDamaged(path, 0, None, what, "Start the version that wrote this folder")
        settings.pop("checksum", None)
        identity = msgspec.convert(settings, Identity)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        what = str(error) if holds else _CHANGED
        raise LogDamaged(path, 0, None, what, ADVICE) from error
    if not holds:
        raise LogDamaged(path, 0, None, _CHANGED, ADVICE)
    return identity


class NodeFolder:
    def __init__(
        self, files: OpenFiles, unsynced: UnsyncedFiles, path: str, identity: Identity, most_producers: int
    ) -> None:
        self._disk = files.disk
        self._unsynced_files = unsynced
        self._files = files
        self._most_producers = most_producers
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
        """Lock, identify, recover. The logs are whole in memory and page cache; the caller makes them a checkpoint."""
        self._disk.make_folder(self.path)
        self._lock = self._disk.lock(f"{self.path}/LOCK")
        first_start = self._identify()
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

    def _identify(self) -> bool:
        """Whether this is the first start. `node.toml` is written whole or not at all."""
        path = f"{self.path}/node.toml"
        names = self._disk.list(self.path)
        if "node.toml" not in names:
            # It is written before anything else is made.
            if found := [name for name in names if name == "wal" or LOG_NAME.fullmatch(name)]:
                raise LogDamaged(path, 0, None, f"{MISSING}, but there is {found[0]}", ADVICE)
            text = (
                f"format = {FORMAT}\n"
                f"cluster_id = {msgspec.json.encode(self.identity.cluster_id).decode()}\n"
                f"node_id = {self.identity.node_id}\n"
            )
            if self.identity.made_with:
                lines = [f'"{key}" = {value}\n' for key, value in self.identity.made_with.items()]
                text += "\n[made_with]\n" + "".join(lines)
            head = f'checksum = "{_checksum(text.encode())}"\n'
            write_file(self._disk, self.path, path, (head + text).encode())
            self._disk.sync_folder(posixpath.dirname(self.path) or ".")
            return True
        self.identity = read_identity(self._disk, self.path)
        return False

    def _must_be_new(self, reader: WalReader) -> None:
        """Nothing is acknowledged before the first checkpoint: without one there is no log."""
        path = f"{self.wal}/checkpoint"
        if found := self._log_folders():
            raise LogDamaged(path, 0, None, f"{MISSING}, but there are logs, as {found[0]}", ADVICE)
        if (written := reader.first_written()) is not None:
            raise LogDamaged(path, 0, None, f"{MISSING}, but {written} was written", ADVICE)

    def _log_folders(self) -> list[str]:
        return [name for name in self._disk.list(self.path) if LOG_NAME.fullmatch(name)]

    # ------------------------------------------------------------------------------------------------------ recovering

    def _recover(self, checkpoint: Checkpoint, reader: WalReader) -> RecoveryReport:
        """First everything is read and checked, then the logs are cut to their checkpoint and grow again."""
        frames, replayed, removed = reader.scan()
        self._make_durable(reader.last_block(), must=any(noted.name in removed for noted in checkpoint.logs))
        for noted in checkpoint.logs:
            if noted.name not in removed:
                log = self._logs[noted.name] = self._new_log(noted.name, noted.segment_bytes)
                finish_swaps(self._disk, log.folder)
                log.load(noted.start, noted.end)
                log.cleaned_offset, log.horizon_ms = noted.cleaned, noted.horizon_ms
                if noted.producers:
                    log.load_producers()
        self._remove_strays()
        for log in self._logs.values():
            log.cut(self._unsynced_files)
        for frame in reader.frames():
            if frame.position > removed.get(frame.name, 0):
                self._replay(frame)
        return RecoveryReport(
            first_start=False, logs=len(self._logs), frames=frames, replayed_bytes=replayed, torn=reader.torn
        )

    def _make_durable(self, last: LastBlock | None, *, must: bool) -> None:
        """All that is done from here on relies on it, and must not outlive it: logs that go, and the next segment's
        first block. Where a full disk forbids even that, the latter waits.
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
        """Logs that were removed, or begun after the checkpoint: the frames tell all there is of them."""
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
        """What is in memory is bounded by the write-ahead log that it came from: a full disk stops nobody."""
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
        return PartitionLog(self._files, self.log_folder(name), name, policy, self._most_producers)
