"""Spark queries and plain consumers in one group, against a real `musterd`: split, join, leave, crash."""

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.processes import spark_readers
from muster import Consumer, GroupMember, Producer, TopicPartition
from pyspark_muster.reports import progress
from pyspark_muster.session import drain
from tests.edges.background import Background
from tests.edges.musterd import Daemon, running, within
from tests.edges.streaming import started
from tests.edges.test_client import create, members_of

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(400)]

TOPIC, GROUP = "flights", "delays"
ALL = [TopicPartition(TOPIC, number) for number in range(4)]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
    with running(tmp_path / "data", *settings) as daemon:
        create(daemon, TOPIC, len(ALL))
        yield daemon


@pytest.fixture(autouse=True)
def _no_query_is_left(spark: SparkSession) -> Iterator[None]:
    """A test that fails leaves the session as it found it: its queries would take the slots of the next."""
    yield
    for query in spark.streams.active:
        query.stop()


class Sink:
    """Records with the member that read them, counted."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rows: Counter[tuple[int, int]] = Counter()
        self.by_member: Counter[str] = Counter()
        self.wrong: list[tuple[int, int]] = []

    def write(self, member: str, partition: int, offset: int, value: bytes | None) -> None:
        with self.lock:
            self.rows[partition, offset] += 1
            self.by_member[member] += 1
            if value != b"%d:%d" % (partition, offset):
                self.wrong.append((partition, offset))

    @property
    def repeats(self) -> int:
        return self.rows.total() - len(self.rows)


class Source(Background):
    """Writes to all partitions until told to stop; each value says where it must stand."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__()
        self.daemon = daemon
        self.ends = dict.fromkeys(range(len(ALL)), 0)

    def write(self, records: int) -> None:
        with Producer(self.daemon.bootstrap) as producer:
            for _ in range(records):
                self._one_each(producer)

    def _one_each(self, producer: Producer) -> None:
        for number, end in self.ends.items():
            producer.send(TOPIC, b"%d:%d" % (number, end), partition=number)
            self.ends[number] = end + 1

    def _run(self) -> None:
        with Producer(self.daemon.bootstrap, linger_ms=20) as producer:
            while not self._stopped.wait(0.02):
                for _ in range(5):
                    self._one_each(producer)

    @property
    def everything(self) -> set[tuple[int, int]]:
        return {(number, offset) for number, end in self.ends.items() for offset in range(end)}


class Query:
    """A streaming query that writes into the sink, with a checkpoint that outlives it."""

    def __init__(
        self, spark: SparkSession, daemon: Daemon, sink: Sink, folder: Path, name: str, **options: str
    ) -> None:
        self.options = options
        self.spark, self.daemon, self.sink, self.name = spark, daemon, sink, name
        self.drain_file = folder / f"{name}.drain"
        self.checkpoint = folder / f"{name}.checkpoint"
        self.query: StreamingQuery | None = None

    def stream(self) -> DataFrame:
        reader = self.spark.readStream.format("muster").option("bootstrap", self.daemon.bootstrap)
        reader = reader.option("group", GROUP).option("topics", TOPIC).option("clientId", self.name)
        reader = reader.option("sessionTimeoutMs", "3000").option("heartbeatIntervalMs", "500").options(**self.options)
        return reader.option("drainFile", str(self.drain_file)).load()

    def start(self, **trigger: bool) -> "Query":
        writer = self.stream().writeStream.foreachBatch(self.take).option("checkpointLocation", str(self.checkpoint))
        self.query = started((writer.trigger(availableNow=True) if trigger.get("available_now") else writer).start)
        return self

    def take(self, batch: DataFrame, _number: int) -> None:
        for partition, offset, value in batch.select("partition", "offset", "value").collect():
            self.sink.write(self.name, partition, offset, bytes(value))

    @property
    def running(self) -> StreamingQuery:
        assert self.query is not None
        return self.query

    def drain(self) -> None:
        drain(self.running, self.drain_file)


class Plain(Background):
    """A plain consumer, in a thread of the test."""

    def __init__(self, daemon: Daemon, sink: Sink, name: str) -> None:
        super().__init__()
        self.daemon, self.sink, self.name = daemon, sink, name

    def _run(self) -> None:
        with Consumer(
            self.daemon.bootstrap,
            GROUP,
            auto_offset_reset="earliest",
            session_timeout_ms=3_000,
            heartbeat_interval_ms=500,
            client_id=self.name,
        ) as consumer:
            consumer.subscribe([TOPIC])
            while not self._stopped.is_set():
                for record in consumer.poll(0.1):
                    self.sink.write(self.name, record.partition, record.offset, record.value)


