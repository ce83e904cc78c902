"""`python -m bench.readers LIBRARY BOOTSTRAP TOPIC RECORDS ROUNDS`: one library reads a topic from its beginning, so
many times, in a process of its own. Prints, for each time, seconds, CPU seconds and megabytes resident, as JSON.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PARTITIONS = 4
_MOST = 500
"""Records a call, where the library can be told."""
_WAIT_MS = 10
"""Longest wait of a fetch: a reader that seeks to the beginning waits for the fetch under way."""

Pass = Callable[[], int]
"""Reads on and says how many records came; each came as an object with its key and value."""


class Reader:
    """`poll` reads on, `rewind` goes back to the beginning."""

    def __init__(self, poll: Pass, rewind: Callable[[], None], close: Callable[[], None]) -> None:
        self.poll, self.rewind, self.close = poll, rewind, close


def muster(bootstrap: str, topic: str) -> Reader:
    from muster import Consumer, TopicPartition

    consumer = Consumer(bootstrap, max_poll_records=_MOST, fetch_max_wait_ms=_WAIT_MS, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
    return Reader(lambda: len(consumer.poll(1.0)), consumer.seek_to_beginning, consumer.close)


def _confluent(bootstrap: str, topic: str) -> tuple[Any, list[Any]]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"group.id": "bench", "enable.auto.commit": False, "fetch.wait.max.ms": _WAIT_MS}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    everything = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
    consumer.assign(everything)
    return consumer, everything


def _touch(messages: list[Any]) -> int:
    """Make the objects that another library has made already, and return their number."""
    for message in messages:
        message.key()
        message.value()
    return len(messages)


def confluent_consume(bootstrap: str, topic: str) -> Reader:
    consumer, everything = _confluent(bootstrap, topic)
    return Reader(lambda: _touch(consumer.consume(_MOST, 1.0)), lambda: consumer.assign(everything), consumer.close)


def confluent_poll(bootstrap: str, topic: str) -> Reader:
    consumer, everything = _confluent(bootstrap, topic)

    def poll() -> int:
        message = consumer.poll(1.0)
        return 0 if message is None else _touch([message])

    return Reader(poll, lambda: consumer.assign(everything), consumer.close)


def kafka_python(bootstrap: str, topic: str) -> Reader:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, max_poll_records=_MOST, fetch_max_wait_ms=_WAIT_MS)
    everything = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer.assign(everything)
    consumer.seek_to_beginning(*everything)
    return Reader(
        lambda: sum(map(len, consumer.poll(1000).values())),
        lambda: consumer.seek_to_beginning(*everything),
        consumer.close,
    )


def aiokafka(bootstrap: str, topic: str) -> Reader:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    loop = asyncio.new_event_loop()
    everything = [TopicPartition(topic, number) for number in range(PARTITIONS)]

    async def start() -> Any:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=_WAIT_MS)
        await consumer.start()
        consumer.assign(everything)
        await consumer.seek_to_beginning(*everything)
        return consumer

    consumer = loop.run_until_complete(start())

    def poll() -> int:
        found = loop.run_until_complete(consumer.getmany(timeout_ms=1000, max_records=_MOST))
        return sum(map(len, found.values()))

    return Reader(
        poll,
        lambda: loop.run_until_complete(consumer.seek_to_beginning(*everything)),
        lambda: loop.run_until_complete(consumer.stop()),
    )


LIBRARIES: dict[str, Callable[[str, str], Reader]] = {
    "muster native": muster,
    "muster kafka": lambda bootstrap, topic: muster(f"kafka://{bootstrap}", topic),
    "confluent consume": confluent_consume,
    "confluent poll": confluent_poll,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
}


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def passes(reader: Reader, records: int, rounds: int) -> Iterator[tuple[float, float, float]]:
    """The first is to warm up: what it took counts for nothing, but for its memory."""
    for number in range(rounds + 1):
        if number:
            reader.rewind()
        began, cpu, seen = time.perf_counter(), time.process_time(), 0
        while seen < records:
            seen += reader.poll()
        yield time.perf_counter() - began, time.process_time() - cpu, resident_mb()


def main(library: str, bootstrap: str, topic: str, records: str, rounds: str) -> None:
    reader = LIBRARIES[library](bootstrap, topic)
    print(json.dumps(list(passes(reader, int(records), int(rounds)))), flush=True)
    reader.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
