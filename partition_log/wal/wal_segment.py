"""Files of the write-ahead log: how one is made, and what recovery does about the last block it has read."""

import msgspec

from partition_log.disk.disk import Disk, is_disk_full
from partition_log.wal.layout import segment_head, segment_path

_ZEROS = bytes(1024 * 1024)


class LastBlock(msgspec.Struct, frozen=True, gc=False):
    """The last one that a recovery has read. Each is synced before the next is written, so it is the only one that may
    be in the page cache alone: its process was killed before the sync, or died of one that failed, after which the
    system takes what is not on the disk for clean.
    """

    path: str
    position: int
    data: bytes

    def make_durable(self, disk: Disk) -> None:
        """Written again, and synced. Raises `OSError`."""
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


class Making(msgspec.Struct, frozen=True, gc=False):
    """How to make a segment: from a file that has served, or of zeros. It gets its name when it is whole. `first` is a
    block that it begins with, and `last` the one that it follows, where that may not be durable.
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
            # Of one that a start before left behind nobody knows what of it is on the disk.
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
        """To the page cache: a flush writes half a page at each end, and the loop would wait until that was read."""
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
