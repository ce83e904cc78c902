"""Tables of PostgreSQL and SQLite under Spark: each record once, whatever a query repeats and whoever comes late."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from muster import Producer, TopicPartition
from pyspark_muster import reader as reader_module
from pyspark_muster.control import Finished, send_finished
from pyspark_muster.sinks import DatabaseSink
from pyspark_muster.sinks.bounds import Bounds
from pyspark_muster.sinks.marks import DbConnection
from tests.edges.musterd import Daemon, running, within
from tests.edges.postgres import postgres, programs
from tests.edges.streaming import started
from tests.edges.test_client import create, members_of
from tests.edges.test_spark_reader import Query, query
from tests.spark.random_writers import P0, P1, overtake_at_random
from tests.spark.table_writers import Table

pytestmark = [pytest.mark.xdist_group("spark-2"), pytest.mark.long, pytest.mark.timeout(600)]

TOPIC, GROUP = "flights", "tables"
needs_postgres = pytest.mark.skipif(
    programs() is None or find_spec("psycopg") is None, reason="needs a PostgreSQL server's programs and psycopg"
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres() as address:
        yield address


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], DbConnection]:
    """Return what connects to a database without tables."""
    if request.param == "sqlite":
        path = str(tmp_path / "tables.db")
        return lambda: sqlite3.connect(path, timeout=60)
    import psycopg

    address = request.getfixturevalue("server")
    with psycopg.connect(address) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return lambda: psycopg.connect(address)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers have a process of their own under Spark."""
    monkeypatch.setattr(reader_module, "_leave_on_sigterm", lambda: None)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
    with running(tmp_path / "musterd", *settings) as daemon:
        create(daemon, TOPIC, 2)
        yield daemon


def ask(connect: Callable[[], DbConnection], sql: str) -> list[Any]:
    with closing(connect()) as connection:
        cursor = connection.cursor()
        cursor.execute(sql)
        rows = cursor.fetchall() if cursor.description else []
        connection.commit()
    return rows


def write(daemon: Daemon, first: int, end: int) -> None:
    with Producer(daemon.bootstrap) as producer:
        for number in range(first, end):
            producer.send(TOPIC, b"%d" % number, partition=number % 2)


def rows(spark: SparkSession, first: int, end: int) -> DataFrame:
    columns = "'flights' topic, cast(id % 2 as int) partition, id offset, cast(id as string) `100%`"
    return spark.range(first, end, 1, 2).selectExpr(*columns.split(", "))


TABLE = 'CREATE TABLE flown (topic TEXT, "partition" INTEGER, "offset" BIGINT, "100%" TEXT)'


def test_a_table_has_each_record_once(spark: SparkSession, connect: Callable[[], DbConnection]) -> None:
    ask(connect, TABLE)
    sink = DatabaseSink(connect, "flown")
    sink.write(rows(spark, 0, 1_500), 0)
    sink.write(rows(spark, 0, 1_500), 0)  # Spark repeats the batch
    sink.write(rows(spark, 1_500, 1_500), 1)  # an empty one
    DatabaseSink(connect, "flown").write(rows(spark, 700, 3_001), 0)  # another query, that began at an older offset
    assert sorted(ask(connect, 'SELECT "offset", "100%" FROM flown')) == [(one, str(one)) for one in range(3_001)]
    assert sorted(ask(connect, "SELECT * FROM muster_marks")) == [
        ("flown", "flights", 0, 3_001),
        ("flown", "flights", 1, 3_000),
    ]


