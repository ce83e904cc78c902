"""A consumer of librdkafka's (confluent-kafka) in the same group, a process of its own: `python -m demo.kafka_member`.

Nothing in it is Muster's: it takes the daemon for Apache Kafka. It reports, and ends, as `demo.plain_member` does.
"""

import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message

from demo.plain_member import SESSION_TIMEOUT_MS, leave_at_end_of_input, report
from demo.sink import PlainSink
from muster import ConsumerRecord

RECORDS_AT_ONCE = 1_000


def run(bootstrap: str, group: str, topic: str, name: str, folder: Path, records_per_s: int) -> None:
    leaving = threading.Event()
    threading.Thread(target=leave_at_end_of_input, args=(leaving,), daemon=True).start()
    sink = PlainSink(folder, name)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 1_000,
        }
    )
    consumer.subscribe([topic])
    held: list[int] = []
    free_at = time.monotonic()
    while not leaving.is_set():
        messages = consumer.consume(RECORDS_AT_ONCE, timeout=0.2)
        holds = sorted(one.partition for one in consumer.assignment())
        if holds != held:
            held = holds
            report(holds=held)
        records = [_record(message) for message in messages if message.error() is None]
        if not records:
            continue
        sink.write(records)
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as refused:
            report(refused=str(refused))
        report(read=len(records))
        free_at = max(free_at, time.monotonic()) + len(records) / records_per_s
        leaving.wait(max(0.0, free_at - time.monotonic() - 0.05))
    consumer.close()


def _record(message: Message) -> ConsumerRecord:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None, "only of errors is that not known"
    return ConsumerRecord(topic, partition, offset, message.timestamp()[1], message.key(), message.value())


if __name__ == "__main__":
    bootstrap, group, topic, name, folder, records_per_s = sys.argv[1:]
    run(bootstrap, group, topic, name, Path(folder), int(records_per_s))
