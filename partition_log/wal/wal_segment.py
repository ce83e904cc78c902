"""Files of the write-ahead log: making one, and recovery behind the last block."""

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
    """The last block that a recovery has read; it may be in the page cache alone.

    Each block is synced before the next is written. The process may have been killed before the sync of this one, or
    have ended for a failed sync, after which the system marks unwritten pages clean.
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
    used: int = 0  # bytes of blocks that it was made with

    @property
    def end(self) -> int:
        return self.base + self.size


class WalSegmentMaker(msgspec.Struct, frozen=True, gc=False):
    """Job that makes a segment: from a spare file, or of zeros. The file gets its name when it is whole.

    `first` is a block that the segment begins with. `last` is the block before it, if that may not be durable.
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
            disk.sync_folder(self.folder)  # or a crash brings the old name back, for a file that begins otherwise
        handle = disk.open(making)
        try:
            # A file that an earlier start left behind may be on the disk in part.
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
                disk.truncate(handle, 0)  # half a segment is of no use, and others need the room
            raise
