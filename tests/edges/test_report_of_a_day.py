"""The figures of the report over a simulated day, each compared with what the day's groups did."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipelines.lag import KEY, lag_by_hour, service_levels, time_to_drain
from pipelines.store import append_new, stored
from pyspark_muster.tables.columns import COLUMNS, ddl
from tests.edges.simulated_day import BEGIN, GROUPS, MINUTES, PRODUCED, history, lags, late_minutes, samples

pytestmark = [pytest.mark.xdist_group("spark-2"), pytest.mark.long, pytest.mark.timeout(600)]
LATE_AFTER_MIN = 10
HOURS = range(24)


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame([tuple(row[name] for name in COLUMNS["ends"]) for row in rows], ddl("ends"))


@pytest.fixture(scope="module")
def day(spark: SparkSession) -> DataFrame:
    return frame(spark, samples()).cache()


def hours_of(by_hour: DataFrame) -> dict[tuple[str, int], dict[str, Any]]:
    rows = by_hour.selectExpr("*", "unix_seconds(hour) as at").collect()
    return {(row["group"], (row["at"] - int(BEGIN.timestamp())) // 3_600): row.asDict() for row in rows}


def truth(group: str, hour: int) -> dict[str, int]:
    minutes = range(60 * hour, 60 * (hour + 1))
    lag, late = lags(group), late_minutes(group, LATE_AFTER_MIN)
    moves = [range(max(1, minutes[0]), minutes[-1] + 1)] * len(PRODUCED)
    parts = list(zip(history(group), moves, strict=True))
    return {
        "consumed": sum(part[minute].offset - part[minute - 1].offset for part, over in parts for minute in over),
        "produced": sum(part[minute].end - part[minute - 1].end for part, over in parts for minute in over),
        "mean_lag": round(sum(lag[minute] for minute in minutes) / 60),
        "max_lag": max(lag[minute] for minute in minutes),
        "late_ms": 60_000 * sum(late[minute] for minute in minutes),
        "known_ms": 3_600_000,
    }


def test_each_hour_of_each_group_is_as_it_was(day: DataFrame) -> None:
    found = hours_of(lag_by_hour(day, 60 * LATE_AFTER_MIN))
    assert found.keys() == {(group, hour) for group in GROUPS for hour in HOURS}
    for (group, hour), row in found.items():
        expected = truth(group, hour)
        assert {name: row[name] for name in expected} == expected, (group, hour)


def test_service_levels_and_time_to_drain_are_those_of_the_day(day: DataFrame) -> None:
    levels = service_levels(lag_by_hour(day, 60 * LATE_AFTER_MIN)).collect()
    late = {group: sum(late_minutes(group, LATE_AFTER_MIN)[:MINUTES]) for group in GROUPS}
    assert {row["group"]: row["percent_in_time"] for row in levels} == {
        group: pytest.approx(100 * (1 - minutes / MINUTES), abs=0.01) for group, minutes in late.items()
    }
    assert late["steady"] == 0
    assert min(late["off-at-night"], late["falls-behind"], late["comes-back"]) > 60
    drained = {row["group"]: row for row in time_to_drain(day).collect()}
    assert {group: row["lag"] for group, row in drained.items()} == {group: lags(group)[-1] for group in GROUPS}
    assert drained["steady"]["drained_in_ms"] == 0
    assert drained["falls-behind"]["drained_in_ms"] is None
    gained = lags("comes-back")[MINUTES - 60] - lags("comes-back")[MINUTES]
    assert drained["comes-back"]["drained_in_ms"] == round(3_600_000 * lags("comes-back")[-1] / gained)


def test_samples_that_leave_out_what_stands_still_give_the_same(spark: SparkSession, day: DataFrame) -> None:
    kept: list[dict[str, Any]] = []
    last: dict[tuple[str, int], dict[str, Any]] = {}
    for row in samples():
        before = last.get((row["group"], row["partition"]))
        is_whole = (row["time"] - BEGIN) % timedelta(hours=1) == timedelta(0)
        if before is None or is_whole or (before["offset"], before["log_end"]) != (row["offset"], row["log_end"]):
            kept.append(row)
        last[row["group"], row["partition"]] = row
    stopped = [row for row in kept if row["group"] != "still"]
    still = [
        {**row, "group": "still", "offset": 5, "log_end": 9, "lag": 4}
        for row in samples()
        if row["group"] == "steady" and (row["time"] - BEGIN) % timedelta(hours=1) == timedelta(0)
    ]
    found = hours_of(lag_by_hour(frame(spark, stopped + still), 60 * LATE_AFTER_MIN))
    once = hours_of(lag_by_hour(day, 60 * LATE_AFTER_MIN))
    assert {key: row for key, row in found.items() if key[0] != "still"} == once
    assert [found["still", hour]["mean_lag"] for hour in HOURS] == [8] * 24
    assert [found["still", hour]["late_ms"] for hour in HOURS] == [
        3_600_000 - 60_000 * LATE_AFTER_MIN,
        *[3_600_000] * 23,
    ]


def test_a_time_without_samples_counts_for_nothing(spark: SparkSession) -> None:
    hidden = [row for row in samples() if not 600 < (row["time"] - BEGIN) / timedelta(minutes=1) < 840]
    found = hours_of(lag_by_hour(frame(spark, hidden), 60 * LATE_AFTER_MIN))
    known = [found["steady", hour]["known_ms"] if ("steady", hour) in found else 0 for hour in HOURS]
    assert known == [3_600_000] * 11 + [600_000, 0, 0] + [3_600_000] * 10  # a sample holds for 70 minutes


def test_records_of_a_topic_that_is_created_again_are_as_old_as_the_new_topic_has_them(spark: SparkSession) -> None:
    rows = [
        {
            "time": BEGIN + timedelta(minutes=minute),
            "group": "g",
            "topic": "orders",
            "partition": 0,
            # A record is unread for an hour. Then the topic is made again, and has a record a minute, read in the next.
            "offset": 999 if minute < 60 else minute,
            "log_end": 1_000 if minute < 60 else minute + 1,
            "lag": 1,
        }
        for minute in range(121)
    ]
    found = hours_of(lag_by_hour(frame(spark, rows), 300))
    assert [found["g", hour]["late_ms"] for hour in (0, 1)] == [3_300_000, 0]
    assert [found["g", hour]["mean_lag"] for hour in (0, 1)] == [1, 1]


def test_runs_in_parts_give_the_same_as_one(spark: SparkSession, day: DataFrame, tmp_path: Path) -> None:
    rows = samples()
    for number in range(3):
        since = BEGIN + timedelta(hours=8 * number) - timedelta(minutes=10)  # each run reads a little again
        until = BEGIN + timedelta(hours=8 * (number + 1))
        some = frame(spark, [row for row in rows if since <= row["time"] <= until])
        append_new(some, stored(spark, "ends", tmp_path / "ends"), tmp_path / "ends", KEY)
    parts = spark.read.parquet(str(tmp_path / "ends"))
    assert parts.count() == len(rows)
    assert hours_of(lag_by_hour(parts, 600)) == hours_of(lag_by_hour(day, 600))
