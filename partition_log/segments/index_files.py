"""Reading of a segment's two index files: caches, in which a crash may have left holes."""

from collections.abc import Iterable
from struct import Struct

from partition_log.disk.disk import Disk, is_unreadable

INDEX_ENTRY = Struct(">iI")
TIME_ENTRY = Struct(">qi")


def read_entries(disk: Disk, path: str, entry: Struct) -> list[tuple[int, int]]:
    """Return all whole entries. A file that is absent or cannot be read has none."""
    try:
        handle = disk.open_to_read(path)
        try:
            data = disk.read_at(handle, 0, disk.size(handle))
        finally:
            disk.close(handle)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return []
    whole = len(data) - len(data) % entry.size
    return list(entry.iter_unpack(data[:whole]))


def last_entry(disk: Disk, path: str, entry: Struct) -> tuple[int, int, int] | None:
    """Return the number of entries and the last one; None if there is none."""
    try:
        handle = disk.open_to_read(path)
        try:
            count = disk.size(handle) // entry.size
            data = disk.read_at(handle, (count - 1) * entry.size, entry.size) if count else b""
        finally:
            disk.close(handle)
    except OSError as error:
        if not is_unreadable(error):
            raise
        return None
    return (count, *entry.unpack(data)) if len(data) == entry.size else None


def write_indexes(disk: Disk, writes: Iterable[tuple[str, int, bytes]]) -> None:
    """Write path, position and bytes of each. Index files are never synced: their readers check for holes."""
    for path, position, data in writes:
        handle = disk.open(path)
        try:
            disk.write_at(handle, position, data)
        finally:
            disk.close(handle)
