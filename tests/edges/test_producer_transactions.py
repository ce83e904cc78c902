"""Transactions of our own producer, at an Apache Kafka and through a node whose log is in it. Skipped where its jars
have not been fetched (`python -m bench kafka` does) or there is no Java."""

import asyncio
from collections.abc import Callable

import pytest

from muster import (
    Consumer,
    MusterError,
    Producer,
    ProducerFenced,
    TopicPartition,
    TransactionFailed,
    aio,
)
from tests.edges.musterd import within
from tests.edges.transactional_kafka import committed_values

pytestmark = [pytest.mark.xdist_group("kafka with transactions"), pytest.mark.long]  # one broker for all


def test_what_is_committed_is_read_and_what_is_aborted_is_not(where: str, name: str) -> None:
    topic = f"{name}-out"
    with Producer(where, transactional_id=name) as producer:
        for number in range(6):
            producer.begin()
            for partition in range(2):
                producer.send(topic, b"%d" % number, partition=partition)
            (producer.abort if number % 2 else producer.commit)()
        producer.begin()
        producer.send(topic, b"left open")  # closing aborts it
    assert committed_values(where, topic, 6) == [b"0", b"0", b"2", b"2", b"4", b"4"]


def test_a_second_producer_of_an_id_fences_the_first_and_aborts_what_it_left(where: str, name: str) -> None:
    topic = f"{name}-out"
    first, second = Producer(where, transactional_id=name), Producer(where, transactional_id=name)
    first.begin()
    first.send(topic, b"of the first").result(30)
    second.begin()
    second.send(topic, b"of the second")
    second.commit()
    with pytest.raises(ProducerFenced):
        first.commit()
    first.close()
    second.close()
    assert committed_values(where, topic, 1) == [b"of the second"]


def copy(where: str, name: str, group: str, crash: Callable[[int], bool]) -> bool:
    """Copy what there is from topic to topic, in transactions with the group's offsets; return false if it crashed."""
    consumer = Consumer(
        where, group, auto_offset_reset="earliest", enable_auto_commit=False, isolation_level="read_committed"
    )
    producer = Producer(where, transactional_id=f"copy-{name}")
    consumer.subscribe([f"{name}-in"])
    empty = count = 0
    try:
        while empty < 10:
            records = consumer.poll(0.5)
            if not records:
                empty += consumer.member.is_steady
                continue
            empty = 0
            producer.begin()
            offsets = {}
            for record in records:
                producer.send(f"{name}-out", record.value, record.key)
                offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1
            producer.send_offsets(offsets, consumer.member)
            count += 1
            if crash(count):
                producer.flush()
                return False
            producer.commit()
    finally:
        consumer.close()
        producer.close()
    return True


def test_each_record_is_copied_once_however_often_the_copying_is_cut_short(where: str, name: str) -> None:
    with Producer(where) as producer:
        for number in range(400):
            producer.send(f"{name}-in", b"%03d" % number, b"%d" % number)
    for crash_at in (1, 2):
        copy(where, name, name, lambda count, crash_at=crash_at: count == crash_at)  # type: ignore[misc]
    assert copy(where, name, name, lambda count: False)
    assert committed_values(where, f"{name}-out", 400) == [b"%03d" % number for number in range(400)]


def test_a_member_that_has_left_its_group_commits_nothing(where: str, name: str) -> None:
    with Producer(where, transactional_id=name) as producer:
        consumer = Consumer(where, name, auto_offset_reset="earliest")
        consumer.subscribe([f"{name}-in"])
        assert within(30, lambda: not consumer.poll(0.2) and consumer.member.is_steady)
        producer.begin()
        consumer.close()
        with pytest.raises(TransactionFailed):
            producer.send_offsets({TopicPartition(f"{name}-in", 0): 1}, consumer.member)
        producer.abort()
    with pytest.raises(MusterError, match="closed"):
        producer.begin()


def test_in_an_event_loop_it_is_the_same(where: str, name: str) -> None:
    topic = f"{name}-out"

    async def write() -> None:
        async with aio.Producer(where, transactional_id=name) as producer:
            await producer.begin()
            await producer.send(topic, b"kept")
            await producer.send_offsets({TopicPartition(f"{name}-in", 0): 7}, name)
            await producer.commit()
            await producer.begin()
            await producer.send(topic, b"dropped")
            await producer.abort()

    asyncio.run(write())
    assert committed_values(where, topic, 1) == [b"kept"]
    with Consumer(where, name) as consumer:
        place = TopicPartition(f"{name}-in", 0)
        assert consumer.committed([place])[place] == 7
