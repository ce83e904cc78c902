"""Files that jobs have written and no sync has covered yet, held open until one does.

The kernel writes back in the background. It keeps an error with the inode in memory, and reports it once, to the next
sync of each descriptor that was open then. It may evict an inode that no process has open, and the error with it: a
checkpoint that opened the file again would see no error. So a descriptor stays open from the first write to the sync.

The alternative is one descriptor of the file system and syncfs(2). It needs no limit on open files, but waits for the
writes of other processes to the same file system, reports their errors too, and none at all before Linux 5.8.
"""

import errno
import posixpath

from partition_log.disk.disk import Disk

MOST = 1_024
"""Enough for a checkpoint's 64 MiB in spills of 64 KiB."""


class UnsyncedFiles:
    """At most `most` open files; beyond that, those written least recently are synced first.

    Used only by jobs, and by recovery before them, one at a time.
    """

    __slots__ = ("_disk", "_handles", "_most")

    def __init__(self, disk: Disk, most: int = MOST) -> None:
        self._disk = disk
        self._most = most
        self._handles: dict[str, int] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._handles)

    def open(self, path: str) -> int:
        """Return a handle for writing or truncating the file. The caller must never close it.

        The file and its folder are created if they are absent.
        """
        handle = self._handles.pop(path, None)
        if handle is None:
            while len(self._handles) >= self._most:
                self._sync_oldest()
            handle = self._opened(path)
        self._handles[path] = handle
        return handle

    def _opened(self, path: str) -> int:
        while True:
            try:
                return self._disk.open(path)
            except FileNotFoundError:
                self._disk.make_folder(posixpath.dirname(path))
            except OSError as error:
                # The process has no descriptor left: better to be slow than to fail.
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._handles:
                    raise
                self._sync_oldest()

    def write(self, path: str, position: int, data: bytes) -> None:
        self._disk.write_at(self.open(path), position, data)

    def sync(self, path: str) -> None:
        """Sync the file, unless all of it was synced. Raises `SyncFailed`."""
        if (handle := self._handles.get(path)) is not None:
            self._disk.sync(handle)
            del self._handles[path]
            self._disk.close(handle)

    def sync_all(self) -> None:
        """Sync all files: everything written is durable on return."""
        while self._handles:
            self._sync_oldest()

    def _sync_oldest(self) -> None:
        self.sync(next(iter(self._handles)))

    def forget(self, path: str) -> None:
        """Close the file, or all files of a folder: it is about to be removed."""
        for known in [known for known in self._handles if known == path or known.startswith(f"{path}/")]:
            self._disk.close(self._handles.pop(known))

    def close(self) -> None:
        """Close all files without a sync: the process ends."""
        while self._handles:
            self._disk.close(self._handles.popitem()[1])
