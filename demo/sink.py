"""Sink of the records that members have read: rows keyed by (topic, partition, offset), in a folder for each member.

A file appears whole or not at all, before its records are committed. So a member that dies loses nothing, and another
member reads its uncommitted records again: their keys are the same.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as all of Spark's users call it)

from demo.flights import COLUMNS, NONE, Delays
from muster import ConsumerRecord

SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.string())])
KEY = ["topic", "partition", "offset"]


def folder_of(sink: Path, member: str) -> Path:
    """Spark reads the member's name from it, as a column."""
    return sink / f"member={member}"


class PlainSink:
    """Sink of a plain consumer: a file for each poll's records."""

    def __init__(self, sink: Path, member: str) -> None:
        self._folder = folder_of(sink, member)
        self._folder.mkdir(parents=True)
        self._files = 0

    def write(self, records: Sequence[ConsumerRecord]) -> None:
        self._files += 1
        rows = [(one.topic, one.partition, one.offset, (one.value or b"").decode()) for one in records]
        columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
        # Spark passes over files that begin with an underscore.
        unfinished = self._folder / f"_{self._files:05}"
        pq.write_table(pa.Table.from_arrays(columns, schema=SCHEMA), unfinished)
        unfinished.rename(self._folder / f"{self._files:05}.parquet")


def write_batch(batch: DataFrame, sink: Path, member: str) -> None:
    """Write one file for each micro-batch of a Spark query."""
    rows = batch.select(*KEY, F.col("value").cast("string").alias("value"))
    rows.coalesce(1).write.mode("append").parquet(str(folder_of(sink, member)))


class Contents(Struct, frozen=True):
    """Content of the sink. `last_writer`: the member that wrote the last record of each partition."""

    distinct: int
    repeats: int
    by_member: dict[str, int]
    last_writer: dict[int, str]
    ends: dict[int, int]
    delays: dict[str, Delays]


def contents(spark: SparkSession, sink: Path) -> Contents:
    """By a Spark batch job over everything that anybody wrote."""
    rows = spark.read.parquet(str(sink)).cache()
    by_member = {row["member"]: row["count"] for row in rows.groupBy("member").count().collect()}
    once = rows.dropDuplicates(KEY)
    fields = F.split("value", ",")
    delay = fields[COLUMNS["arr_delay"]]
    flights = once.select(
        fields[COLUMNS["carrier"]].alias("carrier"), F.when(delay != NONE, delay.cast("int")).alias("delay")
    )
    delays = flights.groupBy("carrier").agg(
        F.count("*").alias("flights"), F.count("delay").alias("counted"), F.sum("delay").alias("minutes")
    )
    by_carrier = {
        row["carrier"]: Delays(row["flights"], row["flights"] - row["counted"], row["minutes"] or 0)
        for row in delays.collect()
    }
    last = rows.groupBy("partition").agg(F.max("offset").alias("last"), F.max_by("member", "offset").alias("writer"))
    lasts = last.collect()
    distinct = sum(carrier.flights for carrier in by_carrier.values())
    found = Contents(
        distinct,
        sum(by_member.values()) - distinct,
        by_member,
        {row["partition"]: row["writer"] for row in lasts},
        {row["partition"]: row["last"] + 1 for row in lasts},
        by_carrier,
    )
    rows.unpersist()
    return found
