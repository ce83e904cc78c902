"""EDGE: Parquet files with a manifest, for `foreachBatch`."""

import shutil
import uuid
from collections.abc import Mapping
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from muster import TopicPartition
from pyspark_muster.sinks.manifest import Bounds, Manifest, fsync

DATA = "data"
_NEEDED = ("topic", "partition", "offset")


class ParquetSink:
    """A table that has each record once. Give `write` to `foreachBatch`; several queries, of one group or of none, may
    write one table. The folder is on a file system with hard links that the driver and all executors see.
    """

    def __init__(self, path: str) -> None:
        """`path` is made if it does not exist."""
        self._table = Path(path).absolute()

    def write(self, batch: DataFrame, _batch_id: int = 0) -> None:
        """Add the rows whose offset the table does not have yet. Raises ValueError for rows without `topic`,
        `partition` or `offset`: they say which record a row came from.
        """
        missing = [name for name in _NEEDED if name not in batch.columns]
        if missing:
            raise ValueError(
                f"the columns {', '.join(missing)} are missing: the sink knows by 'topic', 'partition' and 'offset' "
                "which rows it has; select them too"
            )
        batch.persist()  # read twice: for its bounds, and to be written
        try:
            bounds = _bounds(batch)
            Manifest(self._table).append(bounds, lambda firsts: self._write(_rows_from(batch, firsts)), self._discard)
        finally:
            batch.unpersist()

    def _write(self, rows: DataFrame) -> tuple[str, ...]:
        """Write files that are no part of the table yet, make them durable, and return their names."""
        folder = self._table / DATA / uuid.uuid4().hex
        rows.write.parquet(folder.as_uri())
        files = sorted(folder.glob("*.parquet"))
        for path in (*files, folder, folder.parent, self._table):
            fsync(path)
        return tuple(str(file.relative_to(self._table)) for file in files)

    def _discard(self, files: tuple[str, ...]) -> None:
        for folder in {(self._table / file).parent for file in files}:
            shutil.rmtree(folder, ignore_errors=True)


def read_parquet(spark: SparkSession, path: str) -> DataFrame:
    """Return the rows of a table of `ParquetSink`. Raises ValueError for one without any commit."""
    table = Path(path).absolute()
    files = Manifest(table).files()
    if not files:
        raise ValueError(f"{table} has no commit: a table of ParquetSink was expected")
    return spark.read.parquet(*((table / file).as_uri() for file in files))


def _bounds(batch: DataFrame) -> Bounds:
    by_partition = batch.groupBy("topic", "partition").agg(sql.min("offset"), sql.max("offset"))
    return {TopicPartition(topic, number): (first, last) for topic, number, first, last in by_partition.collect()}


def _rows_from(batch: DataFrame, firsts: Mapping[TopicPartition, int]) -> DataFrame:
    """Return the rows of these partitions from these offsets on."""
    wanted: list[Column] = [
        (sql.col("topic") == one.topic) & (sql.col("partition") == one.partition) & (sql.col("offset") >= first)
        for one, first in firsts.items()
    ]
    return batch.where(reduce(lambda one, other: one | other, wanted))
