"""A disk in memory that forgets what was not synced.

Contents and names are two things, as on a real disk: `sync` makes a file's bytes durable, `sync_folder` the names in a
folder. At a crash, each write that was not synced is lost, kept, or kept in part, sector by sector; of the changes of
names in a folder, only the first few are kept, as file systems with a journal do it, or any of them, as POSIX allows
(`keeps_any_names`).
"""

import copy
import errno
import os
from collections.abc import Iterator
from itertools import pairwise
from random import Random

from partition_log.errors import FolderInUse

SECTOR = 512
PAGE = 4096


class Crash(Exception):
    """The machine stopped before an operation. Call `SimDisk.crash()` and mount the disk again."""


class File:
    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes] | int] = []  # writes, and sizes truncated to
        self.locked = False

    def apply(self, target: bytearray, change: tuple[int, bytes] | int) -> None:
        if isinstance(change, int):
            if change < len(target):
                del target[change:]
            else:
                target.extend(bytes(change - len(target)))
            return
        position, data = change
        if len(target) < position:
            target.extend(bytes(position - len(target)))
        target[position : position + len(data)] = data

    def change(self, change: tuple[int, bytes] | int) -> None:
        self.apply(self.data, change)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            self.apply(self.durable, change)
        self.pending.clear()

    def lose_cache(self) -> None:
        """A sync failed: what was not durable stays readable, and is never written any more."""
        self.pending.clear()

    def release(self) -> None:
        self.locked = False

    def crash(self, random: Random, counts: dict[str, int]) -> None:
        for change in self.pending:
            for piece in _survivors(change, random, counts):
                self.apply(self.durable, piece)
        self.pending.clear()
        self.data = bytearray(self.durable)
        self.locked = False


def _survivors(
    change: tuple[int, bytes] | int, random: Random, counts: dict[str, int]
) -> list[tuple[int, bytes] | int]:
    fate = random.choice(("lost", "kept", "torn"))
    counts[fate] += 1
    if fate == "lost":
        return []
    if fate == "kept" or isinstance(change, int):
        return [change]
    position, data = change
    edges = [0, *range(SECTOR - position % SECTOR, len(data), SECTOR), len(data)]
    pieces = [(position + a, data[a:b]) for a, b in pairwise(edges) if random.random() < 0.5]
    if len(edges) == 2 and not pieces:  # within a sector a write is torn to a prefix
        pieces = [(position, data[: random.randrange(len(data) + 1)])]
    return list(pieces)


class Folder:
    def __init__(self) -> None:
        self.names: dict[str, File | Folder] = {}
        self.durable: dict[str, File | Folder] = {}
        self.pending: list[dict[str, File | Folder]] = []  # the names after each change

    def changed(self) -> None:
        self.pending.append(dict(self.names))

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.pending.clear()

    def release(self) -> None:
        for entry in self.names.values():
            entry.release()

    def crash(self, random: Random, counts: dict[str, int], *, keeps_any_names: bool) -> None:
        if keeps_any_names:
            kept = self._keep_any(random)
        else:
            kept = random.randrange(len(self.pending) + 1)
            if kept:
                self.durable = self.pending[kept - 1]
        counts["names"] += len(self.pending) - kept
        self.names = dict(self.durable)
        self.pending.clear()
        for entry in self.names.values():
            if isinstance(entry, Folder):
                entry.crash(random, counts, keeps_any_names=keeps_any_names)
            else:
                entry.crash(random, counts)

    def _keep_any(self, random: Random) -> int:
        """Each change is lost or kept; how many were kept. A rename is one change."""
        after, kept = dict(self.durable), 0
        for before, names in pairwise([self.durable, *self.pending]):
            if random.random() < 0.5:
                continue
            kept += 1
            for name in before.keys() - names.keys():
                after.pop(name, None)
            after |= {name: entry for name, entry in names.items() if before.get(name) is not entry}
        self.durable = after
        return kept


