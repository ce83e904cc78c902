"""Muster's own client over Kafka's protocol, against musterd's Kafka listener or any other server.

`TEST_CLIENT_BOOTSTRAP=kafka://HOST:PORT` points the tests at another server, an Apache Kafka for instance. Names are
what keeps tests apart; what needs the native protocol beside is left out there.
"""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from muster import Consumer, Refused, TopicPartition
from muster.blocking import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from tests.edges.musterd import running, within

SETTINGS = ("group.initial.rebalance.delay.ms=0",)
HEARTBEAT_MS = 300


class Where(NamedTuple):
    """The server under test; `native` is None if it has no native listener."""

    kafka: str
    native: str | None


@pytest.fixture(scope="session")
def where(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Where]:
    elsewhere = os.environ.get("TEST_CLIENT_BOOTSTRAP")
    if elsewhere:
        yield Where(elsewhere, None)
        return
    with running(tmp_path_factory.mktemp("client-kafka") / "data", *SETTINGS, with_kafka=True) as daemon:
        yield Where(f"kafka://127.0.0.1:{daemon.kafka_port}", daemon.bootstrap)


@pytest.fixture
def topic(where: Where, name: str) -> str:
    """Create a topic with four partitions."""
    make_topic(where, name, 4)
    return name


def make_topic(where: Where, name: str, partitions: int) -> None:
    """Create a topic, and return once it can be used: a broker learns of a new topic later than the controller, and
    creates its logs later still."""
    with ClusterClient(where.kafka) as connection:
        reply = connection.ask(CreateTopics((CreatableTopic(name, partitions, 1),)))
        assert isinstance(reply, CreateTopicsReply)
        assert reply.topics[0].error_code == ErrorCode.NONE
    cluster = ClusterClient(where.kafka)
    assert within(10, lambda: _is_there(cluster, name, partitions))
    cluster.close()


def _is_there(cluster: ClusterClient, topic: str, partitions: int) -> bool:
    try:
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        return len(cluster.offsets(wanted, -1)) == partitions
    except Refused as refused:
        if refused.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return False


class ConsumerFactory:
    """Makes consumers and closes those that the test left open."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._open: list[Consumer] = []

    def consumer(self, bootstrap: str, topic: str, **settings: object) -> Consumer:
        given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": HEARTBEAT_MS}
        consumer = Consumer(bootstrap, self._group, **{**given, **settings})  # type: ignore[arg-type]
        consumer.subscribe([topic])
        self._open.append(consumer)
        return consumer

    def close(self) -> None:
        for consumer in self._open:
            consumer.close()


@pytest.fixture
def factory(name: str) -> Iterator[ConsumerFactory]:
    factory = ConsumerFactory(name)
    yield factory
    factory.close()


def poll_until(holds: Callable[[], bool], *consumers: Consumer, seconds: float = 20.0) -> list[bytes]:
    """Poll with all consumers in turn; return the values read meanwhile."""
    values: list[bytes] = []

    def poll() -> bool:
        for consumer in consumers:
            values.extend(record.value or b"" for record in consumer.poll(0.05))
        return holds()

    assert within(seconds, poll, every_s=0), [consumer.assignment for consumer in consumers]
    return values
