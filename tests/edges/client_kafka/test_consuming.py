"""Consumers of applications over Kafka's protocol: positions, records, commits, topics."""

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer as Confluent

from muster import (
    CannotDeserialize,
    Consumer,
    ConsumerRecord,
    MusterError,
    NoOffset,
    OffsetOutOfRange,
    Producer,
    Refused,
    TopicPartition,
    WokenUp,
)
from muster.blocking import ClusterClient
from protocol.messages.topics import (
    CreatePartitions,
    CreatePartitionsReply,
    DeletableTopic,
    DeleteTopics,
    GrowingTopic,
)
from tests.edges.client_kafka.conftest import ConsumerFactory, Where, make_topic, poll_until
from tests.edges.musterd import within


def numbers(*of: int) -> list[bytes]:
    return [b"%d" % number for number in range(*of)]


def produce(where: Where, topic: str, *of: int, partition: int | None = None) -> None:
    with Producer(where.kafka) as producer:
        for value in numbers(*of):
            producer.send(topic, value, key=value, partition=partition)


def read(consumer: Consumer, count: int, seconds: float = 20.0) -> list[ConsumerRecord]:
    """So many, and no more in the polls that they took."""
    records: list[ConsumerRecord] = []

    def is_enough() -> bool:
        records.extend(consumer.poll(0.05))
        return len(records) >= count

    assert within(seconds, is_enough, every_s=0), f"{len(records)} of {count}"
    assert len(records) == count
    return records


@pytest.fixture
def by_hand(where: Where) -> Iterator[Consumer]:
    with Consumer(where.kafka, auto_offset_reset="earliest") as consumer:
        yield consumer


# ------------------------------------------------------------------------------------------------------------- places


def test_partitions_by_hand_are_read_sought_paused_and_measured(where: Where, topic: str, by_hand: Consumer) -> None:
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(where, topic, 10, partition=0)
    produce(where, topic, 10, partition=1)
    by_hand.assign([zero, one])
    assert by_hand.position(zero) == 0
    assert len(read(by_hand, 20)) == 20
    assert by_hand.current_lag(zero) == 0
    by_hand.pause(one)
    by_hand.seek(zero, 8)
    by_hand.seek(one, 5)
    assert [record.value for record in read(by_hand, 2)] == numbers(8, 10)
    assert by_hand.paused == (one,)
    by_hand.resume(one)
    assert [record.offset for record in read(by_hand, 5)] == [5, 6, 7, 8, 9]
    by_hand.seek_to_beginning(one)
    assert by_hand.position(one) == 0
    by_hand.seek_to_end(one)
    assert by_hand.position(one) == 10


def test_a_place_beyond_the_end_begins_anew_or_is_an_error(where: Where, topic: str, by_hand: Consumer) -> None:
    zero = TopicPartition(topic, 0)
    produce(where, topic, 3, partition=0)
    by_hand.assign([zero])
    by_hand.seek(zero, 100)
    assert [record.offset for record in read(by_hand, 3)] == [0, 1, 2]
    with Consumer(where.kafka, auto_offset_reset="none") as strict:
        strict.assign([zero])
        strict.seek(zero, 100)
        with pytest.raises(OffsetOutOfRange) as raised:
            read(strict, 1)
        assert (raised.value.partition, raised.value.position) == (zero, 100)
        strict.seek(zero, 2)
        assert [record.offset for record in read(strict, 1)] == [2]


def test_without_a_committed_offset_the_policy_says_where_to_begin(where: Where, topic: str, name: str) -> None:
    zero = TopicPartition(topic, 0)
    produce(where, topic, 5, partition=0)
    with Consumer(where.kafka, name, auto_offset_reset="none") as strict:
        strict.assign([zero])
        with pytest.raises(NoOffset):
            read(strict, 1)
    with Consumer(where.kafka, name, auto_offset_reset="latest") as late:
        late.assign([zero])
        assert late.position(zero) == 5
        produce(where, topic, 5, 6, partition=0)
        assert [record.value for record in read(late, 1)] == [b"5"]


