"""`python -m interop.nodes.in_python LIBRARY`: the verb `clerks` (interop/README.md) of the libraries for Python."""

import argparse
import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaException, TopicPartition

from interop.program import tell, told_to_stop
from muster import TopicPartition as MusterPartition
from muster.aio import Consumer as MusterConsumer
from muster.errors import MusterError

_READ_EVERY = 10
_LOOKS, _LOOK_PAUSE_S = 20, 0.5
"""Reads of a group that seems to have no offset, before that is believed."""
_SESSION_MS, _HEARTBEAT_MS = 45_000, 1_000


class _Clerk:
    """Group of one member, and the lines it says, whatever its library."""

    def __init__(self, group: str, options: argparse.Namespace) -> None:
        self.group = group
        self.options = options
        self.pause_s = options.pause_ms / 1_000
        self._last = 0

    def tell(self, event: str, **rest: Any) -> None:
        tell({"event": event, "group": self.group, "at": time.time(), **rest})

    def acknowledged(self, number: int, **rest: Any) -> None:
        self._last = number
        self.tell("ack", number=number, **rest)

    def read(self, number: int) -> None:
        self.tell("read", number=number, least=self._last)

    def refused(self, error: Exception) -> None:
        self.tell("refused", why=type(error).__name__ if not error.args else str(error.args[0])[:200])


class _OfLibrdkafka(_Clerk):
    def work(self, stopped: threading.Event) -> None:
        """Join, commit and read until stopped."""
        place = TopicPartition(self.options.topic, 0)
        settings = {"bootstrap.servers": self.options.bootstrap, "group.id": self.group, "enable.auto.commit": False}
        settings |= {"session.timeout.ms": _SESSION_MS, "heartbeat.interval.ms": _HEARTBEAT_MS, "log_level": 0}
        consumer = Consumer(settings)
        consumer.subscribe(
            [place.topic],
            on_assign=self._assigned,
            on_revoke=lambda *_: self.tell("moved", why="revoked"),
            on_lost=lambda *_: self.tell("moved", why="lost"),
        )
        number = 0
        while not stopped.is_set():
            consumer.poll(self.pause_s)
            if not consumer.assignment():
                continue
            number += 1
            try:
                consumer.commit(offsets=[TopicPartition(place.topic, 0, number)], asynchronous=False)
                self.acknowledged(number)
                if number % _READ_EVERY == 0:
                    self._read_back(consumer)
            except KafkaException as error:
                self.refused(error)
        self._read_back(consumer)
        consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign(partitions)
        consumer.pause(partitions)  # what was committed is no position of a record
        self.tell("moved", why="assigned")

    def _read_back(self, consumer: Consumer) -> None:
        self.read(consumer.committed([TopicPartition(self.options.topic, 0)], timeout=60)[0].offset)


class _OfAiokafka(_Clerk, ConsumerRebalanceListener):  # type: ignore[misc]
    async def work(self, stopped: threading.Event) -> None:
        """Join, commit and read until stopped."""
        place = AiokafkaPartition(self.options.topic, 0)
        self._consumer = consumer = AIOKafkaConsumer(
            bootstrap_servers=self.options.bootstrap,
            group_id=self.group,
            enable_auto_commit=False,
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
        )
        consumer.subscribe([place.topic], listener=self)
        await consumer.start()
        number = 0
        while not stopped.is_set():
            await consumer.getmany(timeout_ms=self.options.pause_ms)  # who does not poll is no member for long
            if place not in consumer.assignment():
                continue
            number += 1
            try:
                await consumer.commit({place: number})
                self.acknowledged(number, generation=consumer._coordinator.generation)  # noqa: SLF001 - no other way
                if number % _READ_EVERY == 0:
                    self.read(await self._committed(place))
            except AiokafkaError as error:
                self.refused(error)
        self.read(await self._committed(place))
        await consumer.stop()

    async def _committed(self, place: AiokafkaPartition) -> int:
        """Ask the coordinator: `committed()` answers from memory for what is assigned. aiokafka takes an error of the
        whole answer, such as NOT_COORDINATOR, for a group without offsets; one that has none says so each time."""
        coordinator = self._consumer._coordinator  # noqa: SLF001 - no other way
        for _ in range(_LOOKS):
            found = await coordinator.fetch_committed_offsets([place])
            if place in found:
                return int(found[place].offset)
            coordinator.coordinator_dead()
            await asyncio.sleep(_LOOK_PAUSE_S)
        return -1

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._consumer.pause(*assigned)
        self.tell("moved", why="assigned")

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.tell("moved", why="revoked")


class _OfMuster(_Clerk):
    async def work(self, stopped: threading.Event) -> None:
        """Join, commit and read until stopped."""
        place = MusterPartition(self.options.topic, 0)
        async with MusterConsumer(
            f"kafka://{self.options.bootstrap}",
            self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
        ) as consumer:

            def assigned(partitions: tuple[MusterPartition, ...]) -> None:
                consumer.pause(*partitions)
                self.tell("moved", why="assigned")

            consumer.subscribe(
                [place.topic],
                on_assigned=assigned,
                on_revoked=lambda _: self.tell("moved", why="revoked"),
                on_lost=lambda _: self.tell("moved", why="lost"),
            )
            number = 0
            while not stopped.is_set():
                try:
                    await consumer.poll(self.pause_s)
                    if place not in consumer.assignment:
                        continue
                    number += 1
                    await consumer.commit({place: number})
                    self.acknowledged(number)
                    if number % _READ_EVERY == 0:
                        self.read(await self._committed(consumer, place))
                except MusterError as error:
                    self.refused(error)
            self.read(await self._committed(consumer, place))

    @staticmethod
    async def _committed(consumer: MusterConsumer, place: MusterPartition) -> int:
        found = (await consumer.committed([place])).get(place)
        return -1 if found is None else found


def _threads(kind: type[_OfLibrdkafka], groups: list[str], options: argparse.Namespace) -> None:
    stopped = told_to_stop()
    threads = [threading.Thread(target=kind(group, options).work, args=(stopped,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _tasks(kind: type[_OfAiokafka] | type[_OfMuster], groups: list[str], options: argparse.Namespace) -> None:
    stopped = told_to_stop()

    async def work() -> None:
        await asyncio.gather(*[kind(group, options).work(stopped) for group in groups])

    asyncio.run(work())


_LIBRARIES: Mapping[str, Callable[[list[str], argparse.Namespace], None]] = {
    "confluent-kafka": lambda groups, options: _threads(_OfLibrdkafka, groups, options),
    "aiokafka": lambda groups, options: _tasks(_OfAiokafka, groups, options),
    "muster": lambda groups, options: _tasks(_OfMuster, groups, options),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m interop.nodes.in_python")
    parser.add_argument("library", choices=_LIBRARIES)
    for name in ("bootstrap", "topic", "group"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("count", "pause-ms"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    groups = [f"{options.group}-{number}" for number in range(options.count)]
    _LIBRARIES[options.library](groups, options)


if __name__ == "__main__":
    main()
