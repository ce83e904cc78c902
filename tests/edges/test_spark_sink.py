"""The sink `format("muster")` under Spark, against a real `musterd`: what is written is what is read."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.edges.musterd import Daemon, running
from tests.edges.streaming import started
from tests.edges.test_client import create

pytestmark = [pytest.mark.xdist_group("spark-2"), pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path / "data", "group.initial.rebalance.delay.ms=0") as daemon:
        for topic in ("flights", "copies"):
            create(daemon, topic, 2)
        yield daemon


def read(spark: SparkSession, daemon: Daemon, topic: str) -> list[tuple[object, ...]]:
    rows = spark.read.format("muster").option("bootstrap", daemon.bootstrap).option("topics", topic)
    columns = rows.option("includeHeaders", "true").load().select("partition", "key", "value", "headers")
    return sorted((row[0], row[1], row[2], tuple(map(tuple, row[3] or ()))) for row in columns.collect())


def test_a_batch_and_a_stream_write_what_they_are_given(spark: SparkSession, daemon: Daemon, tmp_path: Path) -> None:
    rows = spark.sql(
        "select 'flights' topic, cast(id % 2 as int) partition, concat('k', id) key, cast(id as string) value,"
        " array(named_struct('key', 'h', 'value', cast('x' as binary))) headers from range(6)"
    )
    rows.write.format("muster").option("bootstrap", daemon.bootstrap).mode("append").save()
    expected = sorted((n % 2, b"k%d" % n, b"%d" % n, (("h", b"x"),)) for n in range(6))
    assert read(spark, daemon, "flights") == expected
    stream = spark.readStream.format("muster").option("bootstrap", daemon.bootstrap).option("group", "copiers")
    copied = stream.option("topics", "flights").option("includeHeaders", "true").load()
    copy = copied.writeStream.format("muster").option("bootstrap", daemon.bootstrap).option("topic", "copies")
    copy = copy.option("checkpointLocation", str(tmp_path / "checkpoint")).queryName("copy")
    started(copy.trigger(availableNow=True).start).awaitTermination(60)
    assert read(spark, daemon, "copies") == expected


def test_what_cannot_be_written_is_refused_by_name(spark: SparkSession, daemon: Daemon) -> None:
    sink = spark.range(3).selectExpr("id value").write.format("muster").option("bootstrap", daemon.bootstrap)
    with pytest.raises(Exception, match="the column 'value' is of type bigint"):
        sink.option("topic", "flights").mode("append").save()
    rows = spark.sql("select 'x' value, cast(7 as int) partition").write.format("muster")
    with pytest.raises(Exception, match="7"):
        rows.option("bootstrap", daemon.bootstrap).option("topic", "flights").mode("append").save()
    with pytest.raises(Exception, match="'overwrite' is not possible"):
        rows.option("bootstrap", daemon.bootstrap).option("topic", "flights").mode("overwrite").save()
