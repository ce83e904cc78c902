"""Files of the write-ahead log: creation of one, and durability of the last block found by a recovery."""

import msgspec

from partition_log.disk.disk import Disk, is_disk_full
from partition_log.wal.layout import segment_head, segment_path

_ZEROS = bytes(1024 * 1024)


class BlockWrite(msgspec.Struct, frozen=True, gc=False):
    """Bytes for a place in a file."""

    handle: int
    position: int
    data: bytes


class LastBlock(msgspec.Struct, frozen=True, gc=False):
    """The last block that a recovery has read; it may be only in the page cache.

    Each block is synced before the next is written. The process may have been killed before it synced this one, or may
    have ended after a failed sync, after which the system marks unwritten pages clean.
    """

    path: str
    position: int
    data: bytes

    def make_durable(self, disk: Disk) -> None:
        """Write the block again, and sync it. Raises `OSError`."""
        handle = disk.open(self.path, make=False)
        try:
            disk.write_at(handle, self.position, self.data)
            disk.sync(handle)
        finally:
            disk.close(handle)


class WalSegment(msgspec.Struct, frozen=True, gc=False):
    handle: int
    path: str
    base: int
    size: int
    used: int = 0  # bytes of the blocks that it was created with

    @property
    def end(self) -> int:
        return self.base + self.size


class WalSegmentMaker(msgspec.Struct, frozen=True, gc=False):
    """Job that creates a segment, from a spare file or filled with zeros. The file is renamed once it is complete.

    `first` is the first block of the segment. `last` is the block before it, if that may not be durable.
    """

    folder: str
    base: int
    size: int
    spare: str | None
    first: bytes = b""
    last: LastBlock | None = None

    def run(self, disk: Disk) -> WalSegment:
        if self.last is not None:
            self.last.make_durable(disk)
        path = segment_path(self.folder, self.base)
        making = f"{self.folder}/making"
        if self.spare is not None:
            disk.rename(self.spare, making)
            disk.sync_folder(self.folder)  # else a crash could restore the old name, while the file has a new head
        handle = disk.open(making)
        try:
            # A file left by an earlier start may be only partly on the disk.
            if self.spare is None or disk.size(handle) != self.size:
                self._fill(disk, handle)
            else:
                self._bring_in(disk, handle)
            disk.write_at(handle, 0, segment_head(self.base, self.size) + self.first)
            disk.sync(handle)
            disk.rename(making, path)
            disk.sync_folder(self.folder)
        except OSError:
            disk.close(handle)
            raise
        return WalSegment(handle, path, self.base, self.size, len(self.first))

    def _bring_in(self, disk: Disk, handle: int) -> None:
        """Read the file into the page cache: a flush writes half a page at each end, and would wait for the read."""
        for position in range(0, self.size, len(_ZEROS)):
            disk.read_at(handle, position, len(_ZEROS))

    def _fill(self, disk: Disk, handle: int) -> None:
        disk.truncate(handle, 0)
        try:
            for position in range(0, self.size, len(_ZEROS)):
                disk.write_at(handle, position, _ZEROS[: self.size - position])
        except OSError as error:
            if is_disk_full(error):
                disk.truncate(handle, 0)  # an incomplete segment is useless, and takes space that others need
            raise
