"""Pipelines over a real `musterd` and over rows made for them: what rebalances cost, who began them, what expires."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from muster import Consumer, Producer
from pipelines.offsets import expiring, lags, latest, orphans, rewinds
from pipelines.rebalances import awaited, cost, rebalances
from pipelines.report import run
from pyspark_muster.tables.columns import COLUMNS, TableName, ddl
from tests.edges.musterd import Daemon, running, within
from tests.edges.test_client import create

pytestmark = [pytest.mark.xdist_group("spark-2"), pytest.mark.long, pytest.mark.timeout(600)]
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def frame(spark: SparkSession, table: TableName, *rows: dict[str, Any]) -> DataFrame:
    """Return rows of a table; what they do not say is null."""
    return spark.createDataFrame([tuple(row.get(name) for name in COLUMNS[table]) for row in rows], ddl(table))


def note(number: int, kind: str, cause: str, **said: Any) -> dict[str, Any]:
    time = AT + timedelta(seconds=number)
    return {
        "group": "g",
        "number": number,
        "time": time,
        "since": time,
        "times": 1,
        "kind": kind,
        "cause": cause,
    } | said


def commit(topic: str, partition: int, offset: int, **said: Any) -> dict[str, Any]:
    logs = {"exists": True, "log_start": 0, "log_end": 10, "lag": 10 - offset, "read_at": AT}
    return {"group": "g", "topic": topic, "partition": partition, "offset": offset} | logs | said


def tuples(rows: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows.collect()]


def test_a_rebalance_costs_whoever_began_it_the_time_of_each_member(spark: SparkSession) -> None:
    began = AT + timedelta(seconds=4)
    notes = frame(
        spark,
        "notes",
        note(0, "completed", "rebalance completed", duration_ms=50, members=1),  # its begin is forgotten
        note(1, "rebalance", "session expired", client="app", host="h1"),
        note(2, "dropped", "member did not rejoin in time", client="other"),
        note(
            3, "completed", "rebalance completed", duration_ms=2_000, members=3, awaited_client="slow", awaited_ms=1_900
        ),
        # Two processes that fence each other: the note repeats, and takes a new number when its count has doubled.
        note(4, "rebalance", "static member replaced", client="twin", since=began),
        note(6, "rebalance", "static member replaced", client="twin", since=began, times=2),
        note(
            7,
            "completed",
            "rebalance completed",
            duration_ms=10,
            members=2,
            times=2,
            awaited_client="slow",
            awaited_ms=4,
        ),
        note(8, "completed", "last member gone", members=0),
        note(5, "rebalance", "member joined", client="x", group="other"),
    )
    found = rebalances(notes).cache()
    assert tuples(cost(found, "group", "cause", "begun_by")) == [
        ("g", "session expired", "app", 1, 6_000, 2_000),
        ("g", "unknown", None, 1, 50, 50),
        ("g", "static member replaced", "twin", 2, 40, 10),
    ]
    assert tuples(awaited(found).select("awaited_client", "rebalances", "awaited_ms")) == [("slow", 3, 1_908)]


def test_offsets_that_go_that_stand_for_nothing_and_that_went_back(spark: SparkSession) -> None:
    earlier = AT - timedelta(hours=1)
    commits = frame(
        spark,
        "commits",
        commit("a", 0, 8, read_at=earlier),
        commit("b", 0, 2, read_at=earlier),
        commit("a", 0, 3, expires_at=AT + timedelta(days=6)),
        commit("a", 1, 9, expires_at=AT + timedelta(days=2)),
        commit("b", 0, 4, expires_at=AT + timedelta(days=8)),
        commit("b", 1, 1, log_start=5, kept_because="pinned"),
        commit("gone", 0, 7, exists=False, log_start=None, log_end=None, lag=None),
    )
    now = latest(commits).cache()
    assert now.count() == 5
    soon = expiring(now, 7).selectExpr("group", "topic", "partitions", "unix_seconds(first_at)")
    assert tuples(soon) == [("g", "a", 2, int((AT + timedelta(days=2)).timestamp()))]
    assert tuples(orphans(now)) == [("g", "b", "records deleted", 1), ("g", "gone", "no such partition", 1)]
    assert tuples(lags(now).select("topic", "lag")) == [("b", 15), ("a", 8)]
    assert tuples(rewinds(commits).drop("read_at")) == [("g", "a", 0, 8, 3)]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder: Path = tmp_path_factory.mktemp("pipelines") / "data"
    with running(folder, "group.initial.rebalance.delay.ms=200") as daemon:
        create(daemon, "flights", 2)
        with Producer(daemon.bootstrap) as producer:
            for number in range(10):
                producer.send("flights", b"%d" % number, partition=0)
        yield daemon


def join_and_leave(daemon: Daemon, client: str) -> None:
    with Consumer(daemon.bootstrap, group_id="delays", client_id=client, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["flights"])
        assert within(20, lambda: consumer.poll(0.1))
        consumer.commit()


def test_each_run_adds_what_is_new_and_writes_a_page(spark: SparkSession, daemon: Daemon, tmp_path: Path) -> None:
    folder, page = tmp_path / "tables", tmp_path / "report.html"
    options = {"bootstrap": daemon.bootstrap}

    def kept() -> list[tuple[Any, ...]]:
        return sorted(tuples(spark.read.parquet(str(folder / "notes")).select("group", "number", "time", "kind")))

    run(spark, options, folder, page)  # there is no group yet
    assert kept() == []
    assert "No group has completed a rebalance." in page.read_text()
    join_and_leave(daemon, "first")
    run(spark, options, folder, page)
    once = kept()
    assert once
    with Producer(daemon.bootstrap) as producer:
        producer.send("flights", b"more", partition=0)
    join_and_leave(daemon, "second")
    run(spark, options, folder, page)
    twice = kept()
    assert set(once) < set(twice)
    assert len(twice) == len(set(twice))  # the last minutes were read again, and nothing was added again
    began = spark.read.parquet(str(folder / "rebalances")).orderBy("generation").select("cause", "begun_by")
    assert tuples(began) == [("member joined", "first"), ("member joined", "second")]
    text = page.read_text()
    assert re.search(r"<dt>rebalances</dt><dd>2</dd>", text)
    assert re.search(r"<td>member joined</td><td>delays</td><td>second</td><td>/?127.0.0.1</td><td>1</td>", text)
    assert "<rect " in text
