"""Tables under Spark, against a real `musterd`: what a group did, by both of its listeners."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from muster import Consumer, Producer
from tests.edges.musterd import Daemon, running, within
from tests.edges.test_client import create

pytestmark = [pytest.mark.xdist_group("spark-2"), pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder: Path = tmp_path_factory.mktemp("tables") / "data"
    with running(
        folder, "group.initial.rebalance.delay.ms=0", "ends.sample.interval.ms=200", with_kafka=True
    ) as daemon:
        create(daemon, "flights", 2)
        yield daemon


@pytest.fixture(scope="module")
def read_and_left(daemon: Daemon) -> Iterator[Consumer]:
    """Ten records, of which `left` has read seven and left; `stays` has read none, and is still there."""
    with Producer(daemon.bootstrap) as producer:
        for number in range(10):
            producer.send("flights", b"%d" % number, partition=0)
    with Consumer(
        daemon.bootstrap, group_id="left", auto_offset_reset="earliest", enable_auto_commit=False, max_poll_records=7
    ) as consumer:
        consumer.subscribe(["flights"])
        seen = 0

        def read_seven() -> bool:
            nonlocal seen
            seen += len(consumer.poll(1))
            return seen >= 7

        assert within(20, read_seven)
        consumer.commit()
    with Consumer(daemon.bootstrap, group_id="stays", client_id="app", max_poll_interval_ms=1_200_000) as consumer:
        consumer.subscribe(["flights"])
        assert within(20, lambda: consumer.poll(0.1) or len(consumer.assignment) == 2)
        yield consumer


def table(spark: SparkSession, bootstrap: str, name: str, **options: str) -> DataFrame:
    return spark.read.format("muster").option("bootstrap", bootstrap).option("table", name).options(**options).load()


@pytest.mark.usefixtures("read_and_left")
def test_commits_groups_and_notes_are_rows(spark: SparkSession, daemon: Daemon) -> None:
    commits = {(row.group, row.partition): row for row in table(spark, daemon.bootstrap, "commits").collect()}
    first = commits["left", 0]
    assert (first.topic, first.offset, first.log_start, first.log_end, first.lag) == ("flights", 7, 0, 10, 3)
    assert first.exists
    assert isinstance(first.committed_at, datetime)
    assert isinstance(first.expires_at, datetime)
    groups = {row.group: row for row in table(spark, daemon.bootstrap, "groups").collect()}
    assert (groups["left"].state, groups["left"].members) == ("Empty", [])
    (member,) = groups["stays"].members
    assert (groups["stays"].state, member.client) == ("Stable", "app")
    assert sorted(tuple(one) for one in member.partitions) == [("flights", 0), ("flights", 1)]
    notes = table(spark, daemon.bootstrap, "notes", groups="stays").orderBy("number").collect()
    assert [(row.kind, row.cause) for row in notes[:2]] == [
        ("rebalance", "member joined"),
        ("completed", "rebalance completed"),
    ]
    assert (notes[0].client, notes[0].member) == ("app", member.member)
    assert notes[1].duration_ms >= 0
    assert notes[1].awaited_client == "app"
    later = str(int(notes[-1].time.timestamp() * 1000) + 1)
    assert table(spark, daemon.bootstrap, "notes", startingTimestamp=later, groups="stays").collect() == []


@pytest.mark.usefixtures("read_and_left")
def test_samples_of_log_ends_are_rows(spark: SparkSession, daemon: Daemon) -> None:
    ends = table(spark, daemon.bootstrap, "ends", groups="left").where("partition = 0").orderBy("time")
    assert within(60, ends.count)
    last = ends.collect()[-1]
    assert (last.topic, last.offset, last.log_end, last.lag) == ("flights", 7, 10, 3)
    assert isinstance(last.time, datetime)


@pytest.mark.usefixtures("read_and_left")
def test_kafkas_listener_tells_commits_and_groups(spark: SparkSession, daemon: Daemon) -> None:
    kafka = f"kafka://127.0.0.1:{daemon.kafka_port}"
    commits = {(row.group, row.partition): row for row in table(spark, kafka, "commits").collect()}
    assert (commits["left", 0].offset, commits["left", 0].lag, commits["left", 0].expires_at) == (7, 3, None)
    groups = {row.group: row for row in table(spark, kafka, "groups").collect()}
    assert [member.client for member in groups["stays"].members] == ["app"]
    with pytest.raises(Exception, match="Kafka's protocol has no notes"):
        table(spark, kafka, "notes")


@pytest.mark.usefixtures("read_and_left")
def test_a_group_that_is_not_there_is_named(spark: SparkSession, daemon: Daemon) -> None:
    with pytest.raises(Exception, match="there is no such group"):
        table(spark, daemon.bootstrap, "commits", groups="letf").collect()
