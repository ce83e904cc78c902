"""Batches of Spark into a topic, in transactions with the sink's positions: each record once, whatever is repeated and
whoever comes late. Skipped without Kafka's jars."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import rand

from interop.committed import committed_records
from muster import Consumer, Producer, ProducerFenced, TopicPartition, TransactionFailed
from muster.errors import Refused
from protocol.errors import ErrorCode
from pyspark_muster.sinks import TopicSink
from tests.edges.transactional_kafka import PARTITIONS, committed_values

pytestmark = [pytest.mark.xdist_group("spark-2"), pytest.mark.long, pytest.mark.timeout(600)]


def rows(spark: SparkSession, name: str, first: int, end: int, partition: int = 0) -> DataFrame:
    """Rows of records with these offsets, of a topic's partition."""
    found = [(f"{name}-in", partition, offset, b"k", b"%04d" % offset, [("h", b"x")]) for offset in range(first, end)]
    columns = "topic string, partition int, offset bigint, key binary, value binary"
    return spark.createDataFrame(found, f"{columns}, headers array<struct<key:string,value:binary>>")


def values(first: int, end: int) -> list[bytes]:
    return [b"%04d" % offset for offset in range(first, end)]


def test_a_topic_has_each_record_once(spark: SparkSession, where: str, name: str) -> None:
    sink = TopicSink(where, f"{name}-out", sink=f"{name}-sink")
    sink.write(rows(spark, name, 0, 150), 0)
    sink.write(rows(spark, name, 0, 150), 0)  # Spark repeats the batch
    sink.write(rows(spark, name, 150, 150), 1)  # an empty one
    TopicSink(where, f"{name}-out", sink=f"{name}-sink").write(rows(spark, name, 70, 301), 0)  # another query
    assert committed_values(where, f"{name}-out", 301) == values(0, 301)
    with Consumer(where, f"{name}-sink") as consumer:
        place = TopicPartition(f"{name}-in", 0)
        assert consumer.committed([place])[place] == 301


def test_records_of_a_key_are_in_the_order_of_their_offsets(spark: SparkSession, where: str, name: str) -> None:
    sink = TopicSink(where, f"{name}-out", sink=f"{name}-sink")
    sink.write(rows(spark, name, 0, 300).orderBy(rand(seed=1)))
    found = committed_records(where.removeprefix("kafka://"), f"{name}-out", PARTITIONS)
    assert [one.value.encode() for one in found] == values(0, 300)


def test_a_driver_that_dies_between_the_records_and_the_commit_leaves_nothing(
    spark: SparkSession, where: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = TopicSink(where, f"{name}-out", sink=f"{name}-sink")

    def die(producer: Producer, timeout_s: float | None = None) -> None:
        producer.flush()
        raise RuntimeError("killed before the commit")

    def leave_nothing(producer: Producer, timeout_s: float | None) -> Iterator[None]:
        yield from ()

    with monkeypatch.context() as patched:
        patched.setattr(Producer, "commit", die)
        patched.setattr(Producer, "_leave_transaction", leave_nothing)
        with pytest.raises(RuntimeError, match="killed"):
            sink.write(rows(spark, name, 0, 50), 0)
    sink.write(rows(spark, name, 0, 80), 0)
    assert committed_values(where, f"{name}-out", 80) == values(0, 80)


def test_queries_that_write_at_once_with_one_sink_all_go_on(spark: SparkSession, where: str, name: str) -> None:
    """The last that begins fences the others, whose batches are written after its own."""
    sinks = [TopicSink(where, f"{name}-out", sink=f"{name}-sink") for _ in range(PARTITIONS)]

    def write(partition: int) -> None:
        for first in range(0, 60, 10):
            sinks[partition].write(rows(spark, name, first, first + 10, partition), first)

    with ThreadPoolExecutor(PARTITIONS) as queries:
        for done in [queries.submit(write, partition) for partition in range(PARTITIONS)]:
            done.result(300)
    assert committed_values(where, f"{name}-out", 60 * PARTITIONS) == sorted(values(0, 60) * PARTITIONS)


@pytest.mark.parametrize(
    ("error", "transaction_timeout_ms"),
    [
        (TransactionFailed(ErrorCode.MESSAGE_TOO_LARGE, "a record is too large"), 300_000),
        (ProducerFenced(ErrorCode.PRODUCER_FENCED, "the transaction took too long"), 0),
    ],
)
def test_what_another_try_does_not_mend_is_raised_at_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, error: Refused, transaction_timeout_ms: int
) -> None:
    tries = []

    def fail(*arguments: object) -> None:
        tries.append(arguments)
        raise error

    monkeypatch.setattr(TopicSink, "_write", fail)
    sink = TopicSink("kafka://127.0.0.1:1", "out", sink="sink", transaction_timeout_ms=transaction_timeout_ms)
    with pytest.raises(type(error), match="too"):
        sink.write(rows(spark, "x", 0, 3))
    assert len(tries) == 1


@pytest.mark.parametrize(
    "error",
    [
        ProducerFenced(ErrorCode.PRODUCER_FENCED, "another has begun"),
        TransactionFailed(ErrorCode.UNKNOWN_SERVER_ERROR, "another begins"),  # Apache Kafka 4.3.1 answers EndTxn so
    ],
)
def test_a_writer_that_another_supersedes_writes_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, error: Refused
) -> None:
    tries = []

    def fail_once(*arguments: object) -> None:
        tries.append(arguments)
        if len(tries) == 1:
            raise error

    monkeypatch.setattr(TopicSink, "_write", fail_once)
    TopicSink("kafka://127.0.0.1:1", "out", sink="sink").write(rows(spark, "x", 0, 3))
    assert len(tries) == 2


def test_a_batch_without_the_columns_is_refused(spark: SparkSession, where: str, name: str) -> None:
    sink = TopicSink(where, f"{name}-out", sink=f"{name}-sink")
    with pytest.raises(ValueError, match="the column value is missing"):
        sink.write(rows(spark, name, 0, 1).drop("value"))
    with pytest.raises(ValueError, match="offset"):
        sink.write(rows(spark, name, 0, 1).drop("offset"))
