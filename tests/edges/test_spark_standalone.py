"""A Spark stream without a group, against a real `musterd`: the checkpoint alone has its positions."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from muster import Producer
from tests.edges.musterd import Daemon, running
from tests.edges.streaming import started
from tests.edges.test_client import create

pytestmark = [pytest.mark.xdist_group("spark-2"), pytest.mark.long, pytest.mark.timeout(400)]


def write(daemon: Daemon, values: range) -> None:
    with Producer(daemon.bootstrap) as producer:
        for value in values:
            producer.send("flights", b"%d" % value, partition=value % 2)


def test_a_stream_without_a_group_reads_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    read: list[int] = []

    def take(batch: DataFrame, _number: int) -> None:
        read.extend(int(bytes(row[0])) for row in batch.select("value").collect())

    def run(daemon: Daemon) -> None:
        stream = spark.readStream.format("muster").option("bootstrap", daemon.bootstrap)
        stream = stream.option("subscribe", "flights").option("startingOffsets", '{"flights": {"0": -2, "1": 1}}')
        writer = stream.load().writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = started(writer.trigger(availableNow=True).start)
        assert query.awaitTermination(60)
        assert query.exception() is None

    with running(tmp_path / "data") as daemon:
        create(daemon, "flights", 2)
        write(daemon, range(6))
        run(daemon)
        assert sorted(read) == [0, 2, 3, 4, 5]
        write(daemon, range(6, 10))
        run(daemon)
        assert sorted(read) == [0, 2, 3, 4, 5, 6, 7, 8, 9]
