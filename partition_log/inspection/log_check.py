"""Check of one log's files: every batch, and whether the files fit together."""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from struct import Struct
from typing import NamedTuple

from partition_log.disk.atomic_file import read_file
from partition_log.disk.disk import Disk
from partition_log.inspection.batch_scan import ScannedBatch, scan_file
from partition_log.inspection.findings import Finding, ScanTotals, Severity
from partition_log.log.state_snapshots import SnapshotDamaged, is_state_snapshot_file, read_newest_state_snapshot
from partition_log.producers.snapshot_files import is_snapshot_file, newest_snapshot
from partition_log.segments.file_names import file_name, offset_of, segment_bases, swap_name
from partition_log.wal.checkpoint import LogEnd

_INDEXES = {"index": Struct(">iI"), "timeindex": Struct(">qi")}


class SegmentFile(NamedTuple):
    """A segment's file; a `.swap` counts in place of the segments that it replaces, and has no indexes yet."""

    base_offset: int
    path: str
    is_swap: bool = False


class LogFiles:
    """`holes`: whether records may have been cleaned away, so that offsets may be missing between others."""

    def __init__(self, disk: Disk, folder: str, name: str, *, holes: bool) -> None:
        self._disk = disk
        self._folder = f"{folder}/{name}"
        self._holes = holes
        self._names = disk.list(self._folder)

    def batches(self, noted: LogEnd | None) -> Iterator[ScannedBatch]:
        """Yield all batches up to the end that the checkpoint names."""
        for segment in self._segments(noted):
            for walked in scan_file(self._disk, segment.path):
                if noted is not None and walked.offset >= noted.end:
                    break
                yield walked

    def check(self, noted: LogEnd | None, totals: ScanTotals) -> Iterator[Finding]:
        """Yield damage and other findings. Without a checkpoint the log's end is unknown."""
        segments = self._segments(noted)
        if noted is not None and noted.start < noted.end:
            missing = f"{self._folder}/{file_name(noted.start, 'log')}"
            if not self._names:
                yield Finding(Severity.DAMAGE, self._folder, None, noted.start, "the folder is missing, or empty")
            elif not segments or segments[0].base_offset > noted.start:
                yield Finding(Severity.DAMAGE, missing, None, noted.start, "the file is missing")
        totals.logs += 1
        for index, segment in enumerate(segments):
            following = segments[index + 1].base_offset if index + 1 < len(segments) else None
            check = _SegmentCheck(self._disk, segment, following, noted, holes=self._holes)
            try:
                yield from check.run(totals)
                if not segment.is_swap and not check.is_damaged:
                    yield from check.indexes(self._names)
            except OSError as error:
                what = "the file is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
                yield Finding(Severity.DAMAGE, segment.path, None, segment.base_offset, what)
        yield from self._snapshots(noted)
        yield from self._leftovers(noted)

    def _segments(self, noted: LogEnd | None) -> list[SegmentFile]:
        """Return the segments that a start would take: a swap replaces its range, and none lies outside the log."""
        found = {
            base: SegmentFile(base, f"{self._folder}/{file_name(base, 'log')}") for base in segment_bases(self._names)
        }
        for swap in filter(None, map(swap_name, self._names)):
            for base in [base for base in found if swap.base_offset <= base < swap.end]:
                del found[base]
            found[swap.base_offset] = SegmentFile(swap.base_offset, f"{self._folder}/{swap.text}", is_swap=True)
        segments = sorted(found.values())
        if noted is None:
            return segments
        if noted.start >= noted.end:
            return []
        segments = [segment for segment in segments if segment.base_offset < noted.end]
        first = bisect_right(segments, noted.start, key=lambda segment: segment.base_offset) - 1
        return segments[max(first, 0) :]

    def _snapshots(self, noted: LogEnd | None) -> Iterator[Finding]:
        if noted is not None and noted.producers and newest_snapshot(self._disk, self._folder, noted.end) is None:
            what = "no sound snapshot of its producers: the next start walks over all headers instead"
            yield Finding(Severity.WARNING, self._folder, None, None, what)
        if any(map(is_state_snapshot_file, self._names)):
            try:
                snapshot = read_newest_state_snapshot(self._disk, self._folder)
                for _piece in snapshot.pieces if snapshot is not None else ():
                    pass
            except (SnapshotDamaged, OSError) as error:
                what = f"a snapshot for loading does not hold, and is not believed: {error}"
                yield Finding(Severity.WARNING, self._folder, None, None, what)

    def _leftovers(self, noted: LogEnd | None) -> Iterator[Finding]:
        segments = self._segments(noted)
        taken = {segment.path for segment in segments}
        surplus: list[int] = []
        for name in self._names:
            path, kind = f"{self._folder}/{name}", name.partition(".")[2]
            if offset_of(name, "cleaned") is not None:
                yield Finding(
                    Severity.NOTE, path, None, None, "cleaning that a crash came between; the next start ends it"
                )
            elif swap_name(name) is not None:
                yield Finding(Severity.NOTE, path, None, None, "cleaned, and a crash came before it had its name")
            elif kind == "log" and path not in taken:
                surplus += segment_bases([name])
            elif kind not in ("log", *_INDEXES) and not is_state_snapshot_file(name) and not is_snapshot_file(name):
                yield Finding(Severity.NOTE, path, None, None, "nothing of musterd's; left alone")
        yield from self._surplus(surplus, noted)

    def _surplus(self, bases: list[int], noted: LogEnd | None) -> Iterator[Finding]:
        """Report segments that a start does not use, in one finding for each reason: there may be thousands."""
        behind = [base for base in bases if noted is not None and base >= noted.end]
        if behind and noted is not None:
            what = (
                f"{_files(behind)} behind offset {noted.end}, where the last checkpoint ends: the write-ahead log has "
                "these records too, and the next start writes the files anew"
            )
            yield Finding(Severity.NOTE, self._folder, None, min(behind), what)
        if before := sorted(set(bases).difference(behind)):
            what = (
                f"{_files(before)} whose records were deleted, or cleaned into another file, and a crash came before "
                "the file went; the next start removes what is left"
            )
            yield Finding(Severity.NOTE, self._folder, None, before[0], what)


