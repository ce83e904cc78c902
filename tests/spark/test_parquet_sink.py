"""A Parquet table written by consumers without Spark: each record once."""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyspark_muster.sinks import EmptyTable, ParquetSink, read_parquet
from pyspark_muster.sinks.manifest import Manifest
from tests.spark.random_writers import P0


def rows(partition: int, first: int, end: int) -> pa.Table:
    offsets = range(first, end)
    return pa.table(
        {
            "topic": ["orders"] * len(offsets),
            "partition": pa.array([partition] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "item": [f"{partition}:{offset}" for offset in offsets],
        }
    )


def items(table: Path) -> list[str]:
    return sorted(item for file in Manifest(table).files() for item in pq.read_table(table / file)["item"].to_pylist())


def test_rows_that_are_added_again_whole_or_in_part_are_in_the_table_once(tmp_path: Path) -> None:
    sink = ParquetSink(str(tmp_path))
    sink.add(rows(0, 0, 5))
    sink.add(rows(0, 0, 5))
    sink.add(pa.concat_tables([rows(0, 3, 8), rows(1, 2, 4)]))
    sink.add(rows(0, 0, 0))
    assert items(tmp_path) == sorted([*(f"0:{at}" for at in range(8)), "1:2", "1:3"])
    assert len(list((tmp_path / "data").iterdir())) == 2, "nothing is written that is there"


def test_of_consumers_at_the_same_time_each_adds_what_the_others_have_not(tmp_path: Path) -> None:
    def run(first: int) -> None:
        sink = ParquetSink(str(tmp_path))
        for at in range(first, 40):
            sink.add(rows(0, max(0, at - 5), at + 1))

    threads = [threading.Thread(target=run, args=(first,)) for first in (0, 0, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert items(tmp_path) == sorted(f"0:{at}" for at in range(40))


def test_rows_that_do_not_say_which_record_they_came_from_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the columns topic, offset are missing"):
        ParquetSink(str(tmp_path)).add(pa.table({"partition": [0], "item": ["x"]}))


class FakeRows:
    """Rows that executors write, without Spark."""

    def __init__(self, run: Callable[[str], None]) -> None:
        self.parquet = run

    @property
    def write(self) -> Any:
        return self


def test_files_of_executors_that_the_driver_does_not_see_are_not_committed(tmp_path: Path) -> None:
    def write_elsewhere(uri: str) -> None:
        folder = Path(uri.removeprefix("file://"))
        folder.mkdir(parents=True)
        (folder / "_SUCCESS").touch()  # the driver's part of a job

    sink: Any = ParquetSink(str(tmp_path))
    manifest = Manifest(tmp_path)
    with pytest.raises(FileNotFoundError, match=f"no file of them is in {tmp_path}/data/.*must share the file system"):
        manifest.append({P0: (0, 9)}, lambda _firsts: sink._write(FakeRows(write_elsewhere)), sink._discard)
    assert manifest.newest().positions == {}


def test_a_table_without_rows_is_told_from_one_that_cannot_be_read(tmp_path: Path) -> None:
    spark: Any = None
    ParquetSink(str(tmp_path)).add(rows(0, 0, 0))
    with pytest.raises(EmptyTable, match="has no commit"):
        read_parquet(spark, str(tmp_path))
    ParquetSink(str(tmp_path)).add(rows(0, 0, 1))
    (tmp_path / "_manifest" / f"{1:020}.json").write_text("torn")
    with pytest.raises(ValueError, match="a commit of a table's manifest was expected") as raised:
        read_parquet(spark, str(tmp_path))
    assert not isinstance(raised.value, EmptyTable)


@pytest.mark.parametrize("name", ["my orders", "a%20b", "Aufträge", "[2026]{1,2}*?", "a\\b"])
def test_a_table_may_have_any_name(tmp_path: Path, name: str) -> None:
    """Hadoop decodes no percent signs, and takes some characters of a path to be read for a pattern."""

    def write(uri: str) -> None:
        folder = Path(uri.removeprefix("file://"))
        folder.mkdir(parents=True)
        pq.write_table(rows(0, 0, 1), folder / "part-0.parquet")

    table = tmp_path / name
    sink: Any = ParquetSink(str(table))
    Manifest(table).append({P0: (0, 0)}, lambda _firsts: sink._write(FakeRows(write)), sink._discard)
    assert items(table) == ["0:0"]

    read: list[str] = []
    spark: Any = SimpleNamespace(read=FakeRows(read.append))
    read_parquet(spark, str(table))
    assert [re.sub(r"\\(.)", r"\1", uri) for uri in read] == [f"file://{table / Manifest(table).files()[0]}"]
    assert not re.search(r"(?<!\\)[][{}*?]", read[0])
