"""One segment file of a partition log, and its sparse index.

Format 1 (the `format` of `node.toml`). A log's folder holds, for each segment, with names as Kafka gives them:

    00000000000000000000.log         record batches of version 2, one after the other; the name is the base offset
    00000000000000000000.index       8 bytes an entry: a batch's last offset minus the base offset, its position in the
                                     .log
    00000000000000000000.timeindex   12 bytes an entry, for each in the .index: a timestamp, the same offset: nothing
                                     before that batch is newer than that timestamp

The .index is Kafka's. The .timeindex is not: Kafka's has no entry if no newer timestamp was appended, so it could not
be distinguished from one that a crash cut short, and each would have to be checked against the log.

Migration: a change of the .log format raises `format` in `node.toml`, and a node refuses a folder of a format that it
does not know. Indexes are caches: they are written at checkpoints, never synced, checked where they are used, and
rebuilt from the .log if they are missing or wrong. They may change without a new format.

A segment's newest bytes are in memory (`pending`): the write-ahead log has them, so they need not be written to the
file with every append. They are written in one piece above a size, and before every checkpoint.
"""

from collections.abc import Iterator

from partition_log.disk.open_files import OpenFiles
from partition_log.errors import ADVICE, LogDamaged
from partition_log.segments.file_names import file_name
from partition_log.segments.index_files import INDEX_ENTRY, TIME_ENTRY, last_entry
from partition_log.segments.segment_write import SegmentWrite
from partition_log.segments.sparse_index import SparseIndex
from protocol.record_batch import HEADER_BYTES, CorruptBatch, extent

READ_AHEAD_BYTES = 8192


