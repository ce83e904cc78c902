"""Consumers of librdkafka with `group.protocol=consumer`: the coordinator assigns their partitions."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.edges.musterd import Daemon, running, within

ALL = [0, 1, 2, 3]
SETTINGS = (
    "group.consumer.heartbeat.interval.ms=300",
    "group.consumer.assignment.interval.ms=0",
    "group.consumer.session.timeout.ms=3000",
    "group.consumer.min.session.timeout.ms=3000",
    "group.consumer.min.heartbeat.interval.ms=300",
)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path / "data", *SETTINGS, with_kafka=True) as one:
        admin = AdminClient({"bootstrap.servers": _address(one)})
        for made in admin.create_topics([NewTopic("orders", 4, 1)]).values():
            made.result()
        yield one


def _address(daemon: Daemon) -> str:
    return f"127.0.0.1:{daemon.kafka_port}"


class Reader:
    """A consumer that polls whenever the test waits for anything."""

    def __init__(self, stack: ExitStack, daemon: Daemon, *topics: str, **settings: Any) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": _address(daemon),
                "group.id": "g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self.got: list[bytes] = []
        self._consumer.subscribe(list(topics or ("orders",)))
        self._is_open = True
        stack.callback(self.close)

    def poll(self) -> bool:
        message = self._consumer.poll(0.02)
        if message is not None and not message.error():
            self.got.append(message.value() or b"")
        return True

    @property
    def partitions(self) -> list[int]:
        return sorted(one.partition for one in self._consumer.assignment())

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def committed(self) -> list[int]:
        return [one.offset for one in self._consumer.committed([TopicPartition("orders", number) for number in ALL])]

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._consumer.close()


def reaches(seconds: float, readers: list[Reader], *shares: list[int]) -> bool:
    def holds() -> bool:
        for reader in readers:
            reader.poll()
        return sorted(reader.partitions for reader in readers) == sorted(shares)

    return within(seconds, holds)


def test_members_share_commit_leave_and_outlive_the_daemon(daemon: Daemon) -> None:
    producer = Producer({"bootstrap.servers": _address(daemon)})
    for number in range(40):
        producer.produce("orders", b"%d" % number, partition=number % 4)
    producer.flush()
    with ExitStack() as stack:
        first = Reader(stack, daemon)
        assert reaches(10, [first], ALL)
        assert within(10, lambda: first.poll() and len(first.got) == 40)
        first.commit()
        second = Reader(stack, daemon)
        assert reaches(10, [first, second], [0, 1], [2, 3])
        daemon.kill()
        daemon.start()
        assert reaches(10, [first, second], [0, 1], [2, 3])
        assert second.committed() == [10] * 4
        admin = AdminClient({"bootstrap.servers": _address(daemon)})
        (listed,) = admin.list_consumer_groups().result().valid
        assert (listed.group_id, listed.state, listed.type) == (
            "g",
            ConsumerGroupState.STABLE,
            ConsumerGroupType.CONSUMER,
        )
        described = admin.describe_consumer_groups(["g"])["g"].result()
        shares = [sorted(one.partition for one in m.assignment.topic_partitions) for m in described.members]
        assert sorted(shares) == [[0, 1], [2, 3]]
        first.close()
        assert reaches(10, [second], ALL)
        assert not second.got, "everything was committed"


def test_static_members_come_back_and_patterns_see_new_topics(daemon: Daemon) -> None:
    with ExitStack() as stack:
        static = Reader(stack, daemon, group_instance_id="i")
        assert reaches(10, [static], ALL)
        other = Reader(stack, daemon, "^order.*")
        assert within(
            10, lambda: static.poll() and other.poll() and len(static.partitions) == len(other.partitions) == 2
        )
        kept, held = static.partitions, other.partitions
        static.close()
        again = Reader(stack, daemon, group_instance_id="i")
        assert reaches(10, [again, other], kept, held)
