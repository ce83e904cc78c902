"""Spark queries in a group that musterd balances (KIP-848), with a stock client or Java's own, and one of ours."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer as StockConsumer
from pyspark.sql import SparkSession

from bench.processes import spark_readers
from interop import rows
from interop.processes import Crowd, Failed, Program
from muster import Consumer
from muster.blocking import ClusterClient
from protocol.messages.consumer_groups import ConsumerGroupDescribe, ConsumerGroupDescribeReply, DescribedConsumer
from protocol.messages.groups import ListGroups, ListGroupsReply
from tests.edges.background import Background
from tests.edges.musterd import Daemon, running, within
from tests.edges.test_client import create, members_of
from tests.edges.test_spark import (
    ALL,
    GROUP,
    TOPIC,
    Query,
    Sink,
    Source,
    committed,
    reads,
)

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.long, pytest.mark.timeout(600)]

SETTINGS = (
    "group.coordinator.rebalance.protocols=classic,consumer",
    "group.consumer.min.heartbeat.interval.ms=1",
    "group.consumer.heartbeat.interval.ms=300",
    "group.consumer.min.session.timeout.ms=1",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.assignment.interval.ms=0",
)
PATIENCE_S = 120.0


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path / "data", *SETTINGS, with_kafka=True) as daemon:
        create(daemon, TOPIC, len(ALL))
        yield daemon


@pytest.fixture(autouse=True)
def _no_query_is_left(spark: SparkSession) -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()


class Service(Background):
    """A consumer in a thread of the test, ours or librdkafka's."""

    def __init__(self, daemon: Daemon, sink: Sink, name: str) -> None:
        super().__init__()
        self.daemon, self.sink, self.name = daemon, sink, name

    def _run(self) -> None:
        if self.name == "ours":
            self._ours()
        else:
            self._stock()

    def _ours(self) -> None:
        with Consumer(
            self.daemon.bootstrap, GROUP, auto_offset_reset="earliest", group_protocol="consumer", client_id=self.name
        ) as consumer:
            consumer.subscribe([TOPIC])
            while not self._stopped.is_set():
                for record in consumer.poll(0.1):
                    self.sink.write(self.name, record.partition, record.offset, record.value)

    def _stock(self) -> None:
        consumer = StockConsumer(
            {
                "bootstrap.servers": f"127.0.0.1:{self.daemon.kafka_port}",
                "group.id": GROUP,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "client.id": self.name,
            }
        )
        consumer.subscribe([TOPIC])
        while not self._stopped.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                self.sink.write(self.name, partition, offset, message.value())
        consumer.close()


@pytest.fixture(scope="module")
def java_program() -> Program:
    """The member that `python -m interop.consumer java` runs: kafka-clients of Maven, a program of a few lines."""
    try:
        return rows.program("java")
    except Failed as why:
        pytest.skip(str(why))


class Java(Background):
    """Java's consumer in a process of its own, started again at will. All that it read goes into the sink."""

    def __init__(self, daemon: Daemon, sink: Sink, program: Program, logs: Path) -> None:
        super().__init__()
        self.daemon, self.sink, self.program = daemon, sink, program
        self.crowd = Crowd(logs)
        self._poured: Counter[str] = Counter()

    def start(self) -> None:
        arguments = ["--bootstrap", f"127.0.0.1:{self.daemon.kafka_port}", "--topic", TOPIC, "--group", GROUP]
        self.crowd.start(self.program, [*arguments, "--protocol", "consumer", "--commit"])

    def stop(self) -> None:
        """It commits and leaves."""
        self.crowd.members[-1].stop(PATIENCE_S)

    def kill(self) -> None:
        self.crowd.members[-1].kill()

    @property
    def owned(self) -> frozenset[int]:
        return self.crowd.members[-1].owned

    def read(self) -> set[tuple[int, int]]:
        """Return the records of the member that was started last."""
        return {(record.partition, record.offset) for record in self.crowd.members[-1].records}

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._stopped.wait(0.02)
            for member in tuple(self.crowd.members):
                for record in member.records[self._poured[member.name] :]:
                    self.sink.write("java", record.partition, record.offset, record.value.encode())
                    self._poured[member.name] += 1

    def __exit__(self, *exception: object) -> None:
        self.crowd.end()
        super().__exit__(*exception)


class Owners(Background):
    """Describes the group again and again: a partition that two members own is noted."""

    def __init__(self, daemon: Daemon) -> None:
        super().__init__()
        self.daemon = daemon
        self.looks = 0
        self.doubled: list[list[frozenset[int]]] = []

    def _run(self) -> None:
        while not self._stopped.wait(0.02):
            shares = list(self.shares().values())
            self.looks += 1
            if sum(map(len, shares)) > len(frozenset().union(*shares)):
                self.doubled.append(shares)

    def shares(self) -> dict[str, frozenset[int]]:
        """The partitions of each member, by its id, with those that it has yet to revoke."""
        with ClusterClient(self.daemon.bootstrap) as connection:
            reply = connection.ask(ConsumerGroupDescribe((GROUP,)))
        assert isinstance(reply, ConsumerGroupDescribeReply)
        return {member.member_id: share(member) for member in reply.groups[0].members}

    def are(self, java: frozenset[int] | None, count: int) -> bool:
        """Return whether these many members own one partition each, and one of them what Java's says it owns."""
        shares = list(self.shares().values())
        is_whole = sorted(number for one in shares for number in one) == list(range(len(ALL)))
        return is_whole and len(shares) == count and all(shares) and (java is None or java in shares)