def committed(daemon: Daemon, group: str = GROUP) -> dict[int, int | None]:
    with GroupMember(daemon.bootstrap, group, [TOPIC]) as asking:
        return {one.partition: offset for one, offset in asking.committed(ALL).items()}


def reads(sink: Sink, *names: str) -> bool:
    """Return whether each of these members reads something from now on."""
    before = Counter(sink.by_member)
    return within(60, lambda: all(sink.by_member[name] > before[name] for name in names))


def test_two_queries_and_a_plain_consumer_split_join_leave_and_crash_and_nothing_is_missing(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    sink = Sink()
    first = Query(spark, daemon, sink, tmp_path, "first")
    second = Query(spark, daemon, sink, tmp_path, "second")
    with Source(daemon) as source:
        first.start()
        assert reads(sink, "first")
        assert within(30, lambda: len(spark_readers()) == 1)  # now: the reader of a drained query ends after it
        (process,) = spark_readers()
        second.start()
        assert reads(sink, "first", "second")
        with Plain(daemon, sink, "plain"):
            assert within(30, lambda: members_of(daemon, GROUP) == 3)
            assert reads(sink, "first", "second", "plain")

            second.drain()
            assert within(10, lambda: members_of(daemon, GROUP) == 2)
            assert reads(sink, "first", "plain")
            assert sink.repeats == 0, "a graceful move repeats nothing"

            os.kill(process, signal.SIGKILL)
            assert within(30, lambda: not first.running.isActive)
            assert within(10, lambda: members_of(daemon, GROUP) == 1)
            assert reads(sink, "plain")

            first.start()
            assert within(30, lambda: members_of(daemon, GROUP) == 2)
            assert reads(sink, "first", "plain")
        assert reads(sink, "first")
    assert within(60, lambda: len(sink.rows) >= len(source.everything))
    first.drain()
    assert set(sink.rows) == source.everything
    assert not sink.wrong
    assert committed(daemon) == source.ends
    assert within(10, lambda: members_of(daemon, GROUP) == 0)
    print(f"{len(sink.rows)} records, {sink.repeats} of them twice; read by {dict(sink.by_member)}")


def test_a_run_with_available_now_reads_what_there_is_and_leaves(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    source, sink = Source(daemon), Sink()
    source.write(1_000)
    for _ in range(2):  # the second has nothing new, and ends too
        query = Query(spark, daemon, sink, tmp_path, "once").start(available_now=True)
        assert query.running.awaitTermination(60)
        assert query.running.exception() is None
        assert within(10, lambda: members_of(daemon, GROUP) == 0)
    assert set(sink.rows) == source.everything
    assert sink.repeats == 0
    assert committed(daemon) == source.ends


@pytest.mark.long
def test_a_full_refresh_reads_everything_once_more_whatever_the_group_has(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    source, sink = Source(daemon), Sink()
    for checkpoint, records in (("kept", 50), ("kept", 50), ("new", 0), ("new", 10)):
        source.write(records)
        query = Query(spark, daemon, sink, tmp_path, checkpoint, newCheckpoint="startingOffsets")
        assert query.start(available_now=True).running.awaitTermination(300)
        assert query.running.exception() is None
        assert within(10, lambda: members_of(daemon, GROUP) == 0)
    refreshed = {(partition, offset) for partition, offset in source.everything if offset < 100}
    assert sink.rows == Counter(dict.fromkeys(source.everything, 1)) + Counter(dict.fromkeys(refreshed, 1))
    assert committed(daemon) == source.ends


def test_stopping_a_query_leaves_the_group_long_before_its_session_would_end(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    source, sink = Source(daemon), Sink()
    source.write(10)
    stream = Query(spark, daemon, sink, tmp_path, "stopped").stream()
    assert stream.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    reader = spark.readStream.format("muster").option("bootstrap", daemon.bootstrap)
    reader = reader.option("group", GROUP).option("topics", TOPIC).option("sessionTimeoutMs", "60000")
    query = started(reader.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "noop")).start)
    assert within(30, lambda: members_of(daemon, GROUP) == 1)
    assert within(30, lambda: any(progress["numInputRows"] for progress in query.recentProgress))
    began = time.monotonic()
    query.stop()
    assert within(10, lambda: members_of(daemon, GROUP) == 0)
    assert time.monotonic() - began < 50, "its session lasts a minute"


def test_a_query_goes_on_when_the_daemon_dies_and_comes_back(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    source, sink = Source(daemon), Sink()
    source.write(100)
    query = Query(spark, daemon, sink, tmp_path, "survivor").start()
    assert reads(sink, "survivor")
    daemon.kill()
    time.sleep(1)
    daemon.start()
    source.write(100)
    assert within(60, lambda: len(sink.rows) >= len(source.everything))
    query.drain()
    assert set(sink.rows) == source.everything
    assert committed(daemon) == source.ends


@pytest.mark.long
def test_a_query_that_triggers_seldom_keeps_its_place_and_lets_others_in_between_its_batches(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    source, sink = Source(daemon), Sink()
    source.write(100)
    # The first batch of a session is slow, and may last longer than the member may be silent: let another one be first.
    assert spark.read.format("muster").option("bootstrap", daemon.bootstrap).option("subscribe", TOPIC).load().collect()
    seldom = Query(spark, daemon, sink, tmp_path, "seldom", maxPollIntervalMs="5000")
    writer = seldom.stream().writeStream.foreachBatch(seldom.take)
    writer = writer.option("checkpointLocation", str(seldom.checkpoint))
    seldom.query = started(writer.trigger(processingTime="15 seconds").start)
    assert reads(sink, "seldom")
    assert within(10, lambda: committed(daemon) == source.ends), "a finished batch is committed before the next trigger"
    assert within(10, lambda: progress(seldom.running))
    (before,) = progress(seldom.running)
    with Plain(daemon, sink, "plain"):
        assert within(10, lambda: members_of(daemon, GROUP) == 2)
        batches = len(seldom.running.recentProgress)
        source.write(100)
        assert reads(sink, "plain")
        assert len(seldom.running.recentProgress) <= batches + 1, "it need not wait for the next trigger"
        assert within(60, lambda: len(sink.rows) >= len(source.everything))
        (after,) = progress(seldom.running)
    seldom.drain()
    assert set(sink.rows) == source.everything
    assert sink.repeats == 0
    assert (before["state"], before["member"]) == ("reading", after["member"])


@pytest.mark.long
def test_a_query_that_keeps_state_in_a_shared_group_ends_with_the_reason(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    Source(daemon).write(100)
    for sole in ("false", "true"):
        stream = Query(spark, daemon, Sink(), tmp_path, "state", soleMember=sole, group=f"state-{sole}").stream()
        counts = stream.groupBy("partition").count()
        writer = counts.writeStream.format("noop").outputMode("complete")
        writer = writer.option("checkpointLocation", str(tmp_path / sole)).trigger(processingTime="1 second")
        query = started(writer.start)
        if sole == "true":
            assert within(60, lambda: committed(daemon, "state-true") == dict.fromkeys(range(len(ALL)), 100))
            query.stop()
            continue
        with pytest.raises(StreamingQueryException, match="keeps state"):
            query.awaitTermination(60)


def test_a_batch_is_read_without_a_group_by_the_options_of_sparks_own_source(
    spark: SparkSession, daemon: Daemon
) -> None:
    source = Source(daemon)
    source.write(100)
    reader = spark.read.format("muster").option("bootstrap", daemon.bootstrap)
    rows = reader.option("subscribe", TOPIC).option("minPartitions", "6").load().collect()
    assert {(row.partition, row.offset) for row in rows} == source.everything
    assert all(bytes(row.value) == b"%d:%d" % (row.partition, row.offset) for row in rows)
    reader = spark.read.format("muster").option("bootstrap", daemon.bootstrap)
    some = reader.option("assign", json.dumps({TOPIC: [1]})).option("startingOffsets", json.dumps({TOPIC: {"1": 40}}))
    some = some.option("endingOffsets", json.dumps({TOPIC: {"1": 42}}))
    assert [(row.partition, row.offset) for row in some.load().collect()] == [(1, 40), (1, 41)]
    assert members_of(daemon, GROUP) == 0


def test_a_wrong_option_is_refused_when_the_stream_is_loaded(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="'topic' is unknown; did you mean 'topics'"):
        spark.readStream.format("muster").option("topic", "flights").load()


def test_a_local_session_sends_its_tasks_over_unix_sockets(spark: SparkSession) -> None:
    """Over TCP each task would wait 40 ms for an acknowledgement."""
    told = spark.sparkContext.range(1).map(lambda _: os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED")).collect()
    assert told == ["True"]
