"""EDGE: batches of `foreachBatch`, and the records that their rows came from."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from muster import TopicPartition
from pyspark_muster.sinks.bounds import Bounds, Positions

_NEEDED = ("topic", "partition", "offset")


def check_columns(names: Collection[str]) -> None:
    """Check that rows name the records that they came from. Raises ValueError."""
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise ValueError(
            f"the columns {', '.join(missing)} are missing: the sink knows by 'topic', 'partition' and 'offset' "
            "which rows it has; select them too"
        )


@contextmanager
def bounds_of(batch: DataFrame) -> Iterator[Bounds]:
    """Compute the bounds of a batch, and cache its rows while they are written, since Spark would read them a second
    time otherwise. Raises ValueError for rows without `topic`, `partition` or `offset`.
    """
    check_columns(batch.columns)
    batch.persist()
    try:
        by_partition = batch.groupBy("topic", "partition").agg(sql.min("offset"), sql.max("offset"))
        yield {TopicPartition(topic, number): (first, last) for topic, number, first, last in by_partition.collect()}
    finally:
        batch.unpersist()


def rows_from(batch: DataFrame, firsts: Positions) -> DataFrame:
    """Return the rows of these partitions from these offsets on."""
    wanted: list[Column] = [
        (sql.col("topic") == one.topic) & (sql.col("partition") == one.partition) & (sql.col("offset") >= first)
        for one, first in firsts.items()
    ]
    return batch.where(reduce(lambda one, other: one | other, wanted))
