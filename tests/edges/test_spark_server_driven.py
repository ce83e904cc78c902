"""Spark queries in a group that musterd balances (KIP-848), with a stock client and one of ours."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer as StockConsumer
from pyspark.sql import SparkSession

from bench.processes import spark_readers
from muster import Consumer
from muster.blocking import ClusterClient
from protocol.messages.groups import ListGroups, ListGroupsReply
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


class Service:
    """A consumer in a thread of the test, ours or librdkafka's."""

    def __init__(self, daemon: Daemon, sink: Sink, name: str) -> None:
        self.daemon, self.sink, self.name = daemon, sink, name
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._ours if name == "ours" else self._stock, daemon=True)

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

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


def group_type(daemon: Daemon) -> str:
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(ListGroups())
    assert isinstance(reply, ListGroupsReply)
    return next(one.group_type for one in reply.groups if one.group_id == GROUP)


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
    assert within(PATIENCE_S, lambda: len(sink.rows) >= len(source.everything))
    second.drain()
    first.drain()
    assert set(sink.rows) == source.everything
    assert not sink.wrong
    assert within(PATIENCE_S, lambda: committed(daemon) == source.ends)
    print(f"{len(sink.rows)} records, {sink.repeats} of them twice; read by {dict(sink.by_member)}")


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
