"""Sparse index of a segment: every few kilobytes, a batch's last offset, its position, and the newest time before it.

The two index files are caches that a crash may have left with holes: entries that do not fit end the index.
"""

from array import array
from bisect import bisect_left, bisect_right

from partition_log.disk.disk import Disk
from partition_log.segments.index_files import INDEX_ENTRY, TIME_ENTRY, read_entries

INDEX_INTERVAL_BYTES = 4096


class SparseIndex:
    """Entry i: the batch at positions[i] ends with offsets[i]; nothing before it is newer than timestamps[i].

    The next batch gets an entry from position `next_entry` on. `stored` entries are in the index files.
    """

    __slots__ = ("next_entry", "offsets", "positions", "stored", "timestamps")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.positions = array("q")
        self.timestamps = array("q")
        self.stored = 0
        self.next_entry = INDEX_INTERVAL_BYTES

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, offset: int, position: int, timestamp_ms: int) -> None:
        """Add an entry after all others."""
        self.offsets.append(offset)
        self.positions.append(position)
        self.timestamps.append(timestamp_ms)
        self.next_entry = position + INDEX_INTERVAL_BYTES

    def clear(self) -> None:
        """Remove all entries."""
        del self.offsets[:], self.positions[:], self.timestamps[:]
        self.stored = 0
        self.next_entry = INDEX_INTERVAL_BYTES

    def floor(self, offset: int) -> tuple[int, int] | None:
        """Return last offset and position of the last indexed batch that ends at or before `offset`."""
        entry = bisect_right(self.offsets, offset) - 1
        return None if entry < 0 else (self.offsets[entry], self.positions[entry])

    def position_before(self, timestamp_ms: int) -> int:
        """Return a position before which no timestamp is that late."""
        entry = bisect_left(self.timestamps, timestamp_ms) - 1
        return self.positions[entry] if entry >= 0 else 0

    def last_position(self, after: int, up_to: int, offset: int) -> int:
        """Return the last indexed position in (after, up_to] of a batch that ends below `offset`; else `after`."""
        entry = bisect_right(self.positions, up_to) - 1
        while entry >= 0 and self.positions[entry] > after and self.offsets[entry] >= offset:
            entry -= 1
        return self.positions[entry] if entry >= 0 and self.positions[entry] > after else after

    def load(self, disk: Disk, stem: str, base_offset: int, size: int, end: int) -> None:
        """Read the entries that fit a segment of this base offset and size, and lie below the offset `end`."""
        self.clear()
        if size <= INDEX_INTERVAL_BYTES:
            return  # no index files; for thousands of small logs, that saves most of the work of a start
        times = read_entries(disk, f"{stem}timeindex", TIME_ENTRY)
        last_offset, last_position = -1, 0
        for (relative, position), (timestamp_ms, same) in zip(
            read_entries(disk, f"{stem}index", INDEX_ENTRY), times, strict=False
        ):
            offset = base_offset + relative
            if same != relative or not (last_offset < offset < end and last_position < position < size):
                break
            self.add(offset, position, timestamp_ms)
            last_offset, last_position = offset, position
        self.stored = len(self)

    def writes(self, stem: str, base_offset: int) -> list[tuple[str, int, bytes]]:
        """Return path, position and bytes of the entries that the index files lack."""
        fresh = range(self.stored, len(self))
        if not fresh:
            return []
        entries = b"".join(INDEX_ENTRY.pack(self.offsets[i] - base_offset, self.positions[i]) for i in fresh)
        times = b"".join(TIME_ENTRY.pack(self.timestamps[i], self.offsets[i] - base_offset) for i in fresh)
        return [
            (f"{stem}index", fresh.start * INDEX_ENTRY.size, entries),
            (f"{stem}timeindex", fresh.start * TIME_ENTRY.size, times),
        ]
