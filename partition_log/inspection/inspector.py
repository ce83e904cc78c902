"""Read-only inspection of a data folder: its integrity and its content.

The inspection reads more than a start: a start reads the write-ahead log and the ends of logs, the inspection every
batch. A folder in use changes under the reader, so apparent damage is checked again with a newer checkpoint before it
is reported.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from partition_log.disk.disk import Disk
from partition_log.errors import LogDamaged
from partition_log.inspection.batch_scan import ScannedBatch, checked
from partition_log.inspection.findings import Finding, ScanTotals, Severity
from partition_log.inspection.log_check import LogFiles
from partition_log.store.identity import LOG_NAME, read_identity
from partition_log.wal.checkpoint import Checkpoint, LogEnd, checkpoint_path, read_checkpoint
from partition_log.wal.reader import WalReader
from protocol.record_batch import CorruptBatch

_LOOKS = 3
_OURS = ("LOCK", "node.toml", "node.toml.new", "wal")
_NONE = Checkpoint(0, 0, ())


class FramedBatch(msgspec.Struct, frozen=True):
    """Frame of the write-ahead log: a batch of a log, or the removal of the log (`batch` is None)."""

    log: str
    position: int
    batch: ScannedBatch | None


class Inspector:
    """`may_have_holes` returns true for logs from which cleaning may have removed records: in others, missing offsets
    are damage. `in_use`: a daemon serves the folder meanwhile.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        may_have_holes: Callable[[str], bool] = lambda name: name.startswith("__"),
        *,
        in_use: bool = False,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._may_have_holes = may_have_holes
        self.in_use = in_use
        self.totals = ScanTotals()

    # ------------------------------------------------------------------------------------------------ the verdict

    def verify(self) -> Iterator[Finding]:
        """Yield all findings, as they are found."""
        yield from self._identity()
        checkpoint, problem = self._checkpoint()
        if problem is not None:
            yield problem
        removed, found = self._wal(checkpoint or _NONE)
        yield from found
        names = self._log_folders()
        if checkpoint is None and problem is None and names:
            what = f"the file is missing, but there are logs, as {names[0]}"
            yield Finding(Severity.DAMAGE, checkpoint_path(self._wal_folder), None, None, what)
        noted = {end.name: end for end in checkpoint.logs} if checkpoint else {}
        for name in sorted({*noted, *names}):
            yield from self._log(name, noted.get(name), removed=name in removed, is_known=checkpoint is not None)
        yield from self._strangers()

    def _identity(self) -> Iterator[Finding]:
        try:
            read_identity(self._disk, self._folder)
        except (LogDamaged, OSError) as error:
            yield self._damage(error, f"{self._folder}/node.toml")

    def _checkpoint(self) -> tuple[Checkpoint | None, Finding | None]:
        try:
            return read_checkpoint(self._disk, self._wal_folder), None
        except (LogDamaged, OSError) as error:
            return None, self._damage(error, checkpoint_path(self._wal_folder))

    def _wal(self, checkpoint: Checkpoint) -> tuple[dict[str, int], list[Finding]]:
        """Return the logs that the write-ahead log removes, and its findings. In a folder in use, apparent damage is
        checked again."""
        removed: dict[str, int] = {}
        found: list[Finding] = []
        for look in range(_LOOKS):
            try:
                reader = WalReader(self._disk, self._wal_folder, checkpoint)
                frames, size, removed = reader.scan()
                self.totals.frames, self.totals.frame_bytes = frames, size
                found = list(self._frames_in_order(checkpoint))
                if reader.torn is not None:
                    what = f"a torn tail ({reader.torn}): never acknowledged, the next start cuts it"
                    found.append(Finding(Severity.NOTE, self._wal_folder, None, None, what))
            except (LogDamaged, OSError) as error:
                removed, found = {}, [self._damage(error, self._wal_folder)]
            if not self.in_use or not _is_damaged(found) or look == _LOOKS - 1:
                break
            checkpoint = self._checkpoint()[0] or checkpoint
        return removed, found

    def _frames_in_order(self, checkpoint: Checkpoint) -> Iterator[Finding]:
        ends = {end.name: end.end for end in checkpoint.logs}
        for framed in self._framed(checkpoint):
            batch = framed.batch
            if batch is None:
                ends.pop(framed.log, None)
                continue
            expected = ends.get(framed.log, 0)
            if batch.header is None:
                yield Finding(Severity.DAMAGE, batch.path, batch.position, batch.offset, batch.problem)
            elif batch.offset != expected:
                what = f"a frame of {framed.log}, which is at offset {expected}"
                yield Finding(Severity.DAMAGE, batch.path, batch.position, batch.offset, what)
            ends[framed.log] = batch.next_offset

    def _log(self, name: str, noted: LogEnd | None, *, removed: bool, is_known: bool) -> Iterator[Finding]:
        if removed or (is_known and noted is None):
            # Any content of the log is in the write-ahead log.
            return
        read, found = ScanTotals(), list[Finding]()
        for look in range(_LOOKS):
            read = ScanTotals()
            files = LogFiles(self._disk, self._folder, name, holes=self._may_have_holes(name))
            found = list(files.check(noted, read))
            if not self.in_use or not _is_damaged(found) or look == _LOOKS - 1:
                break
            checkpoint = self._checkpoint()[0]
            fresh = {end.name: end for end in checkpoint.logs} if checkpoint else {}
            if checkpoint is not None and name not in fresh:
                return  # removed meanwhile
            noted = fresh.get(name, noted)
        self.totals.add(read)
        yield from found

    def _strangers(self) -> Iterator[Finding]:
        for name in self._disk.list(self._folder):
            if name not in _OURS and not LOG_NAME.fullmatch(name):
                yield Finding(Severity.NOTE, f"{self._folder}/{name}", None, None, "nothing of musterd's; left alone")

    # ------------------------------------------------------------------------------------------------ the content

    def names(self) -> list[str]:
        """Return the names of all logs with content, sorted. Raises `LogDamaged`."""
        checkpoint = read_checkpoint(self._disk, self._wal_folder)
        alive = {end.name for end in checkpoint.logs} if checkpoint else set(self._log_folders())
        for framed in self._framed(checkpoint or _NONE):
            if framed.batch is None:
                alive.discard(framed.log)
            else:
                alive.add(framed.log)
        return sorted(alive)

    def file_names(self) -> list[str]:
        """Return the names of all logs that have files, sorted, regardless of checkpoint and write-ahead log."""
        return sorted(self._log_folders())

    def file_batches(self, name: str) -> Iterator[ScannedBatch]:
        """Yield the batches of a log's files, including those beyond the checkpoint, without the write-ahead log."""
        return LogFiles(self._disk, self._folder, name, holes=True).batches(None)

    def frames(self) -> Iterator[FramedBatch]:
        """Yield the frames written since the checkpoint. Raises `LogDamaged`."""
        return self._framed(read_checkpoint(self._disk, self._wal_folder) or _NONE)

    def batches(self, name: str, known: Sequence[FramedBatch] | None = None) -> Iterator[ScannedBatch]:
        """Yield the batches of a log as a start would find it: its files up to the checkpoint, then the frames after
        it. `known`: all `frames`, for a caller that reads many logs of a folder that is not in use.

        Raises `LogDamaged` if the write-ahead log or the checkpoint cannot be read; a damaged batch is yielded as such.
        """
        checkpoint = read_checkpoint(self._disk, self._wal_folder)
        noted = next((end for end in checkpoint.logs if end.name == name), None) if checkpoint else None
        framed = self._framed(checkpoint or _NONE) if known is None else known
        frames = [one.batch for one in framed if one.log == name]
        removals = [index for index, batch in enumerate(frames) if batch is None]
        if removals:
            frames = frames[removals[-1] + 1 :]
        elif noted is not None or checkpoint is None:
            yield from LogFiles(self._disk, self._folder, name, holes=True).batches(noted)
        yield from filter(None, frames)

    def _framed(self, checkpoint: Checkpoint) -> Iterator[FramedBatch]:
        for frame in WalReader(self._disk, self._wal_folder, checkpoint).frames():
            if not frame.batch:
                yield FramedBatch(frame.name, frame.position, None)
                continue
            try:
                batch = checked(frame.path, frame.file_position, bytes(frame.batch))
            except CorruptBatch as error:
                batch = ScannedBatch(frame.path, frame.file_position, -1, -1, len(frame.batch), None, b"", error.reason)
            yield FramedBatch(frame.name, frame.position, batch)

    # ---------------------------------------------------------------------------------------------------- helpers

    @property
    def _wal_folder(self) -> str:
        return f"{self._folder}/wal"

    def _log_folders(self) -> list[str]:
        return [name for name in self._disk.list(self._folder) if LOG_NAME.fullmatch(name)]

    @staticmethod
    def _damage(error: LogDamaged | OSError, path: str) -> Finding:
        if isinstance(error, LogDamaged):
            position = None if error.is_missing else error.position
            return Finding(Severity.DAMAGE, error.file, position, error.offset, error.what)
        return Finding(Severity.DAMAGE, str(error.filename or path), None, None, f"cannot be read: {error.strerror}")


def _is_damaged(found: list[Finding]) -> bool:
    return any(finding.severity is Severity.DAMAGE for finding in found)
