"""One cleaned segment in the place of those it was made from, in steps that each survive a crash.

    0...0.cleaned              is written, and nothing is lost if it goes
    0...0-0...4711.swap        synced, renamed, and the name synced: from here on it stands for every segment whose base
                               offset is at or above its first number and below the second
    0...0.log                  once those are gone, and that they are gone is synced

A crash before the second leaves the old segments, one after it is finished at the next start: so nobody ever reads the
old and the new at once. Aids (`aids.py`) tell of the log as it was, and go before it changes.
"""

from typing import NamedTuple

from partition_log.aids import remove_aids
from partition_log.disk import Disk
from partition_log.segment import Segment, file_name

_DIGITS = 20


class SwapName(NamedTuple):
    """What the name of a `.swap` says: whose place it takes."""

    base_offset: int
    end: int

    @property
    def text(self) -> str:
        return f"{self.base_offset:020d}-{self.end:020d}.swap"


def swap_name(name: str) -> SwapName | None:
    """None if it is the name of something else."""
    numbers, _, kind = name.partition(".")
    base, _, end = numbers.partition("-")
    if kind != "swap" or len(base) != _DIGITS or len(end) != _DIGITS or not (base + end).isdecimal():
        return None
    return SwapName(int(base), int(end))


def cleaned_name(base_offset: int) -> str:
    return file_name(base_offset, "cleaned")


def is_cleaned_file(name: str) -> bool:
    """Also one that was never finished."""
    stem, _, kind = name.partition(".")
    return len(stem) == _DIGITS and stem.isdecimal() and kind == "cleaned"


class Swap:
    """`cleaned` stands for `replaced` as soon as a checkpoint job has run this. Nothing but the disk is touched; a
    full one may be tried again.
    """

    __slots__ = ("cleaned", "folder", "indexes", "is_done", "name", "replaced")

    def __init__(self, folder: str, cleaned: Segment, replaced: list[Segment], end: int) -> None:
        self.folder = folder
        self.cleaned = cleaned
        self.replaced = replaced
        self.name = SwapName(cleaned.base_offset, end)
        self.indexes = cleaned.index_writes()
        self.is_done = False

    def run(self, disk: Disk) -> None:
        cleaned, names = cleaned_name(self.name.base_offset), disk.list(self.folder)
        if self.name.text not in names:
            path = f"{self.folder}/{cleaned}"
            handle = disk.open(path)
            try:
                disk.sync(handle)
            finally:
                disk.close(handle)
            if remove_aids(disk, self.folder):
                disk.sync_folder(self.folder)
            disk.rename(path, f"{self.folder}/{self.name.text}")
            disk.sync_folder(self.folder)
        finish_swap(disk, self.folder, self.name)
        for path, position, data in self.indexes:
            handle = disk.open(path)
            try:
                disk.write_at(handle, position, data)
            finally:
                disk.close(handle)
        self.is_done = True


def finish_swap(disk: Disk, folder: str, name: SwapName) -> None:
    """What was begun for good: the old files go, the new one takes its name. May be done again."""
    remove_aids(disk, folder)
    for stale in disk.list(folder):
        stem, _, kind = stale.partition(".")
        if len(stem) == _DIGITS and stem.isdecimal() and kind in ("log", "index", "timeindex"):
            base = int(stem)
            if name.base_offset <= base < name.end and (base, kind) != (name.base_offset, "log"):
                disk.remove(f"{folder}/{stale}")
    disk.sync_folder(folder)
    disk.rename(f"{folder}/{name.text}", f"{folder}/{file_name(name.base_offset, 'log')}")
    disk.sync_folder(folder)


def finish_swaps(disk: Disk, folder: str) -> None:
    """At a start: a swap that a crash came between is finished, cleaned files that no swap was made of go."""
    names = disk.list(folder)
    for name in filter(None, map(swap_name, names)):
        finish_swap(disk, folder, name)
    for name in filter(is_cleaned_file, names):
        disk.remove(f"{folder}/{name}")
