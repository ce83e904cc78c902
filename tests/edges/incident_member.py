"""A member with librdkafka, in a process of its own, that does what lines on standard input say:
`python -m tests.edges.incident_member SETTINGS TOPIC`. `SETTINGS` is a JSON object for confluent-kafka.

`stop` and `go`: stop polling, and poll again; `commit N`: commit offset N of all that it has; `close`: leave."""

import json
import sys
import threading
from queue import Empty, Queue

from confluent_kafka import Consumer, KafkaException, TopicPartition


def _read(lines: "Queue[str]") -> None:
    for line in sys.stdin:
        lines.put(line.strip())


def _commit(consumer: Consumer, offset: int) -> None:
    """Commit the offset of all assigned partitions; on a busy machine a rebalance may refuse it for a while."""
    while True:
        parts = [TopicPartition(one.topic, one.partition, offset) for one in consumer.assignment()]
        try:
            consumer.commit(offsets=parts, asynchronous=False)
        except KafkaException:
            consumer.poll(0.05)
        else:
            return


def main() -> None:
    settings, topic = json.loads(sys.argv[1]), sys.argv[2]
    lines = Queue[str]()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    is_polling = True
    while True:
        try:
            command, _, argument = lines.get(timeout=0.05).partition(" ")
        except Empty:
            command = argument = ""
        if command == "close":
            consumer.close()
            return
        while command == "stop" and not consumer.assignment():
            consumer.poll(0.05)  # librdkafka watches over polls once the application has its assignment
        if command in ("stop", "go"):
            is_polling = command == "go"
        if command == "commit":
            _commit(consumer, int(argument))
        if command:
            print("done", command, flush=True)
        if is_polling:
            message = consumer.poll(0.05)
            error = None if message is None else message.error()
            if error is not None and error.fatal():
                raise KafkaException(error)


if __name__ == "__main__":
    main()
