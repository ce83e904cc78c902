"""Our own client for event loops as the harness drives it, over Kafka's protocol."""

import argparse
import asyncio
import json
import sys
import threading
from typing import Any

from muster import ConsumerRecord, TopicPartition
from muster.aio import Consumer, Producer


def main() -> int:
    options = _options()
    asyncio.run(_produce(options) if options.verb == "produce" else _Member(options).run())
    return 0


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


async def _produce(options: argparse.Namespace) -> None:
    async with Producer(
        f"kafka://{options.bootstrap}", compression=options.compression, enable_idempotence=options.idempotent
    ) as producer:
        for number in range(options.count):
            await producer.send(options.topic, str(number), partition=number % options.partitions)
        await producer.flush()


class _Member:
    """One consumer: tells what it owns and reads, until it is told to stop or has its limit."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._owned: set[int] = set()
        self._stopped = threading.Event()

    async def run(self) -> None:
        options = self._options
        threading.Thread(target=self._listen, daemon=True).start()
        async with Consumer(
            f"kafka://{options.bootstrap}",
            options.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            assignors=[options.assignor],
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=1_000,
            group_instance_id=options.instance,
        ) as consumer:

            async def revoked(partitions: tuple[TopicPartition, ...]) -> None:
                if options.commit:
                    await consumer.commit()
                self._without(partitions)

            consumer.subscribe([options.topic], on_assigned=self._assigned, on_revoked=revoked, on_lost=self._without)
            await self._read(consumer, options.limit)

    async def _read(self, consumer: Consumer, limit: int | None) -> None:
        seen = 0
        positions: dict[TopicPartition, int] = {}
        while not self._stopped.is_set() and seen != limit:
            for record in await consumer.poll(0.1):
                if seen == limit:
                    break
                seen += 1
                positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
                _tell_record(record)
        if seen == limit:
            await consumer.commit(positions)
            _tell({"event": "committed"})

    def _listen(self) -> None:
        for line in sys.stdin:
            if line.strip() == "stop":
                self._stopped.set()

    def _assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._owned |= {one.partition for one in partitions}
        _tell({"event": "assigned", "partitions": sorted(self._owned)})

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
