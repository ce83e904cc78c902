"""A compacted topic as stock clients see it: the last value of each key, where it was written, and the end."""

from collections.abc import Callable
from random import Random

import pytest

from tests.edges.kafka.client import Consumer, Got, Library, Membership
from tests.edges.kafka.conftest import ClientFactory
from tests.edges.kafka.libraries import CONFLUENT
from tests.edges.musterd import within

KEYS, RECORDS = 20, 3_000
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "16384", "min.cleanable.dirty.ratio": "0.1"}


def all_of(consumer: Consumer, topic: str) -> list[Got]:
    """From the beginning to the end, which the client must reach."""
    _low, high = consumer.bounds((topic, 0))
    consumer.assign([(topic, 0)])
    return polled(consumer, lambda _found: consumer.position((topic, 0)) >= high)


def polled(consumer: Consumer, is_enough: Callable[[list[Got]], bool]) -> list[Got]:
    found: list[Got] = []

    def are_there() -> bool:
        found.extend(consumer.poll(0.2))
        return is_enough(found)

    assert within(30, are_there)
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_last_value_of_every_key_is_read_by_everyone(
    factory: ClientFactory, name: str, codec: str, library: Library
) -> None:
    if codec not in {"none", *library.codecs}:
        library = CONFLUENT
    random = Random(1)
    factory.create_topic(CONFLUENT, name, 1, COMPACTED)
    producer = factory.producer(CONFLUENT, codec=codec, idempotent=True)
    written: dict[bytes, tuple[int, bytes | None]] = {}
    for number in range(RECORDS):
        key = b"once-%d" % number if number % 1_000 == 0 else b"k%d" % (number % KEYS)
        value = None if number % 150 == 149 else random.randbytes(120)
        producer.send(name, value, key=key, partition=0, timestamp_ms=1_700_000_000_000 + number)
        written[key] = (number, value)
        if number % 50 == 49:
            producer.flush()
    assert within(
        30, lambda: len(all_of(factory.consumer(CONFLUENT, Membership()), name)) < RECORDS / 3, every_s=0.5
    ), "it is cleaned"
    consumer = factory.consumer(library, Membership())
    found = all_of(consumer, name)
    assert [one.offset for one in found] == sorted({one.offset for one in found})
    assert {one.key: (one.offset, one.value) for one in found} == written
    assert all(one.timestamp_ms == 1_700_000_000_000 + one.offset for one in found)
    consumer.seek((name, 0), 1)
    later = polled(consumer, lambda found: any(one.key == b"once-1000" for one in found))
    assert later[0].offset >= 1, "an offset in a hole stands for the next record"
