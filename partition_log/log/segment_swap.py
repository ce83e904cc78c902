"""Replacement of segments by the cleaned one, in steps that each survive a crash.

    0...0.cleaned              is written; it may be lost
    0...0-0...4711.swap        synced, renamed, and the name synced: from here on it replaces every segment whose base
                               offset is at or above its first number and below the second
    0...0.log                  after those are deleted and the deletion is synced; this last rename need not be synced

After a crash before the second step the old segments are used; after a later crash the next start finishes the swap. So
no reader sees the old and the new segments at once. State snapshots (`state_snapshots.py`) describe the old log, and
are removed first.
"""

import msgspec

from partition_log.disk.disk import Disk
from partition_log.disk.unsynced_files import UnsyncedFiles
from partition_log.log.state_snapshots import remove_state_snapshots
from partition_log.segments.file_names import SwapName, cleaned_name, file_name, offset_of, swap_name
from partition_log.segments.index_files import write_indexes
from partition_log.segments.segment import Segment


class CleanedWrite(msgspec.Struct, frozen=True):
    """Bytes for a file that compaction is writing; a write at its beginning truncates it first."""

    path: str
    position: int
    data: bytes

    def run(self, disk: Disk, unsynced: UnsyncedFiles) -> None:
        if self.position == 0:
            disk.truncate(unsynced.open(self.path), 0)  # it may be left over from an abandoned pass
        unsynced.write(self.path, self.position, self.data)


class Swap:
    """Job that puts `cleaned` in the place of `replaced`, with a checkpoint job. It touches nothing but the disk.

    It may be run again after a full disk.
    """

    __slots__ = ("_indexes", "_is_placed", "cleaned", "folder", "is_begun", "is_done", "name", "replaced")

    def __init__(self, folder: str, cleaned: Segment, replaced: list[Segment], end: int) -> None:
        self.folder = folder
        self.cleaned = cleaned
        self.replaced = replaced
        self.name = SwapName(cleaned.base_offset, end)
        self.is_begun = False
        self.is_done = False
        self._is_placed = False  # true: only the indexes may be missing, and the cleaned file has its final name
        self._indexes = cleaned.index_writes()

    def run(self, disk: Disk, unsynced: UnsyncedFiles) -> None:
        if not self._is_placed:
            if self.name.text not in disk.list(self.folder):
                self._begin(disk, unsynced)
            _finish(disk, self.folder, self.name)
            self._is_placed = True
        write_indexes(disk, self._indexes)
        self.is_done = True

    def _begin(self, disk: Disk, unsynced: UnsyncedFiles) -> None:
        path = f"{self.folder}/{cleaned_name(self.name.base_offset)}"
        unsynced.sync(path)
        if remove_state_snapshots(disk, self.folder):
            disk.sync_folder(self.folder)
        disk.rename(path, f"{self.folder}/{self.name.text}")


def _finish(disk: Disk, folder: str, name: SwapName) -> None:
    """Finish a swap that was begun: delete the old files, and rename the new one."""
    disk.sync_folder(folder)  # before anything goes: a crash may have prevented the swap's own sync
    for stale in filter(name.replaces, disk.list(folder)):
        disk.remove(f"{folder}/{stale}")
    disk.sync_folder(folder)
    disk.rename(f"{folder}/{name.text}", f"{folder}/{file_name(name.base_offset, 'log')}")  # or the next start does


def finish_swaps(disk: Disk, folder: str) -> None:
    """Finish swaps that a crash interrupted, and remove cleaned files without a swap. Called at a start."""
    names = disk.list(folder)
    for swap in filter(None, map(swap_name, names)):
        remove_state_snapshots(disk, folder)
        _finish(disk, folder, swap)
    for name in names:
        if offset_of(name, "cleaned") is not None:
            disk.remove(f"{folder}/{name}")
