"""A disk in memory that forgets what was not synced.

Contents and names are two things, as on a real disk: `sync` makes a file's bytes durable, `sync_folder` the names in a
folder. At a crash, each write that was not synced is lost, kept, or kept in part, sector by sector; of the changes of
names in a folder, only the first few are kept, as file systems with a journal do it, or any of them, as POSIX allows
(`keeps_any_names`).

It fails as Linux does. A write may be lost between it and the sync (`lose_write`): the sync of each handle that was
open says so, once; one opened later is told only what nobody was told yet; and where nobody has the file open, the
system may forget the file in memory and the error with it. After a failed sync the bytes count as clean, whatever the
errno.
"""

import copy
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Self

from partition_log.errors import FolderInUse, SyncFailed
from tests.simulation.files import SECTOR, File, Folder, Opened

__all__ = ["SECTOR", "Crash", "SimDisk"]

PAGE = 4096


class Crash(Exception):
    """The machine stopped before an operation. Call `SimDisk.crash()` and mount the disk again."""


@dataclass(slots=True)
class Lost:
    """Operation to be lost, `after` a number of others of its kind."""

    operation: str
    code: int
    after: int
    but: str | None

    def is_of(self, operation: str, path: str) -> bool:
        return operation == self.operation and (self.but is None or self.but not in path)


