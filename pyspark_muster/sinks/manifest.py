"""EDGE: the manifest of a table of files: its files, and its position in each partition.

A commit is a file `_manifest/<version>.json`, made by a hard link: of two writers of one version, only one succeeds.
Offsets and files are in one commit, and positions only grow: a record before the position of its partition is in the
table, or will never be. Files that no commit names do not belong to the table.

A commit is never removed, since a late writer must find its version taken. So that reading takes no time for each of
them, `<version>.<count>.json` repeats the files of the last 100 versions, and of 10,000, and so on.
"""

import json
import os
import uuid
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from muster import TopicPartition
from pyspark_muster.sinks.bounds import Bounds, Positions, new_rows, positions_after

FOLDER = "_manifest"
_DIGITS = 20
_MOST_VERSIONS = 10**12
_COMPACTED = 100
"""Number of versions, or of files that compact so many, that one file compacts."""


class TableVersion(Struct, frozen=True):
    """A version of the table: `files` were added by it; `positions` are of the whole table."""

    version: int = 0
    files: tuple[str, ...] = ()
    positions: Positions = {}

    def after(self, files: tuple[str, ...], bounds: Bounds) -> "TableVersion":
        """Return the next version, with these rows added."""
        return TableVersion(self.version + 1, files, {**self.positions, **positions_after(self.positions, bounds)})

    def to_json(self) -> str:
        """Return the text of the commit's file."""
        positions = [[*one, offset] for one, offset in sorted(self.positions.items())]
        return json.dumps({"version": self.version, "files": self.files, "positions": positions})

    @classmethod
    def from_json(cls, text: str) -> "TableVersion":
        """Parse a commit's file. Raises ValueError for anything else."""
        try:
            given = json.loads(text)
            positions = {TopicPartition(str(topic), int(number)): int(at) for topic, number, at in given["positions"]}
            return cls(int(given["version"]), tuple(given["files"]), positions)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"a commit of a table's manifest was expected, found {text[:100]!r}") from error


class Manifest:
    """The commits of one table, in a folder of a file system with hard links that all drivers see."""

    def __init__(self, table: Path) -> None:
        self._folder = table / FOLDER

    def newest(self) -> TableVersion:
        """Return the newest commit; version 0 for an empty table. Raises ValueError for an invalid file."""
        version = self._newest()
        return self._read(version) if version else TableVersion()

    def files(self) -> list[str]:
        """Return the files of the table, oldest first."""
        return self._files(0, self._newest())

    def commit(self, commit: TableVersion) -> bool:
        """Write a version durably; return false if another writer has written it first."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._create(self._path(commit.version), commit):
            return False
        self._compact(commit)
        return True

    def append(
        self,
        bounds: Bounds,
        write: Callable[[Positions], tuple[str, ...]],
        discard: Callable[[tuple[str, ...]], None],
    ) -> int:
        """Add those rows that the table does not have, and return the table's version. `write` gets the first row of
        each partition, and returns the files of the rows from there on; it is not called if there are none, so a late
        writer writes nothing. If another writer adds some of the rows meanwhile, the files are discarded, and the
        remaining rows are written again. After a failure nothing is discarded, since the commit may have succeeded.
        """
        files: tuple[str, ...] = ()
        written: dict[TopicPartition, int] = {}
        while True:
            newest = self.newest()
            wanted = new_rows(newest.positions, bounds)
            if wanted != written:
                discard(files)
                files, written = write(wanted) if wanted else (), wanted
            if not wanted:
                return newest.version
            if self.commit(newest.after(files, {one: bounds[one] for one in wanted})):
                return newest.version + 1

    def _newest(self) -> int:
        """Return the newest version; versions have no gaps."""
        return bisect_left(range(1, _MOST_VERSIONS), True, key=self._is_missing)

    def _is_missing(self, version: int) -> bool:
        try:
            self._path(version).stat()
        except FileNotFoundError:
            return True
        return False

    def _files(self, after: int, until: int) -> list[str]:
        """Return the files that the versions after one and until another have added, oldest first."""
        found: list[tuple[str, ...]] = []
        while until > after:
            count, files = self._added(until)
            found.append(files)
            until -= count
        return [file for files in reversed(found) for file in files]

    def _added(self, version: int) -> tuple[int, tuple[str, ...]]:
        """Return the number of versions until this one that one file compacts, and the files that they have added."""
        for count in reversed(_counts(version)):
            with suppress(FileNotFoundError):
                return count, self._read(version, count).files
        return 1, self._read(version).files

    def _compact(self, newest: TableVersion) -> None:
        """Compact the versions until this one. A crash before only has the next larger compaction read more files."""
        for count in _counts(newest.version):
            files = tuple(self._files(newest.version - count, newest.version))
            self._create(self._path(newest.version, count), replace(newest, files=files))

    def _create(self, path: Path, commit: TableVersion) -> bool:
        """Write a file durably; return false if it is there."""
        draft = self._folder / f".{uuid.uuid4().hex}"
        try:
            with draft.open("x") as file:
                file.write(commit.to_json())
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(draft, path)
            # NFS repeats a request whose reply is lost, and then answers that the file exists: it may be this one.
            if not path.samefile(draft):
                return False
        finally:
            draft.unlink(missing_ok=True)
        fsync(self._folder)
        return True

    def _read(self, version: int, count: int = 1) -> TableVersion:
        return TableVersion.from_json(self._path(version, count).read_text())

    def _path(self, version: int, count: int = 1) -> Path:
        """Return the file of a version, or the one that compacts so many until it."""
        return self._folder / (f"{version:0{_DIGITS}}" + (f".{count}.json" if count > 1 else ".json"))


def _counts(version: int) -> list[int]:
    """Return the numbers of versions that are compacted with this one as the last, ascending."""
    counts: list[int] = []
    count = _COMPACTED
    while version % count == 0:
        counts.append(count)
        count *= _COMPACTED
    return counts


def fsync(path: Path) -> None:
    """Make a file, or the entries of a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
