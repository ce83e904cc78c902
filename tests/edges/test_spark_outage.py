"""Spark queries whose servers are away: one reads at a `musterd` alone, the other at a broker that a `musterd` stands
beside. TEST_OUTAGE_S=120 has both away for two minutes, at the source's own timeouts."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from muster import Producer
from pyspark_muster.reports import progress
from tests.edges.musterd import Daemon, free_port, running, within
from tests.edges.streaming import started
from tests.edges.test_client import create

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.long, pytest.mark.timeout(800)]

OUTAGE_S = float(os.environ.get("TEST_OUTAGE_S", "0"))
QUICK = {} if OUTAGE_S else {"assignmentTimeoutMs": "1000"}
"""Progress tells of an outage after this time; with the default, a minute."""
TOPIC, PARTITIONS = "orders", 2
DELAY = "group.initial.rebalance.delay.ms=0"


@pytest.fixture(autouse=True)
def _no_query_is_left(spark: SparkSession) -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()


class Stream:
    """A query and the offsets of what it has read, in order."""

    def __init__(self, spark: SparkSession, daemon: Daemon, folder: Path) -> None:
        self._daemon = daemon
        self.written = 0
        self.rows: list[tuple[int, int]] = []
        create(daemon, TOPIC, PARTITIONS)
        self.write()
        stream = spark.readStream.format("muster").options(
            bootstrap=daemon.bootstrap, group="reports", topics=TOPIC, **QUICK
        )
        writer = stream.load().writeStream.foreachBatch(self._take).option("checkpointLocation", str(folder))
        self._query: StreamingQuery = started(writer.start)

    def write(self) -> None:
        with Producer(self._daemon.bootstrap) as producer:
            for number in range(100):
                producer.send(TOPIC, b"an order", partition=number % PARTITIONS)
        self.written += 100

    def _take(self, batch: DataFrame, _number: int) -> None:
        self.rows += [(row.partition, row.offset) for row in batch.select("partition", "offset").collect()]

    def has_all(self) -> bool:
        assert self._query.isActive, self._query.exception()
        return len(self.rows) >= self.written

    def states(self) -> str:
        assert self._query.isActive, self._query.exception()
        return "; ".join(told["state"] for told in progress(self._query))

    def stop(self) -> None:
        self._query.stop()


def test_queries_go_on_after_minutes_without_musterd_and_without_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    settings = (DELAY, "upstream.refresh.ms=200", f"upstream.listener.ports={free_port()}")
    with running(tmp_path / "alone", DELAY) as alone, running(tmp_path / "broker", with_kafka=True) as broker:
        upstream = f"upstream.servers=127.0.0.1:{broker.kafka_port}"
        with running(tmp_path / "front", *settings, upstream, with_kafka=True) as front:
            here = Stream(spark, alone, tmp_path / "here")
            beside = Stream(spark, front, tmp_path / "beside")
            assert within(60, lambda: here.has_all() and beside.has_all())
            lost = (alone, broker)
            for daemon in lost:
                daemon.kill()
            ends_s = time.monotonic() + OUTAGE_S
            for stream in (here, beside):
                assert within(OUTAGE_S + 60, lambda stream=stream: "no answer for" in stream.states())
            time.sleep(max(0.0, ends_s - time.monotonic()))
            print(f"alone: {here.states()}; beside a broker: {beside.states()}")
            for daemon in lost:
                daemon.start()
            for stream in (here, beside):
                stream.write()
            assert within(60, lambda: here.has_all() and beside.has_all())
            for stream in (here, beside):
                stream.stop()
                assert len(set(stream.rows)) == len(stream.rows) == stream.written