class Segment:
    """`size` counts all bytes, `written` those that are in the file for certain; the rest is in memory."""

    __slots__ = (
        "_files",
        "_first_ms",
        "_index",
        "_loaded",
        "_pending",
        "base_offset",
        "max_timestamp_ms",
        "next_offset",
        "path",
        "size",
        "spilling",
        "unsynced",
        "written",
    )

    def __init__(self, files: OpenFiles, folder: str, base_offset: int) -> None:
        self._files = files
        self._first_ms: int | None = None
        self.path = f"{folder}/{file_name(base_offset, 'log')}"
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.written = 0
        self.max_timestamp_ms = -1
        self.spilling = 0  # number of jobs that are writing it
        self.unsynced = False
        self._pending: list[bytes] = []
        self._index = SparseIndex()
        self._loaded = True

    # ---------------------------------------------------------------------------------------------------- appending

    def append(self, batch: bytes, base_offset: int, next_offset: int, max_timestamp_ms: int) -> None:
        """Append a stamped batch, in memory."""
        position = self.size
        if position >= self._index.next_entry:
            self._index.add(next_offset - 1, position, self.max_timestamp_ms)
        self.size = position + len(batch)
        self.next_offset = next_offset
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
        self._pending.append(batch)

    @property
    def pending_bytes(self) -> int:
        return self.size - self.written

    def spill(self) -> SegmentWrite:
        """Return the bytes in memory as a write for a job; they can be read meanwhile."""
        data = self._pending_data()
        self.spilling += 1
        self.unsynced = True
        return SegmentWrite(self.path, self.written, data)

    def spilled(self, write: SegmentWrite) -> None:
        """Note that the write is in the file. Two jobs may have written the same bytes, and end in any order."""
        self.spilling -= 1
        end = write.position + len(write.data)
        if end > self.written:
            self._pending = [self._pending_data()[end - self.written :]]
            self.written = end

    def not_spilled(self) -> None:
        """Note that the write failed on a full disk; the bytes stay in memory."""
        self.spilling -= 1

    def file_size(self) -> int:
        """Return the size of the file on disk."""
        return self._files.size(self, self.path)

    @property
    def is_busy(self) -> bool:
        """True unless all bytes are known to be on disk."""
        return self.unsynced or self.spilling > 0 or self.pending_bytes > 0

    def pin(self) -> None:
        """Keep the segment readable until it is closed, even after its files are renamed or deleted."""
        self._load_if_needed()
        if self.written:
            self._files.pin(self, self.path)

    def close(self) -> None:
        """Close the file, since no read is likely soon."""
        self._files.close(self)

    # ------------------------------------------------------------------------------------------------------ reading

    def read_at(self, position: int, size: int) -> bytes:
        """Read bytes, from the file and from memory alike."""
        size = min(size, self.size - position)
        if size <= 0:
            return b""
        in_file = self.written - position
        if in_file >= size:
            data = self._files.read_at(self, self.path, position, size)
            if len(data) < size:
                raise self._damaged(position, None, f"it ends after {position + len(data)} bytes of {self.written}")
            return data
        pending = self._pending_data()
        if in_file <= 0:
            return pending[-in_file : size - in_file]
        return self.read_at(position, in_file) + pending[: size - in_file]

    def read(self, offset: int, max_bytes: int, up_to: int) -> bytes:
        """Return whole batches, from the one that holds `offset`, or the first after it, to those below `up_to`.

        The first one is returned even if it is larger than `max_bytes`.
        """
        position = self.find(offset)
        end = self._index.last_position(position, position + max_bytes, up_to)
        for at, base_offset, _next, size, _timestamp in self.walk(end):
            if base_offset >= up_to or (at + size - position > max_bytes and at > position):
                break
            end = at + size
        return self.read_at(position, end - position)

    def find(self, offset: int) -> int:
        """Return the position of the batch that holds `offset`, or of the first after it; `size` if there is none."""
        self._load_if_needed()
        last, start = self._index.floor(offset) or (-1, 0)
        if start and self._last_offset(start) != last:
            self.rebuild()
            return self.find(offset)
        for position, _base, next_offset, _size, _timestamp in self.walk(start):
            if next_offset > offset:
                return position
        return self.size

    def find_time(self, timestamp_ms: int) -> int | None:
        """Return the position of the first batch that has a record with this or a later timestamp."""
        self._load_if_needed()
        if self.max_timestamp_ms < timestamp_ms:
            return None
        for position, _base, _next, _size, newest in self.walk(self._index.position_before(timestamp_ms)):
            if newest >= timestamp_ms:
                return position
        return None

    def newest_ms(self) -> int:
        """The largest timestamp, -1 if there is none. The index is not loaded for it: a gigabyte's takes 6 MB."""
        if not self._loaded and self.max_timestamp_ms < 0:
            newest = self._newest_by_last_entry()
            if newest is None:
                self._load_if_needed()
            else:
                self.max_timestamp_ms = newest
        return self.max_timestamp_ms

    def _newest_by_last_entry(self) -> int | None:
        """Largest timestamp by the index files' last entries, which cover those before; None if these are invalid."""
        disk = self._files.disk
        last = last_entry(disk, f"{self._index_stem}index", INDEX_ENTRY)
        times = last_entry(disk, f"{self._index_stem}timeindex", TIME_ENTRY)
        if last is None or times is None:
            return None
        (count, relative, position), (same_count, newest, same) = last, times
        fits = count == same_count and relative == same and 0 < position < self.size
        if not fits or self._last_offset(position) != self.base_offset + relative:
            return None
        return max(newest, *[timestamp for _at, _base, _next, _size, timestamp in self.walk(position)])

    @property
    def first_ms(self) -> int:
        """The largest timestamp of the first batch, -1 if it has none or is damaged: readers report the damage."""
        if self._first_ms is None:
            self._first_ms = next(self._whole_batches(0), (0, 0, 0, 0, -1))[4]
        return self._first_ms

    def walk(self, position: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield position, base offset, next offset, size and largest timestamp of each batch from the position on."""
        chunk, start = b"", position
        while position < self.size:
            if position + HEADER_BYTES > start + len(chunk):
                chunk, start = self.read_at(position, READ_AHEAD_BYTES), position
                if len(chunk) < HEADER_BYTES:
                    raise self._damaged(position, None, f"{len(chunk)} bytes are no whole header")
            try:
                base_offset, next_offset, size, timestamp = extent(chunk, position - start)
            except CorruptBatch as error:
                raise self._damaged(position, None, error.reason) from None
            if next_offset <= base_offset or position + size > self.size:
                raise self._damaged(position, base_offset, "a batch ends beyond the segment, or before it begins")
            yield position, base_offset, next_offset, size, timestamp
            position += size

    # ---------------------------------------------------------------------------------------------------- the index

    def adopt(self, size: int, end: int) -> None:
        """Take over a closed segment, `size` bytes long; its index is read at the first use."""
        self.size = self.written = size
        self.next_offset = end
        self._loaded = False

    @property
    def is_loaded(self) -> bool:
        """True if the index is in memory."""
        return self._loaded

    def _load_if_needed(self) -> None:
        if not self._loaded:
            size, end = self.size, self.next_offset
            self.load(size, end)
            if self.size < size:
                raise self._damaged_after(self.size, size, end)
            self.next_offset = end  # the last batches may have been compacted away

    def _damaged_after(self, position: int, size: int, end: int) -> LogDamaged:
        """Return the damage of a closed segment whose batches do not reach its end.

        It must not be taken for a short segment: a reader would skip the records that it held.
        """
        self.size, self.written, self.next_offset, self._loaded = size, size, end, False
        try:
            for _batch in self.walk(position):
                pass
        except LogDamaged as damage:
            return damage
        return self._damaged(position, None, f"a batch ends beyond offset {end}, where the next file begins")

    def load(self, size: int, end: int) -> bool:
        """Take over the file, `size` bytes long, up to offset `end`, and ignore the rest. Return false if the file has
        no batch that ends there.
        """
        self._loaded = True
        self.size = self.written = size
        index = self._index
        index.load(self._files.disk, self._index_stem, self.base_offset, size, end)
        if index and self._last_offset(index.positions[-1]) != index.offsets[-1]:
            index.clear()
        position = index.positions[-1] if index else 0
        self.next_offset = index.offsets[-1] if index else self.base_offset
        self.max_timestamp_ms = index.timestamps[-1] if index else -1
        self._scan(position, end)
        return self.next_offset == end

    def _scan(self, start: int, end: int) -> None:
        stop = start
        for position, _base, next_offset, size, timestamp in self._whole_batches(start):
            if next_offset > end or self.next_offset == end:
                break  # after the end there may be a batch that is intact except for its offset
            if position >= self._index.next_entry:
                self._index.add(next_offset - 1, position, self.max_timestamp_ms)
            self.next_offset = next_offset
            self.max_timestamp_ms = max(self.max_timestamp_ms, timestamp)
            stop = position + size
        self.size = self.written = stop

    def _whole_batches(self, start: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Walk the batches up to the first damaged one: any bytes may follow the end that is searched for."""
        try:
            yield from self.walk(start)
        except LogDamaged:
            return

    def rebuild(self) -> None:
        """Rebuild a wrong index from the batches."""
        self._index.clear()
        self.max_timestamp_ms = -1
        for position, _base, next_offset, _size, timestamp in self.walk(0):
            if position >= self._index.next_entry:
                self._index.add(next_offset - 1, position, self.max_timestamp_ms)
            self.max_timestamp_ms = max(self.max_timestamp_ms, timestamp)

    def index_writes(self) -> list[tuple[str, int, bytes]]:
        """Return path, position and bytes of entries missing in the index files; call `indexed` after their write."""
        return self._index.writes(self._index_stem, self.base_offset)

    def indexed(self, entries: int) -> None:
        """Note that the first `entries` entries are in the index files."""
        self._index.stored = max(self._index.stored, entries)

    @property
    def entries(self) -> int:
        """Number of entries of the index."""
        return len(self._index)

    @property
    def _index_stem(self) -> str:
        return self.path.removesuffix("log")

    def _last_offset(self, position: int) -> int | None:
        """Return the last offset of the batch at a position; None if there can be none."""
        head = self.read_at(position, HEADER_BYTES)
        try:
            return extent(head)[1] - 1 if len(head) == HEADER_BYTES else None
        except CorruptBatch:
            return None

    def _pending_data(self) -> bytes:
        if len(self._pending) != 1:
            self._pending = [b"".join(self._pending)]
        return self._pending[0]

    def _damaged(self, position: int, offset: int | None, what: str) -> LogDamaged:
        return LogDamaged(self.path, position, offset, what, ADVICE)