def test_timestamps_are_in_utc(
    spark: SparkSession, connect: Callable[[], DbConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(connect, 'CREATE TABLE flown (topic TEXT, "partition" INTEGER, "offset" BIGINT, at TIMESTAMP WITH TIME ZONE)')
    at = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    batch = spark.sql(f"SELECT 'flights' topic, 0 partition, 0L offset, timestamp_seconds({int(at.timestamp())}) at")
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        DatabaseSink(connect, "flown").write(batch)
    time.tzset()
    ((found,),) = ask(connect, "SELECT at FROM flown")
    assert (datetime.fromisoformat(found) if isinstance(found, str) else found) == at


def test_rows_may_be_inserted_in_another_way_in_the_same_transaction(
    spark: SparkSession, connect: Callable[[], DbConnection]
) -> None:
    ask(connect, "CREATE TABLE counted (part INTEGER PRIMARY KEY, records BIGINT)")
    is_failing = True

    def count(connection: DbConnection, batch: DataFrame) -> None:
        cursor = connection.cursor()
        for part, records in batch.groupBy("partition").count().collect():
            cursor.execute(
                f"INSERT INTO counted VALUES ({part}, {records})"
                f" ON CONFLICT (part) DO UPDATE SET records = counted.records + {records}"
            )
        if is_failing:
            raise OSError("the network")

    sink = DatabaseSink(connect, "counted", insert=count, marks="marks")
    with pytest.raises(OSError, match="the network"):
        sink.write(rows(spark, 0, 10))
    is_failing = False
    for first, end in ((0, 10), (0, 10), (5, 20)):
        sink.write(rows(spark, first, end))
    assert sorted(ask(connect, "SELECT part, records FROM counted")) == [(0, 10), (1, 10)]


def test_rows_that_do_not_say_which_record_they_came_from_are_refused(spark: SparkSession) -> None:
    sink = DatabaseSink(lambda: sqlite3.connect(":memory:"), "flown")
    with pytest.raises(ValueError, match="the columns topic, partition are missing"):
        sink.write(spark.range(3).withColumnRenamed("id", "offset"))


def test_whoever_writes_when_each_record_is_there_once(connect: Callable[[], DbConnection]) -> None:
    overtake_at_random(Table(connect), 0)


def test_of_writers_at_the_same_time_each_adds_what_the_others_have_not(connect: Callable[[], DbConnection]) -> None:
    table = Table(connect)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for first in range(0, 100, 5 + number):
                table.add(dict.fromkeys((P0, P1), (first, first + 10 + number)))
        except BaseException as failure:  # noqa: BLE001  (raised by the test)
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert table.has_once(table.positions)


def stream(spark: SparkSession, daemon: Daemon, **options: str) -> DataFrame:
    reader = spark.readStream.format("muster").option("bootstrap", daemon.bootstrap).option("group", GROUP)
    return reader.option("topics", TOPIC).options(**options).load().selectExpr("*", "cast(value as string) number")


COLUMNS = ("topic", "partition", "offset", "number")


def test_a_query_that_dies_between_the_transaction_and_sparks_log_repeats_nothing(
    spark: SparkSession, daemon: Daemon, connect: Callable[[], DbConnection], tmp_path: Path
) -> None:
    ask(connect, 'CREATE TABLE flown (topic TEXT, "partition" INTEGER, "offset" BIGINT, number TEXT)')
    sink = DatabaseSink(connect, "flown")

    def die(batch: DataFrame, number: int) -> None:
        sink.write(batch.select(*COLUMNS), number)
        raise RuntimeError("killed after the transaction")

    def run(take: Any, checkpoint: str) -> None:
        source = stream(spark, daemon, maxRecordsPerBatch="10").select(*COLUMNS)
        writer = source.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / checkpoint))
        started(writer.trigger(availableNow=True).start).awaitTermination()

    write(daemon, 0, 20)
    with pytest.raises(Exception, match="killed after the transaction"):
        run(die, "checkpoint")
    run(sink.write, "lost")  # the group has no offset of what the table has, and the checkpoint is gone
    assert sorted(int(number) for (number,) in ask(connect, "SELECT number FROM flown")) == list(range(20))


def test_a_batch_held_past_the_poll_interval_is_refused_and_its_query_goes_on(
    daemon: Daemon, connect: Callable[[], DbConnection], in_this_process: None
) -> None:
    """A driver that stood still for too long is a zombie: it does not know that another has done its work."""
    table = Table(connect)
    ends = {TopicPartition(TOPIC, 0): 40, TopicPartition(TOPIC, 1): 40}
    write(daemon, 0, 40)
    with query(daemon, GROUP, TOPIC, maxPollIntervalMs="300") as late, query(daemon, GROUP, TOPIC) as other:
        assert late.batch() == 40  # read, and not written yet
        assert within(30, lambda: members_of(daemon, GROUP) == 0)
        assert other.batch() == 40
        assert table.add(bounds(other.rows))
        assert not table.add(bounds(late.rows)), "refused"
        assert table.inserts == 1, "and before it wrote"
        write(daemon, 40, 80)

        def go_on(one: Query) -> int:
            send_finished(one.report["control"], Finished(one.offset["seq"]))
            before = len(one.rows)
            one.batch()
            table.add(bounds(one.rows[before:]))
            return len(one.rows) - before

        assert within(60, lambda: go_on(late) + go_on(other) >= 0 and table.has_once(ends))
        # Its session ends again whenever it stands still for longer than the poll interval.
        assert within(60, lambda: go_on(late) >= 0 and bool(late.report["member"]))


def bounds(rows: list[tuple[str, int, int, bytes]]) -> Bounds:
    found: dict[TopicPartition, tuple[int, int]] = {}
    for topic, partition, offset, _ in rows:
        one = TopicPartition(topic, partition)
        first, last = found.get(one, (offset, offset))
        found[one] = (min(first, offset), max(last, offset))
    return found