def _files(bases: list[int]) -> str:
    if len(bases) == 1:
        return f"one file ({file_name(bases[0], 'log')})"
    return f"{len(bases):,} files ({file_name(min(bases), 'log')} to {file_name(max(bases), 'log')})"


class _SegmentCheck:
    def __init__(
        self, disk: Disk, segment: SegmentFile, following: int | None, noted: LogEnd | None, *, holes: bool
    ) -> None:
        self._disk = disk
        self._segment = segment
        self._following = following
        self._end = noted.end if noted is not None and following is None else None
        self._holes = holes
        self._size = 0
        self._places: dict[int, tuple[int, int]] = {}  # position: last offset, and the newest time before it
        self.is_damaged = False

    def run(self, totals: ScanTotals) -> Iterator[Finding]:
        expected: int | None = self._segment.base_offset
        newest = -1
        totals.segments += 1
        with closing(scan_file(self._disk, self._segment.path)) as walk:
            for walked in walk:
                if self._end is not None and expected is not None and expected >= self._end:
                    break  # beyond the checkpoint: the next start cuts it
                self._size = walked.position + walked.size
                header = walked.header
                if header is None:
                    yield self._damage(walked.position, walked.offset, walked.problem)
                    expected = None  # a damaged batch does not tell where the next one begins
                    continue
                if (problem := self._order(walked, expected)) is not None:
                    yield self._damage(walked.position, walked.offset, problem)
                expected = header.next_offset
                self._places[walked.position] = (expected - 1, newest)
                newest = max(newest, header.max_timestamp_ms)
                totals.batches += 1
                totals.records += header.record_count
                totals.bytes += walked.size
        if expected is not None and not self.is_damaged:
            yield from self._ends_at(expected)

    def _order(self, walked: ScannedBatch, expected: int | None) -> str | None:
        if expected is not None and walked.offset < expected:
            return f"an offset below {expected}, which comes before it"
        if expected is not None and walked.offset > expected and not self._holes:
            return f"the offsets {expected} to {walked.offset - 1} are not there"
        if self._following is not None and walked.next_offset > self._following:
            return f"it ends at offset {walked.next_offset - 1}, the next file begins at {self._following}"
        if self._end is not None and walked.next_offset > self._end:
            return f"it ends at offset {walked.next_offset - 1}, the checkpoint says that the log ended at {self._end}"
        return None

    def _ends_at(self, end: int) -> Iterator[Finding]:
        if self._end is not None and end < self._end:
            what = f"its sound batches end here, the checkpoint says that the log ends at offset {self._end}"
            yield self._damage(self._size, end, what)
        elif self._following is not None and end < self._following:
            what = f"it ends here, the next file begins at offset {self._following}: one is missing, or this was cut"
            yield self._damage(self._size, end, what)

    def indexes(self, names: list[str]) -> Iterator[Finding]:
        """Check the index files after `run`: caches, checked where they are used."""
        for kind, entry in _INDEXES.items():
            name = file_name(self._segment.base_offset, kind)
            if name in names:
                path = f"{self._segment.path.rpartition('/')[0]}/{name}"
                data = read_file(self._disk, path)
                yield from self._entries(
                    path, kind, list(entry.iter_unpack(data[: len(data) - len(data) % entry.size]))
                )

    def _entries(self, path: str, kind: str, entries: list[tuple[int, int]]) -> Iterator[Finding]:
        base = self._segment.base_offset
        newest_of = dict(self._places.values())
        for number, (first, second) in enumerate(entries):
            if kind == "index":
                position, last = second, base + first
                fits = self._places.get(position, (None, 0))[0] == last or position >= self._size
            else:
                last = base + second
                fits = last not in newest_of or first >= newest_of[last]
            if not fits:
                what = f"entry {number} (offset {last}) does not fit the .log; the index is made anew when it is needed"
                yield Finding(Severity.WARNING, path, number * _INDEXES[kind].size, last, what)
                return

    def _damage(self, position: int, offset: int, what: str) -> Finding:
        self.is_damaged = True
        return Finding(Severity.DAMAGE, self._segment.path, position, offset, what)
