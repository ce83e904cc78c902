"""Offsets that expire, orphans, rewinds, and unread topics: from the tables `commits` and `topics`."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from pipelines.store import append_new, newest, parquet, stored

_PARTITION = ("group", "topic", "partition")


def collect_commits(spark: SparkSession, options: dict[str, str], folder: Path) -> tuple[DataFrame, DataFrame]:
    """Append a snapshot of the committed offsets to the Parquet in `folder`. Return all snapshots, and this one."""
    commits = spark.read.format("muster").options(**options).option("table", "commits").load()
    return append_snapshot(commits, folder)


def append_snapshot(commits: DataFrame, folder: Path) -> tuple[DataFrame, DataFrame]:
    """Append a snapshot to the Parquet in `folder`. Return all snapshots, and this one: it is empty if no group has an
    offset, and then the newest stored one is older.
    """
    spark = commits.sparkSession
    before = stored(spark, "commits", folder)
    previous = None if before is None else newest(before, "read_at")
    append_new(commits, before, folder, ("read_at", *_PARTITION))
    snapshots = parquet(spark, "commits", folder)
    return snapshots, latest(snapshots) if newest(snapshots, "read_at") != previous else snapshots.limit(0)


def latest(commits: DataFrame) -> DataFrame:
    """Return the newest snapshot that has an offset."""
    return commits.join(commits.agg(f.max("read_at").alias("read_at")), "read_at")


def expiring(snapshot: DataFrame, within_days: int) -> DataFrame:
    """Return by group and topic the offsets that expire within so many days, in the order of expiry."""
    soon = f.col("expires_at") < f.col("read_at") + f.make_dt_interval(f.lit(within_days))
    grouped = snapshot.where(soon).groupBy("group", "topic")
    return grouped.agg(f.count("*").alias("partitions"), f.min("expires_at").alias("first_at")).orderBy(
        "first_at", "group", "topic"
    )


def orphans(snapshot: DataFrame) -> DataFrame:
    """Return by group and topic the offsets that no longer point to a record: the partition is deleted, or its records
    at the offset are.
    """
    why = f.when(~f.col("exists"), "no such partition").when(f.col("offset") < f.col("log_start"), "records deleted")
    grouped = snapshot.withColumn("why", why).where("why is not null").groupBy("group", "topic", "why")
    return grouped.agg(f.count("*").alias("partitions")).orderBy("group", "topic", "why")


def lags(snapshot: DataFrame) -> DataFrame:
    """Return the lag of each group and topic, the greatest first."""
    grouped = snapshot.where("lag is not null").groupBy("group", "topic")
    return grouped.agg(f.sum("lag").alias("lag"), f.max("committed_at").alias("committed_at")).orderBy(
        f.desc("lag"), "group", "topic"
    )


def rewinds(commits: DataFrame) -> DataFrame:
    """Return the committed offsets that are lower than in the previous snapshot, the newest first."""
    before = f.lag("offset").over(Window.partitionBy(*_PARTITION).orderBy("read_at"))
    found = commits.withColumn("previous_offset", before).where("offset < previous_offset")
    return found.select("read_at", *_PARTITION, "previous_offset", "offset").orderBy(f.desc("read_at"), *_PARTITION)


def unread(topics: DataFrame, snapshot: DataFrame) -> DataFrame:
    """Return the topics that no group has committed an offset of, the largest first; internal ones are omitted."""
    others = topics.where(~f.col("internal")).join(snapshot.select("topic"), "topic", "left_anti")
    return others.select("topic", "partitions", "records").orderBy(f.desc_nulls_last("records"), "topic")
