"""Cost of rebalances, and the clients that began them: from the table `notes`."""

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from pipelines.store import collect_since

KEY: Final = ("group", "number", "time")
_EVENT: Final = ("group", "kind", "cause", "since")
"""Columns that identify a note, which is written again when it repeats."""
_MOVES: Final = ("moved_partitions", "kept_partitions")


def collect_notes(spark: SparkSession, options: dict[str, str], folder: Path) -> DataFrame:
    """Append the notes since the last run to the Parquet in `folder`, and return all of them."""
    return collect_since(spark, options, "notes", folder, KEY)


def rebalances(notes: DataFrame) -> DataFrame:
    """Return the completed rebalances of members, each with its cause: the last note of a begin before it.
    `standstill_ms` is the largest sum of the times in which its members could not read. A note that repeats is stored
    by each run, and has a row for each time that it was stored: `rebalances` are its repetitions since the time before,
    and have the duration of the last of them. Of the partitions that the group had before, `moved_partitions`
    have another owner, or none, and `kept_partitions` the same; both are null if that is unknown. A server-driven group
    has a rebalance for each new target. Its members keep reading, so `duration_ms` is null.
    """
    versions = Window.partitionBy(*_EVENT).orderBy("times", "number")
    added = f.col("times") - f.lag("times", 1, 0).over(versions)
    events = notes.withColumn("added", added).where("added > 0")
    begin = f.when(f.col("kind").isin("rebalance", "epoch"), f.struct("cause", "member", "client", "host", "since"))
    earlier = Window.partitionBy("group").orderBy("time", "number").rowsBetween(Window.unboundedPreceding, -1)
    shared = f.when(f.col("kind") == "assigned", f.struct("generation", *_MOVES))
    later = Window.partitionBy("group").orderBy("time", "number").rowsBetween(1, Window.unboundedFollowing)
    completed = (
        events.withColumn("begin", f.last(begin, ignorenulls=True).over(earlier))
        .withColumn("shared", f.first(shared, ignorenulls=True).over(later))
        .where("kind = 'completed' and duration_ms is not null or kind = 'target'")
    )
    is_driven = f.col("kind") == "target"
    is_its_own = f.col("shared.generation") == f.col("generation")  # a rebalance may have no such note
    return completed.select(
        "group",
        "time",
        "generation",
        "members",
        f.col("added").alias("rebalances"),
        f.coalesce("begin.cause", f.lit("unknown")).alias("cause"),
        f.col("begin.client").alias("begun_by"),
        f.col("begin.host").alias("host"),
        "duration_ms",
        f.when(is_driven, 0)
        .otherwise(f.col("duration_ms") * f.col("members") * f.col("added"))
        .cast("bigint")
        .alias("standstill_ms"),
        "awaited_client",
        "awaited_host",
        "awaited_ms",
        *(f.when(is_driven, f.col(name)).when(is_its_own, f.col(f"shared.{name}")).alias(name) for name in _MOVES),
    )


def cost(found: DataFrame, *by: str) -> DataFrame:
    """Return the cost by these columns, the highest first. Partitions are summed over rebalances that report them; null
    if none does.
    """
    grouped = found.groupBy(*by).agg(
        f.sum("rebalances").alias("rebalances"),
        f.sum("standstill_ms").alias("standstill_ms"),
        f.max("duration_ms").alias("longest_ms"),
        *(f.sum(f.col(name) * f.col("rebalances")).alias(name) for name in _MOVES),
    )
    return grouped.orderBy(f.desc("standstill_ms"), *by)


def cost_by_hour(found: DataFrame) -> DataFrame:
    """Return the cost of each group by hour."""
    by_hour = found.withColumn("hour", f.date_trunc("hour", "time"))
    return cost(by_hour, "group", "hour").orderBy("group", "hour")


def awaited(found: DataFrame) -> DataFrame:
    """Return the clients for which groups waited: those that joined last, and the time from the begin until then."""
    grouped = found.where("awaited_client is not null").groupBy("group", "awaited_client", "awaited_host")
    totals = grouped.agg(
        f.sum("rebalances").alias("rebalances"),
        f.sum(f.col("awaited_ms") * f.col("rebalances")).alias("awaited_ms"),
    )
    return totals.orderBy(f.desc("awaited_ms"), "group", "awaited_client")
