"""EDGE: Parquet files with a manifest, for `foreachBatch` and for consumers without Spark."""

import re
import shutil
import uuid
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from muster import TopicPartition
from pyspark_muster.sinks.batches import bounds_of, check_columns, rows_from
from pyspark_muster.sinks.bounds import Positions
from pyspark_muster.sinks.manifest import Manifest, fsync

DATA = "data"


class EmptyTable(ValueError):
    """Raised if a table has no commit: no batch with rows has been written yet, or it is no table of `ParquetSink`."""


class ParquetSink:
    """A table that has each record once. Pass `write` to `foreachBatch`, and call `add` in a consumer without Spark;
    several queries and consumers, of one group or of none, may write one table. The folder must be on a file system
    with hard links that all writers and executors share.
    """

    def __init__(self, path: str) -> None:
        """`path` is made if it does not exist."""
        self._table = Path(path).absolute()

    def write(self, batch: DataFrame, _batch_id: int = 0) -> None:
        """Add the rows whose offset the table does not have yet. Raises ValueError for rows without `topic`,
        `partition` or `offset`: they say which record a row came from; FileNotFoundError if the executors' files are
        not in the driver's folder.
        """
        with bounds_of(batch) as bounds:
            Manifest(self._table).append(bounds, lambda firsts: self._write(rows_from(batch, firsts)), self._discard)

    def add(self, rows: pa.Table) -> None:
        """Add the rows whose offset the table does not have yet, without Spark. Raises as `write` does."""
        check_columns(rows.column_names)
        found = rows.group_by(["topic", "partition"]).aggregate([("offset", "min"), ("offset", "max")]).to_pylist()
        bounds = {
            TopicPartition(one["topic"], one["partition"]): (one["offset_min"], one["offset_max"]) for one in found
        }
        Manifest(self._table).append(bounds, lambda firsts: self._save(rows, firsts), self._discard)

    def _write(self, rows: DataFrame) -> tuple[str, ...]:
        folder = self._new_folder()
        rows.write.parquet(_address(folder))
        return self._made_durable(folder)

    def _save(self, rows: pa.Table, firsts: Positions) -> tuple[str, ...]:
        wanted = [
            (pc.field("topic") == one.topic) & (pc.field("partition") == one.partition) & (pc.field("offset") >= first)
            for one, first in firsts.items()
        ]
        folder = self._new_folder()
        folder.mkdir(parents=True)
        pq.write_table(rows.filter(reduce(lambda one, other: one | other, wanted)), folder / "part.parquet")
        return self._made_durable(folder)

    def _new_folder(self) -> Path:
        """Return a new folder for files that do not belong to the table yet."""
        return self._table / DATA / uuid.uuid4().hex

    def _made_durable(self, folder: Path) -> tuple[str, ...]:
        """Make the files of a folder durable, and return their names. Raises FileNotFoundError if there are none, since
        a commit without them would have the records skipped for ever.
        """
        files = sorted(folder.glob("*.parquet"))
        if not files:
            raise FileNotFoundError(
                f"rows were written, and no file of them is in {folder}: the driver and all executors must share the "
                "file system of the table; nothing is committed"
            )
        for path in (*files, folder, folder.parent, self._table):
            fsync(path)
        return tuple(str(file.relative_to(self._table)) for file in files)

    def _discard(self, files: tuple[str, ...]) -> None:
        for folder in {(self._table / file).parent for file in files}:
            shutil.rmtree(folder, ignore_errors=True)


def read_parquet(spark: SparkSession, path: str) -> DataFrame:
    """Return the rows of a table of `ParquetSink`. Raises EmptyTable, a ValueError, for a table without a commit."""
    table = Path(path).absolute()
    files = Manifest(table).files()
    if not files:
        raise EmptyTable(f"{table} has no commit: a table of ParquetSink with rows was expected")
    return spark.read.parquet(*(re.sub(r"([][{}*?\\])", r"\\\1", _address(table / file)) for file in files))


def _address(path: Path) -> str:
    """Return a path as Hadoop reads it, which decodes no percent signs of a URI."""
    return f"file://{path}"
