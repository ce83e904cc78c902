"""Consumption and lag by group and hour, time to drain, and time behind a limit: from samples in the table `ends`."""

from datetime import timedelta
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from pipelines.store import collect_since

_PARTITION: Final = ("group", "topic", "partition")
_LOG: Final = (*_PARTITION, "epoch")
KEY: Final = ("time", *_PARTITION)
HOLDS: Final = timedelta(minutes=70)
"""Longest time for which a sample is valid: unchanged offsets and ends are sampled once an hour."""


def collect_ends(spark: SparkSession, options: dict[str, str], folder: Path) -> DataFrame:
    """Append the samples since the last run to the Parquet in `folder`, and return all of them."""
    return collect_since(spark, options, "ends", folder, KEY)


def lag_by_hour(ends: DataFrame, late_after_s: int) -> DataFrame:
    """Return by group and hour the records consumed and produced, the lag, and the share of time in which the group was
    late: its oldest unread record was older than `late_after_s`. `known_ms`: the part of the hour with samples.
    """
    over = timeline(ends, late_after_s).withColumn("hour", f.explode(_hours(f.col("time"), f.col("until"))))
    seconds = f.least(_seconds("until"), _seconds("hour") + 3_600) - f.greatest(_seconds("time"), _seconds("hour"))
    levels = (
        over.withColumn("seconds", seconds)
        .groupBy("group", "hour")
        .agg(
            (f.sum(f.col("lag") * f.col("seconds")) / f.sum("seconds")).alias("mean_lag"),
            f.max("lag").alias("max_lag"),
            f.sum(f.when(f.col("late") > 0, f.col("seconds")).otherwise(0)).alias("late_s"),
            f.sum("seconds").alias("known_s"),
        )
    )
    moves = movement(ends).groupBy("group", f.date_trunc("hour", "time").alias("hour"))
    moved = moves.agg(f.sum("consumed").alias("consumed"), f.sum("produced").alias("produced"))
    joined = levels.join(moved, ["group", "hour"], "left").fillna(0, ["consumed", "produced"])
    return joined.select(
        "group",
        "hour",
        "consumed",
        "produced",
        f.round("mean_lag").cast("bigint").alias("mean_lag"),
        "max_lag",
        f.round(1_000 * f.col("late_s")).cast("bigint").alias("late_ms"),
        f.round(1_000 * f.col("known_s")).cast("bigint").alias("known_ms"),
    ).orderBy("group", "hour")


def service_levels(by_hour: DataFrame) -> DataFrame:
    """Return the share of time in which each group was not late, the worst first."""
    grouped = by_hour.groupBy("group").agg(f.sum("late_ms").alias("late_ms"), f.sum("known_ms").alias("known_ms"))
    share = f.round(100 * (1 - f.col("late_ms") / f.col("known_ms")), 2)
    return grouped.withColumn("percent_in_time", share).orderBy("percent_in_time", "group")


def time_to_drain(ends: DataFrame) -> DataFrame:
    """Return the time in which each group will have read its lag, at the rates of the last hour; null if it does not
    catch up."""
    newest = ends.agg(f.max("time").alias("newest"))
    last = ends.withColumn("last", f.row_number().over(Window.partitionBy(*_PARTITION).orderBy(f.desc("time")))).where(
        "last = 1"
    )
    held = last.crossJoin(newest).where(f.col("time") > f.col("newest") - f.lit(HOLDS))
    lags = held.groupBy("group").agg(f.sum("lag").alias("lag"))
    recent = movement(ends).crossJoin(newest).where(f.col("time") > f.col("newest") - f.lit(timedelta(hours=1)))
    speeds = recent.groupBy("group").agg(f.sum("consumed").alias("consumed"), f.sum("produced").alias("produced"))
    gain = f.col("consumed") - f.col("produced")
    drain = f.when(f.col("lag") == 0, 0).when(gain > 0, f.round(3_600_000 * f.col("lag") / gain))
    found = lags.join(speeds, "group", "left").fillna(0, ["consumed", "produced"])
    return found.withColumn("drained_in_ms", drain.cast("bigint")).orderBy(f.desc("lag"), "group")


