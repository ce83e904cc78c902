"""Pipelines over a real `musterd` and over rows made for them: what rebalances cost, who began them, what expires."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from muster import Consumer, Producer
from pipelines.offsets import append_snapshot, expiring, lags, latest, orphans, rewinds
from pipelines.rebalances import KEY, awaited, cost, cost_by_hour, rebalances
from pipelines.report import run
from pipelines.store import append_new, stored
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
        ("g", "session expired", "app", 1, 6_000, 2_000, None, None),
        ("g", "unknown", None, 1, 50, 50, None, None),
        ("g", "static member replaced", "twin", 2, 40, 10, None, None),
    ]
    assert tuples(awaited(found).select("awaited_client", "rebalances", "awaited_ms")) == [("slow", 3, 1_908)]


def test_repetitions_of_a_note_count_in_the_hours_of_the_runs_that_stored_them(spark: SparkSession) -> None:
    """Two processes that fence each other each minute for three hours; a run reads the notes in every hour."""
    since = AT + timedelta(minutes=1)
    stored_notes = []
    for hour, times in enumerate((59, 119, 119, 179)):
        at = 60 * times
        begin = note(at, "rebalance", "static member replaced", client=f"twin-{hour}", since=since, times=times)
        end = completed(at + 1, times, since=since, times=times, duration_ms=10 * (hour + 1))
        # The third run stores the note once more under another number, and with no repetition of it.
        stored_notes += [begin, end] if hour != 2 else [begin | {"number": at + 5}, end | {"number": at + 6}]
    found = rebalances(frame(spark, "notes", *stored_notes)).cache()
    by_hour = cost_by_hour(found).selectExpr("unix_seconds(hour)", "rebalances", "standstill_ms", "longest_ms")
    noon = int(AT.timestamp())
    assert tuples(by_hour) == [
        (noon, 59, 59 * 2 * 10, 10),
        (noon + 3_600, 60, 60 * 2 * 20, 20),
        (noon + 7_200, 60, 60 * 2 * 40, 40),
    ]
    assert tuples(cost(found, "begun_by").select("begun_by", "rebalances")) == [
        ("twin-3", 60),
        ("twin-1", 60),
        ("twin-0", 59),
    ]


def completed(number: int, generation: int, **said: Any) -> dict[str, Any]:
    common = {"generation": generation, "duration_ms": 100, "members": 2}
    return note(number, "completed", "rebalance completed", **common | said)


def assigned(number: int, generation: int, moved: int, kept: int, **said: Any) -> dict[str, Any]:
    shared = {"generation": generation, "moved_partitions": moved, "kept_partitions": kept}
    return note(number, "assigned", "partitions assigned", **shared | said)


MOVES = (
    completed(0, 1),  # nobody had partitions before it
    completed(10, 2),
    assigned(11, 2, 1, 3),
    completed(3_600, 3, times=4, since=AT + timedelta(minutes=1)),  # a note that repeats
    assigned(3_601, 3, 4, 0, times=4, since=AT + timedelta(minutes=1)),
    completed(3_700, 4),  # the members were gone before the leader's assignments came
    completed(5, 2, group="other"),
    assigned(12, 2, 0, 8, group="other"),
)


def test_a_rebalance_tells_how_many_partitions_moved_and_which_did_not(spark: SparkSession) -> None:
    found = rebalances(frame(spark, "notes", *MOVES)).cache()
    moves = found.where("group = 'g'").orderBy("time").select("generation", "moved_partitions", "kept_partitions")
    assert tuples(moves) == [(1, None, None), (2, 1, 3), (3, 4, 0), (4, None, None)]
    partitions = ("group", "rebalances", "moved_partitions", "kept_partitions")
    assert tuples(cost(found, "group").select(*partitions)) == [("g", 7, 17, 3), ("other", 1, 0, 8)]
    by_hour = cost_by_hour(found).selectExpr("unix_seconds(hour)", *partitions)
    noon = int(AT.timestamp())
    assert tuples(by_hour) == [(noon, "g", 2, 1, 3), (noon + 3_600, "g", 5, 16, 0), (noon, "other", 1, 0, 8)]


def test_a_new_target_of_a_server_driven_group_is_a_rebalance_without_standstill(spark: SparkSession) -> None:
    def target(number: int, moved: int | None, kept: int | None) -> dict[str, Any]:
        return note(number, "target", "target assignment computed", moved_partitions=moved, kept_partitions=kept)

    notes = (
        note(0, "epoch", "member joined", client="first"),
        target(1, None, None),
        note(2, "epoch", "member joined", client="second"),
        target(3, 2, 2),
        note(4, "epoch", "member left", client="first", members=1),
        note(5, "epoch", "member left", client="second", members=0),  # nobody is left who has a target computed
        note(6, "epoch", "member joined", client="third"),
        target(7, None, None),
    )
    found = rebalances(frame(spark, "notes", *notes)).cache()
    begun = found.orderBy("time").select("cause", "begun_by", "duration_ms", "moved_partitions", "kept_partitions")
    assert tuples(begun) == [
        ("member joined", "first", None, None, None),
        ("member joined", "second", None, 2, 2),
        ("member joined", "third", None, None, None),
    ]
    assert tuples(cost(found, "group")) == [("g", 3, 0, None, 2, 2)]


def test_what_a_version_without_a_column_has_written_is_read_and_added_to(spark: SparkSession, tmp_path: Path) -> None:
    assert stored(spark, "notes", tmp_path / "notes") is None
    old = frame(spark, "notes", *MOVES[:3]).drop("moved_partitions", "kept_partitions")
    append_new(old, None, tmp_path / "notes", KEY)
    before = stored(spark, "notes", tmp_path / "notes")
    assert before is not None
    assert before.columns == list(COLUMNS["notes"])
    append_new(frame(spark, "notes", *MOVES), before, tmp_path / "notes", KEY)
    both = stored(spark, "notes", tmp_path / "notes")
    assert both is not None
    assert both.count() == len(MOVES)
    found = rebalances(both).orderBy("group", "time").select("group", "generation", "moved_partitions")
    assert tuples(found) == [("g", 1, None), ("g", 2, None), ("g", 3, 4), ("g", 4, None), ("other", 2, 0)]


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


def test_if_no_group_has_an_offset_any_more_the_snapshot_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    folder, nothing = tmp_path / "commits", frame(spark, "commits")
    later = commit("a", 0, 9, read_at=AT + timedelta(hours=2))
    for rows, snapshot in ((nothing, []), (commit("a", 0, 8), [8]), (nothing, []), (later, [9])):
        made = rows if isinstance(rows, DataFrame) else frame(spark, "commits", rows)
        _, now = append_snapshot(made, folder)
        assert tuples(now.select("offset")) == [(offset,) for offset in snapshot]
    snapshots, _ = append_snapshot(nothing, folder)
    assert snapshots.count() == 2


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
    with Producer(daemon.bootstrap) as producer:
        producer.send("flights", b"one more", partition=0)
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


def test_a_server_driven_group_is_in_the_report_and_so_are_notes_that_know_no_moves(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    folder, page = tmp_path / "tables", tmp_path / "report.html"
    options = {"bootstrap": daemon.bootstrap}
    with ExitStack() as stack:
        members: list[Consumer] = []

        def is_shared() -> bool:
            for one in members:
                one.poll(0.02)
            return sum(len(one.assignment) for one in members) == 2 and all(one.assignment for one in members)

        for client in ("one", "two"):
            made = Consumer(daemon.bootstrap, group_id="driven", client_id=client, group_protocol="consumer")
            members.append(stack.enter_context(made))
            made.subscribe(["flights"])
            assert within(20, is_shared, every_s=0)
    run(spark, options, folder, page)
    driven = ("cause", "begun_by", "standstill_ms", "moved_partitions", "kept_partitions")
    found = (
        spark.read.parquet(str(folder / "rebalances")).where("group = 'driven'").orderBy("generation").select(*driven)
    )
    assert tuples(found)[:2] == [("member joined", "one", 0, None, None), ("member joined", "two", 0, 1, 1)]
    assert re.search(r"<dt>partitions moved</dt><dd>\d+ of \d+</dd>", page.read_text())

    # As a version wrote them that knew no moves: the next run reads them, and adds what is new.
    old = spark.read.parquet(str(folder / "notes")).drop("moved_partitions", "kept_partitions").localCheckpoint()
    old.coalesce(1).write.mode("overwrite").parquet(str(folder / "notes"))
    join_and_leave(daemon, "third")
    run(spark, options, folder, page)
    found = spark.read.parquet(str(folder / "rebalances")).where("begun_by in ('one', 'two', 'third')")
    assert found.select("begun_by").distinct().count() == 3
