"""Files that are kept open for reading: a limited number of the most recently used, however many segments there are.

Only readers use them, and they may be closed at any moment. A job does not: it opens files by path, writes, syncs and
closes them, one at a time, so that no reader can close a job's file.
"""

import errno

from partition_log.disk.disk import Disk, is_unreadable
from partition_log.errors import ADVICE, MISSING, LogDamaged

MOST = 256
"""Bound of open files. A store has four more: one for each of two jobs, the write-ahead log's, and the lock."""


class OpenFiles:
    """A file belongs to `owner`, its reader; a later file with the same path has another owner. Files of pinned owners
    do not count towards `most`.

    A file that is missing, or that the disk cannot read, counts as damaged: `LogDamaged`. Files are never created here.
    """

    __slots__ = ("_handles", "_most", "_pinned", "damaged", "disk")

    def __init__(self, disk: Disk, most: int = MOST) -> None:
        self.disk = disk
        self._most = most
        self._handles: dict[object, int] = {}  # least recently used first
        self._pinned: dict[object, int] = {}
        self.damaged: dict[str, str] = {}
        """Logs found damaged, each with the sentence that says where."""

    def __len__(self) -> int:
        return len(self._handles) + len(self._pinned)

    def size(self, owner: object, path: str) -> int:
        """Return the size of the file."""
        return self.disk.size(self._handle(owner, path, 0))

    def read_at(self, owner: object, path: str, position: int, size: int) -> bytes:
        """Read as `Disk.read_at` does."""
        handle = self._handle(owner, path, position)
        try:
            return self.disk.read_at(handle, position, size)
        except OSError as error:
            raise _damaged(path, position, error) from None

    def pin(self, owner: object, path: str) -> None:
        """Keep the file open until `close`, so that it can be read even after it is renamed or deleted."""
        if owner not in self._pinned:
            self._pinned[owner] = self._handle(owner, path, 0)
            del self._handles[owner]

    def close(self, owner: object) -> None:
        """Close the owner's file, if it is open."""
        handle = self._pinned.pop(owner, None)
        if handle is None:
            handle = self._handles.pop(owner, None)
        if handle is not None:
            self.disk.close(handle)

    def close_all(self) -> None:
        while self._handles:
            self._close_oldest()
        while self._pinned:
            self.disk.close(self._pinned.popitem()[1])

    def _handle(self, owner: object, path: str, position: int) -> int:
        if (handle := self._pinned.get(owner)) is not None:
            return handle
        handle = self._handles.pop(owner, None)
        if handle is None:
            handle = self._open(path, position)
        self._handles[owner] = handle
        return handle

    def _open(self, path: str, position: int) -> int:
        while len(self._handles) >= self._most:
            self._close_oldest()
        while True:
            try:
                return self.disk.open_to_read(path)
            except OSError as error:
                # The process has no descriptor left: better to be slow than to fail.
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._handles:
                    raise _damaged(path, position, error) from None
                self._close_oldest()

    def _close_oldest(self) -> None:
        owner = next(iter(self._handles))
        self.disk.close(self._handles.pop(owner))


def _damaged(path: str, position: int, error: OSError) -> LogDamaged | OSError:
    """Return the error to raise: damage if the file is at fault, else the disk's own."""
    if not is_unreadable(error):
        return error
    missing = isinstance(error, FileNotFoundError)
    what = MISSING if missing else f"it cannot be read ({error.strerror})"
    return LogDamaged(path, position, None, what, ADVICE)
