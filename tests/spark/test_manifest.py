"""The manifest of a table: each record once, whoever repeats a batch, comes late or is faster."""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from muster import TopicPartition
from pyspark_muster.sinks import manifest
from pyspark_muster.sinks.bounds import Bounds, Positions, new_rows
from pyspark_muster.sinks.manifest import Manifest, TableVersion
from tests.spark.random_writers import P0, P1, overtake_at_random


class Files:
    """Files in memory: the offsets of their rows. `meanwhile` runs after each write, before its commit."""

    def __init__(self, table: Path) -> None:
        self.manifest = Manifest(table)
        self.files: dict[str, list[tuple[TopicPartition, int]]] = {}
        self.writes = 0

    def add(self, bounds: Bounds, meanwhile: Callable[[], object] = lambda: None) -> int:
        def write(firsts: Mapping[TopicPartition, int]) -> tuple[str, ...]:
            self.writes += 1
            name = f"file-{self.writes}"
            self.files[name] = [
                (one, offset) for one, first in firsts.items() for offset in range(first, bounds[one][1] + 1)
            ]
            meanwhile()
            return (name,)

        def discard(files: tuple[str, ...]) -> None:
            for name in files:
                del self.files[name]

        return self.manifest.append(bounds, write, discard)

    @property
    def positions(self) -> Positions:
        return self.manifest.newest().positions

    @property
    def rows(self) -> Counter[tuple[TopicPartition, int]]:
        return Counter(row for name in self.manifest.files() for row in self.files[name])

    def has_once(self, ends: Mapping[TopicPartition, int]) -> bool:
        return self.rows == Counter({(one, offset): 1 for one, end in ends.items() for offset in range(end)})


@pytest.fixture
def table(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_only_rows_that_the_table_does_not_have_are_new() -> None:
    assert new_rows({}, {P0: (3, 9)}) == {P0: 3}
    assert new_rows({P0: 5}, {P0: (3, 9), P1: (0, 0)}) == {P0: 5, P1: 0}
    assert new_rows({P0: 10}, {P0: (3, 9)}) == {}
    assert new_rows({P0: 2}, {P0: (3, 9)}) == {P0: 3}


def test_a_batch_that_is_repeated_whole_or_in_part_adds_what_is_missing(table: Files) -> None:
    assert table.add({P0: (0, 9), P1: (0, 4)}) == 1
    assert table.add({P0: (0, 9)}) == 1
    assert table.writes == 1  # what is all there is not even written
    assert table.add({P0: (5, 14)}) == 2
    assert table.has_once({P0: 15, P1: 5})


def test_a_late_writer_writes_nothing(table: Files) -> None:
    table.add({P0: (0, 9)})
    late = Files(table.manifest._folder.parent)
    assert late.add({P0: (0, 9)}) == 1
    assert late.writes == 0


def test_a_writer_that_is_overtaken_while_it_writes_discards_its_files(table: Files) -> None:
    other = [{P0: (0, 4)}]
    table.add({P0: (0, 9)}, meanwhile=lambda: other and table.add(other.pop()))
    assert table.writes == 3
    assert len(table.files) == 2
    assert table.has_once({P0: 10})


def test_writers_of_different_partitions_do_not_write_twice(table: Files) -> None:
    other = [{P1: (0, 4)}]
    table.add({P0: (0, 9)}, meanwhile=lambda: other and table.add(other.pop()))
    assert table.writes == 2
    assert table.has_once({P0: 10, P1: 5})


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_commit_that_fails_is_whole_or_not_there(
    table: Files, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    """The disk fails before the commit is made, or when it is to be durable."""
    table.add({P0: (0, 9)})
    calls = 0

    def fail(_descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="no space"):
            table.add({P0: (10, 19)})
    assert table.has_once({P0: 10 if fails_at == 1 else 20})
    assert [path.name for path in table.manifest._folder.iterdir() if path.suffix != ".json"] == []
    assert table.add({P0: (10, 19)}) == 2
    assert table.has_once({P0: 20})


def test_a_commit_whose_link_is_reported_as_existing_is_made(table: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of NFS sends the request again if the reply is lost, and the server finds the file."""
    link = os.link

    def link_twice(draft: Path, path: Path) -> None:
        link(draft, path)
        link(draft, path)

    other = [{P0: (0, 4)}]
    monkeypatch.setattr("os.link", link_twice)
    table.add({P0: (0, 9)}, meanwhile=lambda: other and table.add(other.pop()))
    assert table.has_once({P0: 10})
    assert table.writes == 3, "whoever is overtaken is told so all the same"


@pytest.mark.parametrize("compacted", [2, 100])
@pytest.mark.parametrize("seed", range(20))
def test_whoever_writes_when_each_record_is_there_once(
    table: Files, monkeypatch: pytest.MonkeyPatch, seed: int, compacted: int
) -> None:
    monkeypatch.setattr(manifest, "_COMPACTED", compacted)
    overtake_at_random(table, seed)


def test_of_many_versions_few_files_are_read(table: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)
    monkeypatch.setattr(manifest, "_COMPACTED", 10)
    for at in range(1_234):
        table.add({P0: (at, at)})
    read: list[str] = []
    read_text = Path.read_text

    def count(path: Path) -> str:
        read.append(path.name.lstrip("0"))
        return read_text(path)

    monkeypatch.setattr(Path, "read_text", count)
    monkeypatch.delattr(Path, "iterdir")
    assert table.manifest.newest().version == 1_234
    assert read == ["1234.json"]
    read.clear()
    assert table.has_once({P0: 1_234})
    assert read == [
        *("1234.json", "1233.json", "1232.json", "1231.json"),
        *("1230.10.json", "1220.10.json", "1210.10.json", "1200.100.json", "1100.100.json", "1000.1000.json"),
    ]


@pytest.mark.parametrize("call", ["link", "fsync"])
@pytest.mark.parametrize("fails_at", range(1, 9))
def test_a_crash_while_versions_are_compacted_leaves_the_table_whole(
    table: Files, monkeypatch: pytest.MonkeyPatch, call: str, fails_at: int
) -> None:
    monkeypatch.setattr(manifest, "_COMPACTED", 3)
    for at in range(8):
        table.add({P0: (at, at)})
    calls = 0
    real = getattr(os, call)

    def crash(*arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise OSError("killed")
        real(*arguments)

    with monkeypatch.context() as patched, suppress(OSError):
        patched.setattr(os, call, crash)
        table.add({P0: (8, 8)})  # of the version 9, with which 3 and 9 versions are compacted
    assert calls == min(fails_at, 3 if call == "link" else 6)
    made = Files(table.manifest._folder.parent).manifest.newest().version
    assert table.has_once({P0: made})
    assert made == (8 if fails_at == 1 else 9)
    for at in range(8, 30):
        table.add({P0: (at, at)})
        assert table.has_once({P0: at + 1})


def test_a_late_writer_finds_its_version_taken_when_it_is_compacted(table: Files) -> None:
    for at in range(100):
        table.add({P0: (at, at)})
    assert not table.manifest.commit(TableVersion(7, ("late",), {P0: 7}))
    assert table.has_once({P0: 100})


def test_a_commit_is_read_as_it_was_written_and_anything_else_is_refused() -> None:
    commit = TableVersion(7, ("data/a/part-0.parquet",), {P0: 5, P1: 2**62})
    assert TableVersion.from_json(commit.to_json()) == commit
    for text in ("", "{}", "[]", '{"version": 1, "files": [], "positions": [["t"]]}'):
        with pytest.raises(ValueError, match="a commit of a table's manifest was expected"):
            TableVersion.from_json(text)
