"""EDGE: `musterd backup`, which copies a data folder that a daemon may be serving, and verifies the copy.

A checkpoint says how much of each log is in its own files; what was acknowledged since is in the write-ahead log. So a
copy is whole if its logs were copied before its write-ahead log, and no checkpoint was made meanwhile: after one the
daemon uses old segments of the write-ahead log again. Where that happened the copy is brought up to date: files that
have not changed since are not copied again, so each round is shorter than the one before.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from coordinator.tools.log_command import DAMAGED, MISUSED, SOUND, is_data_folder, open_inspector
from partition_log.inspection.findings import Finding, Severity
from protocol.words import counted

ROUNDS: Final = 20
"""Largest number of rounds: beyond it the folder changes faster than it can be copied."""
_PAGE: Final = 4_096
_WAL, _LOCK, _CHECKPOINT = "wal", "LOCK", "wal/checkpoint"
_UNFINISHED: Final = ".unfinished"


class BackupFailed(Exception):
    """Raised with a sentence if there is no whole copy."""


class _Version(NamedTuple):
    """State of a file: another one tells that it has changed."""

    inode: int
    size: int
    mtime_ns: int


class _FolderState(NamedTuple):
    """The checkpoint, and the files that there are, with their inodes."""

    checkpoint: bytes
    files: dict[str, int]


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 for a sound backup, 1 if there is none, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        "musterd backup", description="Copy a data folder, in use or not, and verify the copy."
    )
    parser.add_argument("folder", metavar="DATA_FOLDER", type=Path)
    parser.add_argument("target", metavar="TARGET", type=Path, help="the folder to make; it must not exist")
    given = parser.parse_args(arguments)
    if not is_data_folder(str(given.folder)):
        print(f"musterd backup: {given.folder} is no data folder", file=sys.stderr)
        return MISUSED
    if given.target.exists():
        print(f"musterd backup: {given.target} is there already", file=sys.stderr)
        return MISUSED
    try:
        rounds = back_up(given.folder, given.target)
    except (BackupFailed, OSError) as error:
        print(f"musterd backup: {error}", file=sys.stderr)
        return DAMAGED
    print(f"{given.folder} is in {given.target}, verified: sound ({counted(rounds, 'round')})")
    return SOUND


def back_up(folder: Path, target: Path) -> int:
    """Copy the folder; return the number of rounds. The target is there once the copy is whole, verified and synced.
    Raises BackupFailed, and OSError."""
    unfinished = target.with_name(target.name + _UNFINISHED)
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(parents=True, mode=0o700)
    copier, damage = _Copier(folder, unfinished), list[Finding]()
    for round_ in range(1, ROUNDS + 1):
        if not copier.copy():
            continue
        damage = [one for one in open_inspector(str(unfinished)).verify() if one.severity is Severity.DAMAGE]
        if not damage:
            _sync(unfinished)
            unfinished.rename(target)
            _sync_one(target.parent)
            return round_
        copier.forget()  # a block that was written while it was read; if not, the next rounds find the same
    if damage:
        raise BackupFailed(f"the copy is damaged, and so is {folder}: {damage[0].sentence}")
    raise BackupFailed(f"{folder} changed in each of {ROUNDS} rounds: more is written than can be copied")


class _Copier:
    """One copy, in rounds. A file is copied again if it has changed since."""

    def __init__(self, source: Path, copy: Path) -> None:
        self._source, self._copy = source, copy
        self._copied: dict[str, _Version] = {}

    def copy(self) -> bool:
        """Copy what has changed; return whether the copy is one state of the folder."""
        try:
            before = self._look()
            for gone in self._copied.keys() - before.files.keys():
                (self._copy / gone).unlink(missing_ok=True)
                del self._copied[gone]
            names = sorted(before.files, key=_copying_order)
            for name in names:
                self._copy_if_changed(name)
            return self._look() == before
        except FileNotFoundError:
            return False  # cleaned, or used again as another segment

    def forget(self) -> None:
        """Copy the write-ahead log anew in the next round."""
        for name in [name for name in self._copied if _is_wal(name)]:
            del self._copied[name]

    def _look(self) -> _FolderState:
        files = {
            name: (self._source / name).stat().st_ino
            for name in _names(self._source)
            if name != _LOCK and not name.endswith(".new")
        }
        checkpoint = self._source / _CHECKPOINT
        return _FolderState(checkpoint.read_bytes() if _CHECKPOINT in files else b"", files)

    def _copy_if_changed(self, name: str) -> None:
        source, copy = self._source / name, self._copy / name
        copy.parent.mkdir(mode=0o700, exist_ok=True)
        with source.open("rb") as read:
            found = os.fstat(read.fileno())
            version = _Version(found.st_ino, found.st_size, found.st_mtime_ns)
            if self._copied.get(name) == version:
                return
            with copy.open("wb") as written:
                if _is_wal(name):
                    _copy_backwards(read.fileno(), written.fileno(), found.st_size)
                else:
                    shutil.copyfileobj(read, written)
        copy.chmod(found.st_mode & 0o777)
        self._copied[name] = version


def _copy_backwards(source: int, copy: int, size: int) -> None:
    """Copy a file that grows: what lies behind a page is read before it, so no block lacks the one before."""
    for at in range((size - 1) // _PAGE * _PAGE, -1, -_PAGE):
        page = os.pread(source, _PAGE, at)
        os.pwrite(copy, page, at)


def _copying_order(name: str) -> tuple[bool, int, str]:
    """The logs first; then the write-ahead log, its newest segment first."""
    if not _is_wal(name):
        return name.startswith(f"{_WAL}/"), 0, name
    return True, -int(Path(name).stem), name


def _is_wal(name: str) -> bool:
    return name.startswith(f"{_WAL}/") and name.endswith(".wal")


def _names(folder: Path) -> Iterator[str]:
    """Yield the files of the folder and of its folders, which have none of their own."""
    for one in os.scandir(folder):
        if one.is_dir():
            yield from (f"{one.name}/{inner.name}" for inner in os.scandir(one.path) if inner.is_file())
        elif one.is_file():
            yield one.name


def _sync(folder: Path) -> None:
    for name in _names(folder):
        _sync_one(folder / name)
    for one in os.scandir(folder):
        if one.is_dir():
            _sync_one(Path(one.path))
    _sync_one(folder)


def _sync_one(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
