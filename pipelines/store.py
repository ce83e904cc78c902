"""Parquet that grows: each run appends only new rows, so a repeated run adds nothing."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pyspark_muster.tables.columns import TableName, ddl

OVERLAP: Final = timedelta(minutes=10)
"""Overlap with the previous run's time: clocks of nodes differ, and a repeating note has the time of its last
repetition."""


def collect_since(
    spark: SparkSession, options: dict[str, str], table: TableName, folder: Path, key: Sequence[str]
) -> DataFrame:
    """Append the rows of a table with a history since the last run to the Parquet in `folder`, and return all."""
    before = stored(spark, table, folder)
    last = None if before is None else newest(before, "time")
    since = None if last is None else beginning(last, datetime.now(UTC))
    if since is not None:
        options = options | {"startingTimestamp": str(max(0, int(since.timestamp() * 1_000)))}
    rows = spark.read.format("muster").options(**options).option("table", table).load()
    append_new(rows, before, folder, key)
    return parquet(spark, table, folder)


def beginning(last: datetime, now: datetime) -> datetime | None:
    """Return the time from which a run reads, by the newest stored time; None for all that there is. The first run of a
    day reads all: a node that was down has rows that are older than the newest of other nodes, and no row names its
    node.
    """
    since = last.astimezone(UTC) - OVERLAP
    return since if since.date() == now.astimezone(UTC).date() else None


def parquet(spark: SparkSession, table: TableName, folder: Path) -> DataFrame:
    """Return the Parquet in `folder` with the columns of the table as they are now: columns that an earlier version did
    not write are null in its rows."""
    return spark.read.schema(ddl(table)).parquet(str(folder))


def stored(spark: SparkSession, table: TableName, folder: Path) -> DataFrame | None:
    """Return the rows of all earlier runs; None before the first run."""
    try:
        return parquet(spark, table, folder)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise


def newest(rows: DataFrame, column: str) -> datetime | None:
    """Return the latest time in a column."""
    found = rows.agg(f.max(f.unix_micros(column))).collect()[0][0]
    return None if found is None else datetime.fromtimestamp(found / 1e6).astimezone()


def append_new(rows: DataFrame, before: DataFrame | None, folder: Path, key: Sequence[str]) -> None:
    """Append the rows whose key is not among those of `before`."""
    new = rows if before is None else rows.join(before.select(*key), list(key), "left_anti")
    new.select(*rows.columns).coalesce(1).write.mode("append").parquet(str(folder))