class SimDisk:
    """`operations` counts what was asked for; `crash_before` raises `Crash` instead of that one (1 is the first).
    `counts` says what crashes have done: writes lost, kept, torn, and changes of names forgotten; `short_writes` how
    many writes a full disk (`is_full`) has taken in part.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)
        self._root = Folder()
        self._handles: dict[int, File] = {}
        self._next_handle = 3
        self._failures: list[tuple[int, str | None]] = []
        self.operations = 0
        self.journal: list[str] | None = None  # set to a list to have every operation noted
        self.crash_before: int | None = None
        self.fail_at: int | None = None  # this operation raises EIO
        self.is_full = False
        self.keeps_any_names = False
        self.forgets_on_failed_sync = False  # as Linux does: its pages count as clean then
        self.counts = {"lost": 0, "kept": 0, "torn": 0, "names": 0}
        self.short_writes = 0

    # ------------------------------------------------------------------------------------------------- for the tests

    def crash(self) -> None:
        """Forget what was not synced, and all handles and locks."""
        self._handles.clear()
        self._failures.clear()
        self.crash_before = None
        self._root.crash(self._random, self.counts, keeps_any_names=self.keeps_any_names)

    def kill(self) -> None:
        """The process ended and not the machine: handles and locks are gone, what was written is still there."""
        self._handles.clear()
        self._failures.clear()
        self.crash_before = None
        self._root.release()

    def clone(self) -> "SimDisk":
        """A copy, byte for byte, that takes its own way from here on. Not for a disk in use."""
        return copy.deepcopy(self)

    def files(self) -> list[str]:
        """The paths of all files, sorted by folder."""
        return list(_paths(self._root, ""))

    def fail_next(self, code: int, operation: str | None = None, times: int = 1) -> None:
        """The next operation, or the next of that name, raises `OSError(code)` and does nothing."""
        self._failures += [(code, operation)] * times

    def heal(self) -> None:
        """No further failure is due."""
        self._failures.clear()

    def file(self, path: str) -> File:
        """To look at and to damage."""
        folder, name = self._at(path)
        entry = folder.names[name]
        assert isinstance(entry, File)
        return entry

    def damage(self, path: str, position: int, data: bytes) -> None:
        """Other bytes than were written, durably."""
        file = self.file(path)
        file.sync()
        file.change((position, data))
        file.sync()

    def _operation(self, name: str, what: str | int) -> None:
        self.operations += 1
        if self.journal is not None:
            self.journal.append(f"{name} {what}")
        if self.crash_before is not None and self.operations >= self.crash_before:
            raise Crash(f"before operation {self.operations}: {name} {what}")
        if self.operations == self.fail_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(what))
        for index, (code, wanted) in enumerate(self._failures):
            if wanted is None or wanted == name:
                del self._failures[index]
                raise OSError(code, os.strerror(code), str(what))

    def _must_have_room(self, what: str | int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(what))

    # ------------------------------------------------------------------------------------------------------ as a Disk

    def open(self, path: str, *, make: bool = True) -> int:
        self._operation("open", path)
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
        self._handles[self._next_handle] = entry
        return self._next_handle

    def close(self, handle: int) -> None:
        self._handles.pop(handle).locked = False

    def size(self, handle: int) -> int:
        return len(self._handles[handle].data)

    def read_at(self, handle: int, position: int, size: int) -> bytes:
        self._operation("read_at", handle)
        return bytes(self._handles[handle].data[position : position + size])

    def write_at(self, handle: int, position: int, data: bytes) -> None:
        self._operation("write_at", handle)
        file = self._handles[handle]
        if self.is_full and position + len(data) > (room := -(-len(file.data) // PAGE) * PAGE):
            if position < room:
                self.short_writes += 1
                file.change((position, bytes(data[: room - position])))
            self._must_have_room(handle)
        file.change((position, bytes(data)))

    def truncate(self, handle: int, size: int) -> None:
        self._operation("truncate", handle)
        self._handles[handle].change(size)

    def sync(self, handle: int) -> None:
        file = self._handles[handle]
        try:
            self._operation("sync", handle)
        except OSError:
            if self.forgets_on_failed_sync:
                file.lose_cache()
            raise
        file.sync()

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
        self._operation("sync_folder", path)
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
        file = self._handles[handle]
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
