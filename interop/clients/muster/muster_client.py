"""Our own client as the harness drives it, over Kafka's protocol."""

import argparse
import json
import sys
import threading
from typing import Any

from interop.clients.muster.administration import STORIES
from interop.program import answer
from muster import Consumer, ConsumerRecord, Producer, TopicPartition


def main() -> int:
    if sys.argv[1:2] == ["produce"]:
        return _produce(_options())
    if sys.argv[1:2] == ["member"]:
        return _Member(_options()).run()
    return answer(STORIES)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=("produce", "member"))
    for name in ("bootstrap", "topic", "group", "assignor", "instance"):
        parser.add_argument(f"--{name}")
    for name in ("count", "partitions", "limit", "session-timeout-ms"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--compression", default="none")
    for name in ("idempotent", "commit"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args()


def _produce(options: argparse.Namespace) -> int:
    with Producer(
        f"kafka://{options.bootstrap}", compression=options.compression, enable_idempotence=options.idempotent
    ) as producer:
        for number in range(options.count):
            producer.send(options.topic, str(number), partition=number % options.partitions)
        producer.flush()
    return 0


class _Member:
    """One consumer: tells what it owns and reads, until it is told to stop or has its limit."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._limit: int | None = options.limit
        self._commits: bool = options.commit
        self._topic: str = options.topic
        self._owned: set[int] = set()
        self._stopped = threading.Event()
        self._consumer = Consumer(
            f"kafka://{options.bootstrap}",
            options.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            assignors=[options.assignor],
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=1_000,
            group_instance_id=options.instance,
        )

    def run(self) -> int:
        threading.Thread(target=self._listen, daemon=True).start()
        with self._consumer as consumer:
            consumer.subscribe(
                [self._topic], on_assigned=self._assigned, on_revoked=self._revoked, on_lost=self._without
            )
            seen = 0
            positions: dict[TopicPartition, int] = {}
            while not self._stopped.is_set() and seen != self._limit:
                for record in consumer.poll(0.1):
                    if seen == self._limit:
                        break
                    seen += 1
                    positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
                    _tell_record(record)
            if seen == self._limit:
                consumer.commit(positions)
                _tell({"event": "committed"})
        return 0

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "stop":
                self._stopped.set()

    def _assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._owned |= {one.partition for one in partitions}
        _tell({"event": "assigned", "partitions": sorted(self._owned)})

    def _revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        if self._commits:
            self._consumer.commit()
        self._without(partitions)

    def _without(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._owned -= {one.partition for one in partitions}
        _tell({"event": "assigned", "partitions": sorted(self._owned)})


def _tell_record(record: ConsumerRecord) -> None:
    value = record.value.decode()
    _tell({"event": "record", "partition": record.partition, "offset": record.offset, "value": value})


def _tell(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    sys.exit(main())
