"""The disk: a small synchronous interface, and its implementation by the system. This is the only edge here."""

import errno
import fcntl
import os
import sys
from typing import Protocol

from partition_log.errors import FolderInUse, SyncFailed


class Disk(Protocol):
    """Paths are text with `/`; a file is used by the handle that `open` returned. Any failure raises `OSError`.

    Only synced changes survive a crash for certain: contents by `sync`, names (created, renamed, removed) by
    `sync_folder` of their folder. A write of many bytes may survive in part. A rename happens wholly or not at all.
    """

    def open(self, path: str, *, make: bool = True) -> int:
        """Open for reading and writing. An absent file is created empty, or raises `FileNotFoundError`."""

    def open_to_read(self, path: str) -> int:
        """Open for reading only. The loop may do this: it never waits while the file system is frozen."""

    def close(self, handle: int) -> None: ...

    def size(self, handle: int) -> int: ...

    def read_at(self, handle: int, position: int, size: int) -> bytes:
        """Read; fewer bytes than `size` are returned only at the end of the file."""

    def write_at(self, handle: int, position: int, data: bytes) -> None:
        """Write all of the bytes, or raise an error; the file grows as needed."""

    def truncate(self, handle: int, size: int) -> None: ...

    def sync(self, handle: int) -> None:
        """Make the contents, and what is needed to read them back, durable. Raises `SyncFailed`, also for an earlier
        write that has failed meanwhile."""

    def make_folder(self, path: str) -> None:
        """Make the folder, unless it is there."""

    def sync_folder(self, path: str) -> None:
        """Make the names in the folder durable. Raises `SyncFailed`."""

    def list(self, folder: str) -> list[str]:
        """Return the names, sorted; none of an absent folder."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing any other with the new name."""

    def remove(self, path: str) -> None: ...

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""

    def lock(self, path: str) -> int:
        """Return a handle that excludes all others until it is closed; raises `FolderInUse`."""


def is_unreadable(error: OSError) -> bool:
    """Return true if this one file cannot be read, false if the disk or the process fails as a whole."""
    return error.errno in (errno.EIO, errno.ENOENT)


def is_disk_full(error: OSError) -> bool:
    """Return true if the disk is full: then a retry is safe.

    Not so after a sync: a thin volume or a quota may report ENOSPC there too, when the bytes are lost already.
    """
    return error.errno in (errno.ENOSPC, errno.EDQUOT) and not isinstance(error, SyncFailed)


class OsDisk:
    """The disk of this machine. Its errors name the file, also where the system only has a file descriptor."""

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}

    def open(self, path: str, *, make: bool = True) -> int:
        return self._opened(path, os.open(path, os.O_RDWR | (os.O_CREAT if make else 0) | os.O_CLOEXEC, 0o644))

    def open_to_read(self, path: str) -> int:
        return self._opened(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def _opened(self, path: str, handle: int) -> int:
        self._paths[handle] = path
        return handle

    def close(self, handle: int) -> None:
        self._paths.pop(handle, None)
        os.close(handle)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def read_at(self, handle: int, position: int, size: int) -> bytes:
        try:
            data = os.pread(handle, size, position)
            if len(data) == size or not data:
                return data
            pieces = [data]
            got = len(data)
            while got < size and (data := os.pread(handle, size - got, position + got)):
                pieces.append(data)
                got += len(data)
        except OSError as error:
            error.filename = self._paths.get(handle)
            raise
        return b"".join(pieces)

    def write_at(self, handle: int, position: int, data: bytes) -> None:
        try:
            written = os.pwrite(handle, data, position)
            while written < len(data):
                written += os.pwrite(handle, memoryview(data)[written:], position + written)
        except OSError as error:
            error.filename = self._paths.get(handle)
            raise

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        try:
            if sys.platform == "darwin":
                fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # fsync there stops at the drive's cache
            else:
                os.fdatasync(handle)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, self._paths.get(handle)) from error

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def sync_folder(self, path: str) -> None:
        handle = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, path) from error
        finally:
            os.close(handle)

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_folder(self, path: str) -> None:
        os.rmdir(path)

    def lock(self, path: str) -> int:
        handle = self.open(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close(handle)
            raise FolderInUse(errno.EWOULDBLOCK, "another process holds the lock", path) from error
        return handle


class ReadOnlyDisk(OsDisk):
    """The disk of this machine, for reading only: any change raises `OSError`. Read permission for the folder is
    enough.
    """

    def open(self, path: str, *, make: bool = True) -> int:
        return self.open_to_read(path)

    def write_at(self, handle: int, position: int, data: bytes) -> None:
        raise self._refusal()

    def truncate(self, handle: int, size: int) -> None:
        raise self._refusal()

    def make_folder(self, path: str) -> None:
        raise self._refusal(path)

    def rename(self, old: str, new: str) -> None:
        raise self._refusal(old)

    def remove(self, path: str) -> None:
        raise self._refusal(path)

    def remove_folder(self, path: str) -> None:
        raise self._refusal(path)

    def lock(self, path: str) -> int:
        raise self._refusal(path)

    def is_locked(self, path: str) -> bool:
        """Return true if another process has the lock. The check takes the lock for a moment, shared."""
        try:
            handle = self.open(path)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            self.close(handle)
        return False

    @staticmethod
    def _refusal(path: str | None = None) -> OSError:
        return OSError(errno.EROFS, os.strerror(errno.EROFS), path)
