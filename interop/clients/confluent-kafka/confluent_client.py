"""confluent-kafka as the harness drives it; also the other member of every `mixed` group."""

import argparse
import contextlib
import json
import sys
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from interop.consumer.librdkafka import consumer_groups
from interop.exactly_once.librdkafka import transform
from interop.program import OAUTHBEARER, answer, security

_ADMIN = "admin_consumer_groups"


def main() -> int:
    if sys.argv[1:2] == [_ADMIN]:
        return answer({_ADMIN: consumer_groups})
    if sys.argv[1:2] == ["transform"]:
        return transform(sys.argv[2:])
    options = _options()
    return _produce(options) if options.verb == "produce" else _Member(options).run()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=("produce", "member"))
    for name in ("bootstrap", "topic", "group", "assignor", "instance", "protocol", "pattern", "security"):
        parser.add_argument(f"--{name}")
    for name in ("count", "partitions", "limit", "session-timeout-ms"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--compression", default="none")
    for name in ("idempotent", "commit"):
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args()


def _security(path: str | None) -> dict[str, str]:
    """Return the settings of the file, with librdkafka's own way to a token."""
    settings = security(path)
    if settings.get("sasl.mechanism") == OAUTHBEARER:
        settings["sasl.oauthbearer.method"] = "oidc"
        settings["sasl.oauthbearer.client.id"] = settings.pop("sasl.username")
        settings["sasl.oauthbearer.client.secret"] = settings.pop("sasl.password")
    return settings


def _produce(options: argparse.Namespace) -> int:
    errors: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": options.bootstrap,
            "acks": "all",
            "compression.type": options.compression,
            "enable.idempotence": options.idempotent,
            "linger.ms": 5,
        }
    )
    for number in range(options.count):
        producer.produce(
            options.topic,
            str(number),
            partition=number % options.partitions,
            on_delivery=lambda error, _: errors.append(error) if error is not None else None,
        )
    left = producer.flush(30)
    if left or errors:
        print(f"{left} records left, errors: {errors[:3]}", file=sys.stderr)
    return 1 if left or errors else 0


class _Member:
    """One consumer: tells what it owns and reads, until it is told to stop or has its limit."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._limit: int | None = options.limit
        self._commits: bool = options.commit
        self._topic = options.topic
        self._pattern: str | None = options.pattern
        is_balanced = options.protocol == "consumer"
        self._cooperative = is_balanced or options.assignor == "cooperative-sticky"
        self._owned: set[int] = set()
        self._stopped = threading.Event()
        settings = {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **_security(options.security),
        }
        if is_balanced:
            settings["group.protocol"] = "consumer"
            if options.assignor:
                settings["group.remote.assignor"] = options.assignor
        else:
            settings |= {
                "partition.assignment.strategy": options.assignor,
                "session.timeout.ms": options.session_timeout_ms,
                "heartbeat.interval.ms": 1000,
            }
        if options.instance:
            settings["group.instance.id"] = options.instance
        self._consumer = Consumer(settings)

    def run(self) -> int:
        threading.Thread(target=self._listen, daemon=True).start()
        wanted = self._topic if self._pattern is None else f"^{self._pattern}"
        self._consumer.subscribe(
            [wanted],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._without,
        )
        seen = 0
        positions: dict[int, int] = {}
        while not self._stopped.is_set() and seen != self._limit:
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                print(message.error(), file=sys.stderr)
                continue
            seen += 1
            partition, offset = _tell_record(message)
            positions[partition] = offset + 1
        if self._limit is not None:
            offsets = [TopicPartition(self._topic, partition, at) for partition, at in positions.items()]
            self._consumer.commit(offsets=offsets, asynchronous=False)
            _tell({"event": "committed"})
        self._consumer.close()
        return 0

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "stop":
                self._stopped.set()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._cooperative:
            self._owned |= {found.partition for found in partitions}
        else:
            self._owned = {found.partition for found in partitions}
        _tell({"event": "assigned", "partitions": sorted(self._owned)})

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._commits:
            with contextlib.suppress(KafkaException):  # nothing was read of them
                consumer.commit(asynchronous=False)
        self._without(consumer, partitions)

    def _without(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._owned -= {found.partition for found in partitions}
        _tell({"event": "assigned", "partitions": sorted(self._owned)})


def _tell_record(message: Message) -> tuple[int, int]:
    """Print the record, and return its partition and offset."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None and offset is not None and value is not None
    _tell({"event": "record", "partition": partition, "offset": offset, "value": value.decode()})
    return partition, offset


def _tell(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    sys.exit(main())