def share(member: DescribedConsumer) -> frozenset[int]:
    return frozenset(number for topic in member.assignment.topic_partitions for number in topic.partitions)


def group_type(daemon: Daemon) -> str:
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(ListGroups())
    assert isinstance(reply, ListGroupsReply)
    return next(one.group_type for one in reply.groups if one.group_id == GROUP)


def _drain_when_all_is_read(sink: Sink, source: Source, *queries: Query) -> None:
    assert within(PATIENCE_S, lambda: len(sink.rows) >= len(source.everything))
    for query in queries:
        query.drain()
    assert set(sink.rows) == source.everything
    assert not sink.wrong


def test_two_queries_a_stock_client_and_ours_share_a_group_and_nothing_is_missing(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    sink = Sink()
    first = Query(spark, daemon, sink, tmp_path, "first", groupProtocol="consumer")
    second = Query(spark, daemon, sink, tmp_path, "second", groupProtocol="auto")

    def has(count: int) -> bool:
        return within(PATIENCE_S, lambda: members_of(daemon, GROUP) == count)

    with Source(daemon) as source:
        first.start()
        assert reads(sink, "first")
        assert within(PATIENCE_S, lambda: len(spark_readers()) == 1)
        (process,) = spark_readers()
        with Service(daemon, sink, "stock"), Service(daemon, sink, "ours"):
            second.start()
            assert has(4)
            assert group_type(daemon) == "consumer"
            assert reads(sink, "first", "second", "stock", "ours")

            second.drain()
            assert has(3)
            assert reads(sink, "first", "stock", "ours")

            os.kill(process, signal.SIGKILL)
            assert within(PATIENCE_S, lambda: not first.running.isActive)
            assert has(2)
            assert reads(sink, "stock", "ours")

            first.start()
            second.start()
            assert has(4)
            assert reads(sink, "first", "second", "stock", "ours")
        assert has(2)
        assert reads(sink, "first", "second")
    _drain_when_all_is_read(sink, source, second, first)
    assert within(PATIENCE_S, lambda: committed(daemon) == source.ends)
    print(f"{len(sink.rows)} records, {sink.repeats} of them twice; read by {dict(sink.by_member)}")


def test_two_queries_a_java_consumer_and_ours_share_a_group_and_nothing_is_missing(
    spark: SparkSession, daemon: Daemon, tmp_path: Path, java_program: Program
) -> None:
    sink = Sink()
    first = Query(spark, daemon, sink, tmp_path, "first", groupProtocol="consumer")
    second = Query(spark, daemon, sink, tmp_path, "second", groupProtocol="auto")
    java, owners = Java(daemon, sink, java_program, tmp_path), Owners(daemon)
    everyone = ("first", "second", "java", "ours")

    def all_four_share() -> bool:
        return within(PATIENCE_S, lambda: bool(java.owned) and owners.are(java.owned, 4)) and reads(sink, *everyone)

    def three_share(*names: str) -> bool:
        return within(PATIENCE_S, lambda: owners.are(None, 3)) and reads(sink, *names)

    with Source(daemon) as source, java, owners:
        first.start()
        java.start()
        assert reads(sink, "first", "java")
        with Service(daemon, sink, "ours"):
            second.start()
            assert all_four_share()
            assert group_type(daemon) == "consumer"

            java.stop()
            assert three_share("first", "second", "ours")
            java.start()
            assert all_four_share()

            second.drain()
            assert three_share("first", "java", "ours")
            assert sink.repeats == 0, "a graceful move repeats nothing"
            second.start()
            assert all_four_share()

            java.kill()
            uncommitted = java.read()
            assert three_share("first", "second", "ours")
            java.start()
            assert all_four_share()
        assert three_share("first", "second", "java")
        java.stop()
        assert reads(sink, "first", "second")
    _drain_when_all_is_read(sink, source, second, first)
    assert not owners.doubled
    assert {place for place, times in sink.rows.items() if times > 1} <= uncommitted, "only what the killed one had"
    assert within(PATIENCE_S, lambda: committed(daemon) == source.ends)
    print(f"{len(sink.rows)} records, {sink.repeats} of them twice; read by {dict(sink.by_member)}", end="; ")
    print(f"{owners.looks} looks at the group's owners")


def test_a_run_with_available_now_reads_what_there_is_and_leaves(
    spark: SparkSession, daemon: Daemon, tmp_path: Path
) -> None:
    source, sink = Source(daemon), Sink()
    source.write(500)
    for _ in range(2):  # the second has nothing new, and ends too
        query = Query(spark, daemon, sink, tmp_path, "once", groupProtocol="consumer").start(available_now=True)
        assert query.running.awaitTermination(int(PATIENCE_S))
        assert query.running.exception() is None
        assert within(PATIENCE_S, lambda: members_of(daemon, GROUP) == 0)
    assert set(sink.rows) == source.everything
    assert sink.repeats == 0
    assert committed(daemon) == source.ends
