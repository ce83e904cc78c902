"""EDGE: the manifest of a table of files: its files, and its position in each partition.

A commit is a file `_manifest/<version>.json`, made by a hard link: of two writers of one version, only one succeeds.
Offsets and files are in one commit, and positions only grow: a record before the position of its partition is in the
table, or will never be. Files that no commit names do not belong to the table.
"""

import json
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from muster import TopicPartition
from pyspark_muster.sinks.bounds import Bounds, Positions, new_rows, positions_after

FOLDER = "_manifest"
_DIGITS = 20


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
        versions = self._versions()
        return self._read(versions[-1]) if versions else TableVersion()

    def files(self) -> list[str]:
        """Return the files of the table, oldest first."""
        return [file for version in self._versions() for file in self._read(version).files]

    def commit(self, commit: TableVersion) -> bool:
        """Write a version durably; return false if another writer has written it first."""
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f".{uuid.uuid4().hex}"
        try:
            with draft.open("x") as file:
                file.write(commit.to_json())
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(draft, self._path(commit.version))
            # NFS repeats a request whose reply is lost, and then answers that the file exists: it may be this one.
            if not self._path(commit.version).samefile(draft):
                return False
        finally:
            draft.unlink(missing_ok=True)
        fsync(self._folder)
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

    def _versions(self) -> list[int]:
        try:
            return sorted(int(path.stem) for path in self._folder.iterdir() if path.suffix == ".json")
        except FileNotFoundError:
            return []

    def _read(self, version: int) -> TableVersion:
        return TableVersion.from_json(self._path(version).read_text())

    def _path(self, version: int) -> Path:
        return self._folder / f"{version:0{_DIGITS}}.json"


def fsync(path: Path) -> None:
    """Make a file, or the entries of a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
