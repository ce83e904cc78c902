"""Records through stock clients: what was produced is consumed, at the right time, from the right place."""

import time
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.metadata.metadata import MetadataRequest

from tests.edges.kafka.client import Consumer, Got, Library, Membership
from tests.edges.kafka.conftest import ClientFactory
from tests.edges.kafka.libraries import CONFLUENT, LIBRARIES
from tests.edges.kafka.wire import Wire, fetch

SENDS = [pytest.param(library, codec, id=f"{library.name}-{codec}") for library in LIBRARIES
         for codec in ("none", *library.codecs)]  # fmt: skip
NOON_MS = 1_700_000_000_000


def read(consumer: Consumer, count: int, seconds: float = 15.0) -> list[Got]:
    """Polls until so many came; a few too many are returned too."""
    got: list[Got] = []
    deadline = time.monotonic() + seconds
    while len(got) < count and time.monotonic() < deadline:
        got += consumer.poll(0.1)
    return got


def other(library: Library, codec: str) -> Library:
    """The next one that knows the codec: what one library wrote, another reads."""
    at = LIBRARIES.index(library) + 1
    return next(each for each in (*LIBRARIES[at:], *LIBRARIES) if codec in {"none", *each.codecs})


@pytest.mark.parametrize(("library", "codec"), SENDS)
def test_what_one_library_sends_with_any_codec_another_reads_whole(
    library: Library, codec: str, factory: ClientFactory, name: str
) -> None:
    factory.create_topic(library, name, 1)
    producer = factory.producer(library, codec=codec)
    sent: list[tuple[bytes | None, bytes | None]] = [(b"%d" % number, b"value " * number) for number in range(50)]
    sent += [(None, b"no key"), (b"no value", None), (b"", b"")]
    for number, (key, value) in enumerate(sent):
        headers = [("trace", b"%d" % number), ("trace", b"twice"), ("empty", b"")]
        producer.send(name, value, key=key, partition=0, timestamp_ms=NOON_MS + number, headers=headers)
    assert producer.flush() == [((name, 0), number) for number in range(len(sent))]

    consumer = factory.consumer(other(library, codec))
    consumer.assign([(name, 0)])
    got = read(consumer, len(sent))
    consumer.close()
    assert [(each.key, each.value) for each in got] == sent
    assert [each.timestamp_ms for each in got] == [NOON_MS + number for number in range(len(sent))]
    assert got[7].headers == (("trace", b"7"), ("trace", b"twice"), ("empty", b""))


def test_an_idempotent_producer_keeps_keys_in_order_over_partitions(
    library: Library, factory: ClientFactory, name: str
) -> None:
    factory.create_topic(library, name, 4)
    producer = factory.producer(library, idempotent=True)
    for number in range(2_000):
        producer.send(name, b"%d" % number, key=b"key %d" % (number % 16))
    where = producer.flush()
    assert len(set(where)) == 2_000
    assert len({part for part, _ in where}) > 1

    consumer = factory.consumer(library, Membership(name))
    consumer.subscribe([name])
    got = read(consumer, 2_000)
    consumer.close()
    for key in {each.key for each in got}:
        numbers = [int(each.value or b"") for each in got if each.key == key]
        assert numbers == sorted(numbers) and len(numbers) == 125
        assert len({each.partition for each in got if each.key == key}) == 1


def test_a_topic_nobody_created_is_there_once_a_record_is_sent_to_it(
    library: Library, factory: ClientFactory, name: str
) -> None:
    producer = factory.producer(library)
    producer.send(name, b"first")
    assert producer.flush() == [((name, 0), 0)]
    consumer = factory.consumer(library)
    consumer.assign([(name, 0)])
    assert [each.value for each in read(consumer, 1)] == [b"first"]
    consumer.close()


