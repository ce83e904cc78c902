"""`python -m interop.outage_member LIBRARY BOOTSTRAP GROUP TOPIC FILE`: a consumer of the story in `outages`. It writes
a line for each record, `partition offset seconds`, and then commits. It goes on by itself, whatever happens."""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import aiokafka
import confluent_kafka
import kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

import muster

SESSION_MS = 10_000
_over = threading.Event()


def _note(out: TextIO, partition: int, offset: int) -> None:
    out.write(f"{partition} {offset} {time.time():.3f}\n")


def confluent(bootstrap: str, group: str, topic: str, out: TextIO) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    settings |= {"enable.auto.commit": False, "session.timeout.ms": SESSION_MS, "log_level": 0}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    while not _over.is_set():
        got = [one for one in consumer.consume(500, 0.5) if one.error() is None]
        for one in got:
            _note(out, one.partition() or 0, one.offset() or 0)
        out.flush()
        if got:
            try:
                consumer.commit(asynchronous=False)
            except confluent_kafka.KafkaException as refused:
                print(f"commit: {refused}", file=sys.stderr, flush=True)
    consumer.close()


def kafka_python(bootstrap: str, group: str, topic: str, out: TextIO) -> None:
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
    )
    while not _over.is_set():
        try:
            for place, records in consumer.poll(500).items():  # it raises while nobody can be reached
                for one in records:
                    _note(out, place.partition, one.offset)
            out.flush()
            consumer.commit()
        except kafka.errors.KafkaError as refused:
            print(f"poll or commit: {refused!r}", file=sys.stderr, flush=True)
    consumer.close()


def aio(bootstrap: str, group: str, topic: str, out: TextIO) -> None:
    asyncio.run(_aio(bootstrap, group, topic, out))


async def _aio(bootstrap: str, group: str, topic: str, out: TextIO) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        partition_assignment_strategy=(RangePartitionAssignor,),  # which the other libraries offer too
    )
    await consumer.start()
    while not _over.is_set():
        try:
            got = await consumer.getmany(timeout_ms=500)
            for place, records in got.items():
                for one in records:
                    _note(out, place.partition, one.offset)
            out.flush()
            if got:
                await consumer.commit()
        except aiokafka.errors.KafkaError as refused:
            print(f"getmany or commit: {refused!r}", file=sys.stderr, flush=True)
    await consumer.stop()


def ours(bootstrap: str, group: str, topic: str, out: TextIO) -> None:
    settings: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    settings["isolation_level"] = "read_committed"
    with muster.Consumer(bootstrap, group, session_timeout_ms=SESSION_MS, **settings) as consumer:
        consumer.subscribe([topic])
        while not _over.is_set():
            try:
                got = consumer.poll(0.5)
                for one in got:
                    _note(out, one.partition, one.offset)
                out.flush()
                if got:
                    consumer.commit()
            except muster.MusterError as refused:
                print(f"poll or commit: {refused!r}", file=sys.stderr, flush=True)


NATIVE = ("muster",)
"""Told of musterd's native listener, and by it of the brokers."""
LIBRARIES: dict[str, Callable[[str, str, str, TextIO], None]] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aio,
    "muster": ours,
}


def main() -> None:
    library, bootstrap, group, topic, file = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda number, frame: _over.set())
    with Path(file).open("a") as out:
        LIBRARIES[library](bootstrap, group, topic, out)


if __name__ == "__main__":
    main()
