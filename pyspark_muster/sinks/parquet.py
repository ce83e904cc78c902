"""EDGE: Parquet files with a manifest, for `foreachBatch`."""

import shutil
import uuid
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pyspark_muster.sinks.batches import bounds_of, rows_from
from pyspark_muster.sinks.manifest import Manifest, fsync

DATA = "data"


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
        with bounds_of(batch) as bounds:
            Manifest(self._table).append(bounds, lambda firsts: self._write(rows_from(batch, firsts)), self._discard)

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