def test_a_record_larger_than_a_fetch_is_read_all_the_same(where: Where, topic: str) -> None:
    """KIP-74: else the consumer stood there for ever."""
    large = bytes(200_000)
    with Producer(where.kafka) as producer:
        for value in (b"a", large, b"b"):
            producer.send(topic, value, partition=0)
            producer.flush()
    with Consumer(
        where.kafka, auto_offset_reset="earliest", max_partition_fetch_bytes=1_000, fetch_max_bytes=2_000
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [record.value for record in read(consumer, 3)] == [b"a", large, b"b"]


# ------------------------------------------------------------------------------------------------------------ records


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_librdkafka_writes_is_read_as_it_was_written(
    where: Where, topic: str, by_hand: Consumer, compression: str
) -> None:
    theirs = Confluent(
        {
            "bootstrap.servers": where.kafka.removeprefix("kafka://"),
            "compression.type": compression,
            "linger.ms": 50,
        }
    )
    for number in range(50):
        theirs.produce(
            topic,
            key=None if number % 2 else b"key",
            value=None if number == 7 else b"%d" % number * 20,
            partition=3,
            timestamp=1_700_000_000_000 + number,
            headers=[("a", b"1"), ("a", None)],
        )
    assert theirs.flush(20) == 0
    by_hand.assign([TopicPartition(topic, 3)])
    records = read(by_hand, 50)
    assert [record.offset for record in records] == list(range(50))
    assert [record.key for record in records[:2]] == [b"key", None]
    assert [record.value for record in records[6:9]] == [b"6" * 20, None, b"8" * 20]
    assert records[49].timestamp_ms == 1_700_000_000_049
    assert records[0].headers == (("a", b"1"), ("a", None))


def test_what_a_deserializer_refuses_is_named_and_can_be_sought_past(where: Where, topic: str) -> None:
    zero = TopicPartition(topic, 0)
    with Producer(where.kafka) as producer:
        for value in ("1", "two", "3"):
            producer.send(topic, value, partition=0)
    with Consumer(where.kafka, auto_offset_reset="earliest", value_deserializer=int) as consumer:
        consumer.assign([zero])
        assert [record.value for record in read(consumer, 1)] == [1]
        with pytest.raises(CannotDeserialize) as raised:
            read(consumer, 1)
        assert (raised.value.partition, raised.value.offset, raised.value.part) == (zero, 1, "value")
        consumer.seek(zero, 2)
        assert [record.value for record in read(consumer, 1)] == [3]


def test_read_committed_sees_no_record_of_a_transaction_that_was_aborted(where: Where, topic: str, name: str) -> None:
    if where.native is not None:
        pytest.skip("musterd has no transaction coordinator")
    theirs = Confluent({"bootstrap.servers": where.kafka.removeprefix("kafka://"), "transactional.id": name})
    theirs.init_transactions(30)
    for word in ("kept", "dropped", "kept too"):
        theirs.begin_transaction()
        for number in range(3):
            theirs.produce(topic, f"{word} {number}".encode(), partition=0)
        theirs.flush(20)
        if word == "dropped":
            theirs.abort_transaction(30)
        else:
            theirs.commit_transaction(30)
    kept = [b"kept %d" % number for number in range(3)] + [b"kept too %d" % number for number in range(3)]
    for isolation, count in (("read_committed", 6), ("read_uncommitted", 9)):
        with Consumer(where.kafka, auto_offset_reset="earliest", isolation_level=isolation) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            values = [record.value for record in read(consumer, count)]
            assert [value for value in values if not value.startswith(b"dropped")] == kept
            assert consumer.position(TopicPartition(topic, 0)) >= 11, "three markers are passed over"


def test_an_open_transaction_holds_up_who_reads_what_is_committed_and_nobody_else(
    where: Where, topic: str, name: str
) -> None:
    if where.native is not None:
        pytest.skip("musterd has no transaction coordinator")
    theirs = Confluent({"bootstrap.servers": where.kafka.removeprefix("kafka://"), "transactional.id": name})
    theirs.init_transactions(30)
    theirs.begin_transaction()
    theirs.produce(topic, b"open", partition=0)
    theirs.flush(20)
    produce(where, topic, 3, partition=0)
    zero = TopicPartition(topic, 0)
    with (
        Consumer(where.kafka, auto_offset_reset="earliest", isolation_level="read_committed") as patient,
        Consumer(where.kafka, auto_offset_reset="earliest") as hasty,
    ):
        patient.assign([zero])
        hasty.assign([zero])
        assert len(read(hasty, 4)) == 4
        assert patient.poll(1.0) == []
        assert patient.position(zero) == 0
        theirs.commit_transaction(30)
        assert [record.value for record in read(patient, 4)] == [b"open", *numbers(3)]


# ------------------------------------------------------------------------------------------------------------ commits


def test_what_was_polled_is_committed_by_itself_and_at_close(
    where: Where, factory: ConsumerFactory, topic: str
) -> None:
    zero = TopicPartition(topic, 0)
    produce(where, topic, 20, partition=0)
    first = factory.consumer(where.kafka, topic, enable_auto_commit=True, auto_commit_interval_ms=200)
    assert len(read(first, 20)) == 20

    def is_committed() -> bool:
        first.poll(0.05)
        return first.committed([zero])[zero] == 20

    assert within(10, is_committed, every_s=0.05)
    produce(where, topic, 20, 30, partition=0)
    assert len(read(first, 10)) == 10
    first.close()
    second = factory.consumer(where.kafka, topic)
    assert second.committed([zero]) == {zero: 30}


def test_unsubscribing_commits_nothing_and_leaves(where: Where, factory: ConsumerFactory, topic: str) -> None:
    produce(where, topic, 10)
    first = factory.consumer(where.kafka, topic, enable_auto_commit=True)
    assert len(read(first, 10)) == 10
    first.unsubscribe()
    assert first.assignment == ()
    with pytest.raises(MusterError, match="nothing is subscribed to"):
        first.poll(0)
    second = factory.consumer(where.kafka, topic)
    assert len(read(second, 10)) == 10, "all of it is read again"


def test_commits_that_nobody_waits_for_end_in_their_order(where: Where, factory: ConsumerFactory, topic: str) -> None:
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(where, topic, 20, partition=0)
    consumer = factory.consumer(where.kafka, topic)
    read(consumer, 20)
    heard: list[tuple[int, MusterError | None]] = []
    for offset in (3, 5, 4):
        consumer.commit_async({zero: offset}, lambda offsets, error: heard.append((offsets[zero], error)))
    assert consumer.commit({one: 0}) == {one: 0}
    assert heard == [(3, None), (5, None), (4, None)]
    assert consumer.committed([zero, one]) == {zero: 4, one: 0}


def test_a_wakeup_from_another_thread_ends_a_poll_that_waits(
    where: Where, factory: ConsumerFactory, topic: str
) -> None:
    consumer = factory.consumer(where.kafka, topic)
    poll_until(lambda: len(consumer.assignment) == 4, consumer)
    threading.Timer(0.3, consumer.wakeup).start()
    with pytest.raises(WokenUp):
        consumer.poll(20)
    produce(where, topic, 3)
    assert len(read(consumer, 3)) == 3


# ------------------------------------------------------------------------------------------------------------- topics


def test_a_pattern_takes_in_a_topic_made_later_and_lets_go_of_one_deleted(
    where: Where, factory: ConsumerFactory, topic: str
) -> None:
    consumer = factory.consumer(where.kafka, topic, metadata_max_age_ms=500)
    consumer.unsubscribe()
    consumer.subscribe(pattern=f"{topic}.*")
    poll_until(lambda: len(consumer.assignment) == 4, consumer)
    with ClusterClient(where.kafka) as connection:
        make_topic(where, f"{topic}-more", 2)
        poll_until(lambda: len(consumer.assignment) == 6, consumer)
        produce(where, f"{topic}-more", 4)
        assert len(read(consumer, 4)) == 4
        connection.ask(DeleteTopics((DeletableTopic(f"{topic}-more"),)))
    poll_until(lambda: len(consumer.assignment) == 4, consumer)
    produce(where, topic, 4)
    assert len(read(consumer, 4)) == 4


def test_partitions_added_to_a_topic_are_read_from_their_first_record(
    where: Where, factory: ConsumerFactory, topic: str
) -> None:
    consumer = factory.consumer(where.kafka, topic, metadata_max_age_ms=500)
    poll_until(lambda: len(consumer.assignment) == 4, consumer)
    with ClusterClient(where.kafka) as connection:
        reply = connection.ask(CreatePartitions((GrowingTopic(topic, 6),)))
        assert isinstance(reply, CreatePartitionsReply)
        assert not reply.results[0].error_code
    assert within(20, lambda: _is_written(where, topic, 5))
    values = poll_until(lambda: len(consumer.assignment) == 6, consumer)
    while not values:
        values += [record.value for record in consumer.poll(0.1)]
    assert values == [b"first"]


def _is_written(where: Where, topic: str, partition: int) -> bool:
    """A broker hears of new partitions a little later than its controller."""
    try:
        with Producer(where.kafka) as producer:
            return producer.send(topic, b"first", partition=partition).result(10).offset == 0
    except (Refused, ValueError):
        return False