def test_offsets_are_found_by_time_and_at_both_ends_and_sought(
    library: Library, factory: ClientFactory, name: str
) -> None:
    factory.create_topic(library, name, 1)
    producer = factory.producer(library)
    for number in range(10):
        producer.send(name, b"%d" % number, partition=0, timestamp_ms=NOON_MS + 1_000 * number)
    producer.flush()
    part = (name, 0)

    consumer = factory.consumer(library)
    consumer.assign([part])
    assert consumer.bounds(part) == (0, 10)
    assert consumer.offset_at(part, NOON_MS - 5_000) == 0
    assert consumer.offset_at(part, NOON_MS + 3_000) == 3
    assert consumer.offset_at(part, NOON_MS + 3_001) == 4
    # librdkafka says the end where the others say that there is none.
    assert consumer.offset_at(part, NOON_MS + 60_000) in {None, 10}
    read(consumer, 10)
    consumer.seek(part, 7)
    assert [each.offset for each in read(consumer, 3)] == [7, 8, 9]
    assert consumer.position(part) == 10
    consumer.close()


def test_a_paused_partition_rests_until_it_is_resumed(library: Library, factory: ClientFactory, name: str) -> None:
    factory.create_topic(library, name, 2)
    consumer = factory.consumer(library)
    consumer.assign([(name, 0), (name, 1)])
    consumer.poll(0.2)
    consumer.pause((name, 0))
    producer = factory.producer(library)
    for partition in range(2):
        producer.send(name, b"%d" % partition, partition=partition)
    producer.flush()
    got = read(consumer, 1) + read(consumer, 1, seconds=0.5)
    assert [each.partition for each in got] == [1]
    consumer.resume((name, 0))
    assert [each.partition for each in read(consumer, 1)] == [0]
    consumer.close()


def test_a_waiting_fetch_answers_as_soon_as_there_is_a_record(
    library: Library, factory: ClientFactory, name: str
) -> None:
    factory.create_topic(library, name, 1)
    consumer = factory.consumer(library, Membership(longest_wait_ms=8_000))
    consumer.assign([(name, 0)])
    producer = factory.producer(library)
    producer.send(name, b"warm", partition=0)
    producer.flush()
    assert read(consumer, 1)
    read(consumer, 1, seconds=0.5)  # now a fetch waits, for eight seconds if nothing comes
    producer.send(name, b"prompt", partition=0)
    producer.flush()
    began = time.monotonic()
    assert [each.value for each in read(consumer, 1)] == [b"prompt"]
    assert time.monotonic() - began < 6.0
    consumer.close()


def test_a_consumer_that_begins_at_the_end_sees_only_what_comes_after(
    library: Library, factory: ClientFactory, name: str
) -> None:
    factory.create_topic(library, name, 1)
    producer = factory.producer(library)
    producer.send(name, b"old", partition=0)
    producer.flush()
    member = factory.member(library, Membership(name, reset="latest"), name)
    deadline = time.monotonic() + 15
    while not member.got and time.monotonic() < deadline:
        producer.send(name, b"new", partition=0)
        producer.flush()
        time.sleep(0.05)
    assert {each.value for each in member.got} == {b"new"}


def test_a_fetch_of_nothing_waits_as_long_as_it_may_and_no_longer(factory: ClientFactory, name: str) -> None:
    with closing(Wire(factory.server.bootstrap)) as wire:
        answer, took_s = timed(wire, fetch(created(wire, factory, name), 0, wait_ms=700))
        assert answer.error_code == 0
        assert 0.65 < took_s < 5.0


def created(wire: Wire, factory: ClientFactory, name: str) -> object:
    """The id of a new topic."""
    factory.create_topic(CONFLUENT, name, 1)
    asked = MetadataRequest[12](topics=[MetadataRequest.MetadataRequestTopic(name=name)])
    (topic,) = wire.ask(asked).topics
    return topic.topic_id


def timed(wire: Wire, request: object) -> tuple[Any, float]:
    began = time.monotonic()
    return wire.ask(request), time.monotonic() - began
