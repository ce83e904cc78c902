"""A consumer of librdkafka's, in a process of its own, told of Muster's Kafka listener alone:
`python -m interop.beside_stock_member BOOTSTRAP GROUP TOPICS NAME FOLDER`.

What it read stands in FOLDER/NAME.rows before it is committed. It ends with its standard input.
"""

import contextlib
import sys
import threading
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message

from interop.beside_rows import Row, append


def run(bootstrap: str, group: str, topics: str, name: str, folder: Path) -> None:
    leaving = threading.Event()
    threading.Thread(target=_leave_at_end_of_input, args=(leaving,), daemon=True).start()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 1_000,
        }
    )

    def commit(*_: object) -> None:
        """Commit the position; one refused during a rebalance is tried again before partitions are revoked."""
        with contextlib.suppress(KafkaException):
            consumer.commit(asynchronous=False)

    consumer.subscribe(topics.split(","), on_revoke=commit)
    while not leaving.is_set():
        rows = [_row(message) for message in consumer.consume(500, timeout=0.2) if message.error() is None]
        if rows:
            append(folder, name, rows)
            commit()
    consumer.close()


def _leave_at_end_of_input(leaving: threading.Event) -> None:
    sys.stdin.read()
    leaving.set()


def _row(message: Message) -> Row:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None, "only of errors is that not known"
    return topic, partition, offset, message.value() or b""


if __name__ == "__main__":
    bootstrap, group, topics, name, folder = sys.argv[1:]
    run(bootstrap, group, topics, name, Path(folder))