class SimDisk:
    """`operations` counts the operations; `crash_before` is the number of the one that raises `Crash` instead (1 is the
    first). `counts` says what crashes have done: writes lost, kept, torn, and changes of names forgotten;
    `short_writes` how many writes a full disk (`is_full`) has taken in part.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)
        self._root = Folder()
        self._handles: dict[int, Opened] = {}
        self._next_handle = 3
        self._failures: list[tuple[int, str | None]] = []
        self.operations = 0
        self.journal: list[str] | None = None  # set to a list to have every operation noted
        self.crash_before: int | None = None
        self.fail_at: int | None = None  # this operation fails
        self.fail_code = errno.EIO
        self.is_full = False
        self.keeps_any_names = False
        self.on_operation: Callable[[str], None] = lambda name: None
        self._lost: list[Lost] = []
        self.counts = {"lost": 0, "kept": 0, "torn": 0, "names": 0}
        self.short_writes = 0

    # ------------------------------------------------------------------------------------------------- for the tests

    def crash(self) -> None:
        """Forget what was not synced, and all handles and locks."""
        self._end_of_processes()
        self._root.crash(self._random, self.counts, keeps_any_names=self.keeps_any_names)

    def kill(self) -> None:
        """End the process and not the machine: handles and locks are gone, written data is still there."""
        handles = list(self._handles)
        for handle in handles:
            self._close(handle)
        self._end_of_processes()
        self._root.release()

    def _end_of_processes(self) -> None:
        self._handles.clear()
        self._failures.clear()
        self._lost.clear()
        self.crash_before = None

    def clone(self) -> "SimDisk":
        """Return a copy, byte for byte, that is independent from then on. Not for a disk in use."""
        watched, self.on_operation = self.on_operation, SimDisk(0).on_operation
        try:
            return copy.deepcopy(self)
        finally:
            self.on_operation = watched

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy everything; the source of randomness by its state, whose 625 numbers are no objects to be copied."""
        made = object.__new__(type(self))
        memo[id(self)] = made
        for name, value in vars(self).items():
            setattr(made, name, copy.copy(value) if isinstance(value, Random) else copy.deepcopy(value, memo))
        return made

    def files(self) -> list[str]:
        """Return the paths of all files, sorted by folder."""
        return list(_paths(self._root, ""))

    def fail_next(self, code: int, operation: str | None = None, times: int = 1) -> None:
        """Let the next operation, or the next of that name, raise `OSError(code)` and do nothing; a failed sync of a
        file loses the data to be synced."""
        self._failures += [(code, operation)] * times

    def lose_write(self, code: int, after: int = 0, but: str | None = None) -> None:
        """Let the next write, or that after so many others, fail in writeback, before any sync. The lost pages are
        dropped once no process has the file open. Files with `but` in their path are left alone."""
        self._lost.append(Lost("write", code, after, but))

    def lose_sync(self, code: int, after: int = 0, but: str | None = None) -> None:
        """Let the next sync, or that after so many others, fail because its data cannot be written."""
        self._lost.append(Lost("sync", code, after, but))

    def heal(self) -> None:
        """Cancel all failures that are due."""
        self._failures.clear()
        self._lost.clear()

    def file(self, path: str) -> File:
        """Return the file, to examine and to damage it."""
        folder, name = self._at(path)
        entry = folder.names[name]
        assert isinstance(entry, File)
        return entry

    def damage(self, path: str, position: int, data: bytes) -> None:
        """Overwrite bytes durably."""
        file = self.file(path)
        file.sync()
        file.change((position, data))
        file.sync()

    def _operation(self, name: str, what: str | int) -> None:
        self.operations += 1
        self.on_operation(name)
        if self.journal is not None:
            self.journal.append(f"{name} {what}")
        if self.crash_before is not None and self.operations >= self.crash_before:
            raise Crash(f"before operation {self.operations}: {name} {what}")
        if self.operations == self.fail_at:
            raise OSError(self.fail_code, os.strerror(self.fail_code), str(what))
        for index, (code, wanted) in enumerate(self._failures):
            if wanted is None or wanted == name:
                del self._failures[index]
                raise OSError(code, os.strerror(code), str(what))

    def _must_have_room(self, what: str | int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(what))

    # ------------------------------------------------------------------------------------------------------ as a Disk

    def open_to_read(self, path: str) -> int:
        return self._open("open_to_read", path, make=False)

    def open(self, path: str, *, make: bool = True) -> int:
        return self._open("open", path, make=make)

    def _open(self, operation: str, path: str, *, make: bool) -> int:
        self._operation(operation, path)
        folder, name = self._at(path)
        entry = folder.names.get(name)
        if entry is None and not make:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if entry is None:
            self._must_have_room(path)
            entry = folder.names[name] = File()
            folder.changed()
        if isinstance(entry, Folder):
            raise IsADirectoryError(errno.EISDIR, "is a folder", path)
        self._next_handle += 1
        self._handles[self._next_handle] = Opened(entry, path, entry.known_failures)
        return self._next_handle

    def close(self, handle: int) -> None:
        self._close(handle).locked = False

    def _close(self, handle: int) -> File:
        file = self._handles.pop(handle).file
        if file.is_forgettable and all(opened.file is not file for opened in self._handles.values()):
            file.forget()
        return file

    def size(self, handle: int) -> int:
        return len(self._handles[handle].file.data)

    def read_at(self, handle: int, position: int, size: int) -> bytes:
        self._operation("read_at", handle)
        return bytes(self._handles[handle].file.data[position : position + size])

    def write_at(self, handle: int, position: int, data: bytes) -> None:
        self._operation("write_at", handle)
        file = self._handles[handle].file
        if self.is_full and position + len(data) > (room := -(-len(file.data) // PAGE) * PAGE):
            if position < room:
                self.short_writes += 1
                file.change((position, bytes(data[: room - position])))
            self._must_have_room(handle)
        file.change((position, bytes(data)))
        self._lose("write", handle)

    def _lose(self, operation: str, handle: int) -> None:
        opened = self._handles[handle]
        for lost in [lost for lost in self._lost if lost.is_of(operation, opened.path)]:
            if lost.after:
                lost.after -= 1
            else:
                self._lost.remove(lost)
                opened.file.fail_writeback(lost.code)
                opened.file.is_forgettable |= operation == "write"

    def truncate(self, handle: int, size: int) -> None:
        self._operation("truncate", handle)
        self._handles[handle].file.change(size)

    def sync(self, handle: int) -> None:
        opened = self._handles[handle]
        file = opened.file
        try:
            self._operation("sync", handle)
        except OSError as error:
            file.fail_writeback(error.errno or errno.EIO)
        self._lose("sync", handle)
        file.sync()
        if opened.heard < file.failures:
            opened.heard, file.was_told = file.failures, True
            raise SyncFailed(file.errno, os.strerror(file.errno), opened.path)

    def make_folder(self, path: str) -> None:
        self._operation("make_folder", path)
        at = self._root
        for name in _parts(path):
            if name not in at.names:
                self._must_have_room(path)
                at.names[name] = Folder()
                at.changed()
            below = at.names[name]
            assert isinstance(below, Folder)
            at = below

    def sync_folder(self, path: str) -> None:
        try:
            self._operation("sync_folder", path)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, path) from error
        self._folder(path).sync()

    def list(self, folder: str) -> list[str]:
        self._operation("list", folder)
        try:
            return sorted(self._folder(folder).names)
        except FileNotFoundError:
            return []

    def rename(self, old: str, new: str) -> None:
        self._operation("rename", old)
        folder, name = self._at(old)
        target, new_name = self._at(new)
        assert target is folder, "only within a folder"
        target.names[new_name] = folder.names.pop(name)
        folder.changed()

    def remove(self, path: str) -> None:
        self._operation("remove", path)
        folder, name = self._at(path)
        if name not in folder.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        assert isinstance(folder.names[name], File)
        del folder.names[name]
        folder.changed()

    def remove_folder(self, path: str) -> None:
        self._operation("remove_folder", path)
        folder, name = self._at(path)
        entry = folder.names[name]
        assert isinstance(entry, Folder)
        if entry.names:
            raise OSError(errno.ENOTEMPTY, "folder is not empty", path)
        del folder.names[name]
        folder.changed()

    def lock(self, path: str) -> int:
        handle = self.open(path)
        file = self._handles[handle].file
        if file.locked:
            del self._handles[handle]
            raise FolderInUse(errno.EWOULDBLOCK, "locked", path)
        file.locked = True
        return handle

    def _folder(self, path: str) -> Folder:
        at = self._root
        for name in _parts(path):
            below = at.names.get(name)
            if not isinstance(below, Folder):
                raise FileNotFoundError(errno.ENOENT, "no such folder", path)
            at = below
        return at

    def _at(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name


def _paths(folder: Folder, at: str) -> Iterator[str]:
    for name, entry in sorted(folder.names.items()):
        if isinstance(entry, Folder):
            yield from _paths(entry, f"{at}{name}/")
        else:
            yield f"{at}{name}"


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
