"""A Parquet table with a manifest under Spark: each record once, whatever a query repeats."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from muster import Producer
from pyspark_muster.sinks import ParquetSink, read_parquet
from tests.edges.musterd import running
from tests.edges.streaming import started
from tests.edges.test_client import create

pytestmark = [pytest.mark.xdist_group("spark-2"), pytest.mark.long, pytest.mark.timeout(400)]


def rows(spark: SparkSession, first: int, end: int) -> DataFrame:
    columns = "'flights' topic, cast(id % 2 as int) partition, id offset, cast(id as string) value"
    return spark.range(first, end, 1, 2).selectExpr(*columns.split(", "))


def test_a_table_has_each_record_once(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    sink = ParquetSink(path)
    sink.write(rows(spark, 0, 10), 0)
    sink.write(rows(spark, 0, 10), 0)  # Spark repeats the batch
    sink.write(rows(spark, 10, 10), 1)  # an empty one
    ParquetSink(path).write(rows(spark, 5, 20), 0)  # another query, that began at an older offset
    table = read_parquet(spark, path)
    assert sorted(int(row.value) for row in table.collect()) == list(range(20))
    assert len(list((tmp_path / "table" / "data").iterdir())) == 2
    with pytest.raises(ValueError, match="the columns topic, partition are missing"):
        sink.write(spark.range(3).withColumnRenamed("id", "offset"), 2)
    with pytest.raises(ValueError, match="has no commit"):
        read_parquet(spark, str(tmp_path))


@pytest.mark.parametrize("name", ["my orders", "a%20b", "Aufträge", "[2026]{1,2}*?", "a\\b"])
def test_a_table_may_have_any_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    ParquetSink(path).write(rows(spark, 0, 10))
    assert read_parquet(spark, path).count() == 10


def test_a_query_that_dies_between_the_table_and_sparks_log_repeats_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = ParquetSink(str(tmp_path / "table"))

    def die(batch: DataFrame, number: int) -> None:
        sink.write(batch, number)
        raise RuntimeError("killed after the table's commit")

    with running(tmp_path / "data", "group.initial.rebalance.delay.ms=0") as daemon:
        create(daemon, "flights", 2)
        with Producer(daemon.bootstrap) as producer:
            for number in range(20):
                producer.send("flights", b"%d" % number, partition=number % 2)
        stream = spark.readStream.format("muster").option("bootstrap", daemon.bootstrap).option("group", "tables")
        stream = stream.option("topics", "flights").option("maxRecordsPerBatch", "10")

        def run(take: Any, checkpoint: str) -> None:
            writer = (
                stream.load().writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / checkpoint))
            )
            query = started(writer.trigger(availableNow=True).start)
            assert query.awaitTermination(60)

        with pytest.raises(Exception, match="killed after the table's commit"):
            run(die, "checkpoint")
        run(sink.write, "lost")  # the group has no offset of what the table has, and the checkpoint is gone
    table = read_parquet(spark, str(tmp_path / "table"))
    assert sorted(int(bytes(row.value)) for row in table.collect()) == list(range(20))