def movement(ends: DataFrame) -> DataFrame:
    """Return by sample the records that were consumed and produced since the previous sample; a rewind counts as none
    consumed."""
    before = Window.partitionBy(*_PARTITION).orderBy("time")
    return ends.select(
        *KEY,
        f.greatest(f.lit(0), f.col("offset") - f.lag("offset").over(before)).alias("consumed"),
        f.greatest(f.lit(0), f.col("log_end") - f.lag("log_end").over(before)).alias("produced"),
    ).fillna(0)


def timeline(ends: DataFrame, late_after_s: int) -> DataFrame:
    """Return the sum of each group's lag from `time` to `until`, and the number of late partitions. A sample of a
    partition is valid until the next one: it is added to the sum at its begin, and subtracted at its end.
    """
    held = _held(ends).withColumn("late_from", f.greatest("time", f.col("there_since") + _of_seconds(late_after_s)))
    zero = f.lit(0)
    changes = [
        _change("time", f.col("lag"), f.lit(1), zero),
        _change("until", -f.col("lag"), f.lit(-1), zero),
        _change("late_from", zero, zero, f.lit(1)),
        _change("until", zero, zero, f.lit(-1)),
    ]
    is_late = (f.col("lag") > 0) & (f.col("late_from") < f.col("until"))
    wanted = f.when(is_late, f.array(*changes)).otherwise(f.array(*changes[:2]))
    summed = (
        held.select("group", f.explode(wanted).alias("change"))
        .groupBy("group", f.col("change.at").alias("time"))
        .agg(*(f.sum(f"change.{name}").alias(name) for name in ("lag", "known", "late")))
    )
    by_time = Window.partitionBy("group").orderBy("time")
    return summed.select(
        "group",
        "time",
        f.lead("time").over(by_time).alias("until"),
        *(f.sum(name).over(by_time).alias(name) for name in ("lag", "known", "late")),
    ).where("known > 0 and until is not null")


def _held(ends: DataFrame) -> DataFrame:
    """Return samples with the time until which they are valid, and the time of the first unread record, which is that
    of the first sample of the same log whose end is larger than its offset.
    """
    partition = Window.partitionBy(*_PARTITION)
    newest = ends.agg(f.max("time").alias("newest"))
    marks = (
        _with_epochs(ends)
        .select(
            *_LOG,
            f.explode(
                f.array(
                    f.struct(f.col("log_end").alias("value"), f.lit(0).alias("kind"), "time"),
                    f.struct(f.col("offset").alias("value"), f.lit(1).alias("kind"), "time"),
                )
            ).alias("mark"),
        )
        .select(*_LOG, "mark.*")
    )
    above = (
        Window.partitionBy(*_LOG).orderBy(f.desc("value"), f.desc("kind")).rowsBetween(Window.unboundedPreceding, -1)
    )
    since = f.min(f.when(f.col("kind") == 0, f.col("time"))).over(above)
    there = marks.withColumn("there_since", since).where("kind = 1").select(*KEY, "there_since")
    until = f.least(f.lead("time").over(partition.orderBy("time")), f.col("time") + f.lit(HOLDS), f.col("newest"))
    return ends.crossJoin(newest).withColumn("until", until).drop("newest").join(there, list(KEY))


def _with_epochs(ends: DataFrame) -> DataFrame:
    """Return samples with the number of the partition's log: an end that is lower than before is that of a new log, of
    a topic that was deleted and created again, in which the same offsets are other records.
    """
    by_time = Window.partitionBy(*_PARTITION).orderBy("time")
    fell = f.when(f.col("log_end") < f.lag("log_end").over(by_time), 1).otherwise(0)
    return ends.withColumn("fell", fell).withColumn("epoch", f.sum("fell").over(by_time))


def _change(at: str, lag: Column, known: Column, late: Column) -> Column:
    return f.struct(f.col(at).alias("at"), lag.cast("bigint").alias("lag"), known.alias("known"), late.alias("late"))


def _hours(start: Column, until: Column) -> Column:
    last = until - f.lit(timedelta(microseconds=1))
    return f.sequence(f.date_trunc("hour", start), f.date_trunc("hour", last), f.expr("interval 1 hour"))


def _of_seconds(seconds: int) -> Column:
    return f.lit(timedelta(seconds=seconds))


def _seconds(column: str) -> Column:
    return f.unix_micros(column) / 1e6
