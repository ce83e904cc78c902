"""One run of the jobs, and the page of the results."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pipelines.lag import collect_ends, lag_by_hour, service_levels, time_to_drain
from pipelines.offsets import collect_commits, expiring, lags, orphans, rewinds, unread
from pipelines.page import Plot, Section, cell, render
from pipelines.rebalances import awaited, collect_notes, cost, cost_by_hour, rebalances

WITHIN_DAYS = 7
LATE_AFTER_S = 300
"""Age of a group's oldest unread record from which the group is late."""


def run(
    spark: SparkSession, options: dict[str, str], folder: Path, page: Path, late_after_s: int = LATE_AFTER_S
) -> Mapping[str, str]:
    """Collect new data from the coordinator that `options` name, compute all results, and write the page. Return the
    figures at its top, by their meanings.

    Below `folder` are Parquet tables: `notes`, `commits` and `ends` grow, the others are results. Raises the errors of
    the source and of Spark.
    """
    notes = collect_notes(spark, options, folder / "notes")
    commits, snapshot = collect_commits(spark, options, folder / "commits")
    ends = collect_ends(spark, options, folder / "ends")
    topics = spark.read.format("muster").options(**options).option("table", "topics").load()
    computed = compute(notes, commits, snapshot, ends, topics, late_after_s)
    results = {}
    for name, result in computed.items():
        result.coalesce(1).write.mode("overwrite").parquet(str(folder / name))
        results[name] = spark.read.parquet(str(folder / name))
    figures, text = write_page(results, snapshot, late_after_s)
    page.write_text(text)
    return figures


def compute(
    notes: DataFrame, commits: DataFrame, snapshot: DataFrame, ends: DataFrame, topics: DataFrame, late_after_s: int
) -> dict[str, DataFrame]:
    """Return the results by name, from the collected data; `snapshot` is the newest one of `commits`."""
    found = rebalances(notes)
    return {
        "rebalances": found,
        "rebalances_by_hour": cost_by_hour(found),
        "lag_by_hour": lag_by_hour(ends, late_after_s),
        "drain": time_to_drain(ends),
        "expiring": expiring(snapshot, WITHIN_DAYS),
        "orphans": orphans(snapshot),
        "rewinds": rewinds(commits),
        "unread": unread(topics, snapshot),
    }


def write_page(results: dict[str, DataFrame], snapshot: DataFrame, late_after_s: int) -> tuple[Mapping[str, str], str]:
    """Return the figures at the top of the page, and the page of the results."""
    found = results["rebalances"].cache()
    by_hour = found.withColumn("hour", f.date_format("time", "yyyy-MM-dd HH:00"))
    behind = rows(lags(snapshot))
    levels = rows(service_levels(results["lag_by_hour"]))
    dear = rows(cost(found, "group"))
    goes, lost = rows(results["expiring"].orderBy("first_at", "group")), rows(results["orphans"].orderBy("group"))
    figures = {
        "rebalances": cell("", sum(row["rebalances"] for row in dear)),
        "members stood still": cell("standstill_ms", sum(row["standstill_ms"] for row in dear)),
        "partitions moved": moved_share(dear),
        "records behind": cell("", sum(row["lag"] for row in behind)),
        f"least time less than {late_after_s} s behind": f"{levels[0]['percent_in_time']:g} %" if levels else "-",
        f"offsets that go within {WITHIN_DAYS} days": cell("", sum(row["partitions"] for row in goes)),
        "orphans": cell("", sum(row["partitions"] for row in lost)),
    }
    sections = [
        Section(
            "What rebalances cost",
            "Standstill is the time of a rebalance, for each member of it. Partitions that moved have another owner "
            "than before, or none.",
            dear,
            "No group has completed a rebalance.",
            Plot("group", "standstill_ms"),
        ),
        Section(
            "Who began them",
            "The cause of each rebalance, and the client whose join, leave or silence it was.",
            rows(cost(found, "cause", "group", "begun_by", "host")),
            "Nobody.",
            Plot("cause", "standstill_ms"),
        ),
        Section(
            "Who was awaited",
            "The client that joined last, and how long after the begin.",
            rows(awaited(found)),
            "Nobody.",
            Plot("awaited_client", "awaited_ms"),
        ),
        Section(
            "When",
            "By hour, UTC.",
            sorted(rows(cost(by_hour, "hour")), key=lambda row: str(row["hour"])),
            "Never.",
            Plot("hour", "standstill_ms"),
        ),
        Section("Lag", "Records behind the end of the log.", behind, "There are no commits.", Plot("group", "lag")),
        Section(
            "Time to drain",
            "At the speeds of the last hour, in records; - if the group does not catch up.",
            rows(results["drain"].orderBy(f.desc("lag"), "group")),
            "There are no samples of log ends.",
        ),
        Section(
            "Service levels",
            f"A group is late while a record that it has not read has been there for {late_after_s} s or longer.",
            levels,
            "There are no samples of log ends over some time.",
            Plot("group", "late_ms"),
        ),
        Section(
            "Consumption and lag by hour",
            "In records, the newest hour first, UTC.",
            rows(results["lag_by_hour"].orderBy(f.desc("hour"), "group")),
            "There are no samples of log ends over some time.",
            Plot("hour", "mean_lag"),
        ),
        Section(
            "Offsets that expire",
            f"Within {WITHIN_DAYS} days, unless their groups commit or get members.",
            goes,
            f"No offset goes within {WITHIN_DAYS} days.",
        ),
        Section(
            "Orphans",
            "Offsets of partitions that do not exist, or of records that are deleted.",
            lost,
            "Every offset points to a position in a log.",
        ),
        Section(
            "Topics that nobody reads",
            "No group has committed an offset of them. Who reads without a group is not known.",
            rows(results["unread"].orderBy(f.desc_nulls_last("records"), "topic")),
            "Every topic has a group.",
        ),
        Section(
            "Rewinds",
            "Offsets that were lower than in the snapshot before.",
            rows(results["rewinds"].orderBy(f.desc("read_at"), "group", "topic", "partition")),
            "No offset went back between two runs.",
        ),
    ]
    return figures, render("What the groups did", datetime.now(UTC), figures, sections)


def moved_share(costs: Sequence[dict[str, Any]]) -> str:
    """Describe the share of partitions that moved."""
    told = [row for row in costs if row["moved_partitions"] is not None]
    moved, kept = (sum(row[name] for row in told) for name in ("moved_partitions", "kept_partitions"))
    return f"{cell('', moved)} of {cell('', moved + kept)}" if told else "-"


def rows(found: DataFrame) -> Sequence[dict[str, Any]]:
    """Return rows for the page. Times are computed from numbers, whatever the zone of the session."""
    return [row.asDict() for row in found.collect()]
