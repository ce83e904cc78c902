"""One group of our consumer and librdkafka's, eager and cooperative: whoever leads, both understand the shares."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer as Confluent
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as TheirPartition

from muster import Consumer, Producer, TopicPartition
from tests.edges.client_kafka.conftest import HEARTBEAT_MS, ConsumerFactory, Where

COOPERATIVE = ("cooperative-sticky", "cooperative-sticky")
EAGER = ("range", "range,roundrobin")
ROUND_ROBIN = ("roundrobin", "roundrobin")


class Theirs:
    """librdkafka's consumer; what it owns is what its callbacks say."""

    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str) -> None:
        self.owned: set[int] = set()
        self.read: Counter[tuple[int, int]] = Counter()
        self._consumer = Confluent(
            {
                "bootstrap.servers": bootstrap.removeprefix("kafka://"),
                "group.id": group,
                "partition.assignment.strategy": strategy,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "session.timeout.ms": 10_000,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def _assigned(self, consumer: Confluent, partitions: list[TheirPartition]) -> None:
        self.owned |= {one.partition for one in partitions}

    def _revoked(self, consumer: Confluent, partitions: list[TheirPartition]) -> None:
        with contextlib.suppress(KafkaException):  # there may be nothing to commit
            consumer.commit(asynchronous=False)
        self.owned -= {one.partition for one in partitions}

    def poll(self) -> None:
        message = self._consumer.poll(0.02)
        if message is not None and message.error() is None:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self.read[partition, offset] += 1

    def close(self) -> None:
        """Commits what it read, and leaves."""
        self._revoked(self._consumer, [])
        self._consumer.close()
        self.owned = set()


class Ours:
    def __init__(self, factory: ConsumerFactory, bootstrap: str, topic: str, assignors: str) -> None:
        self.owned: set[int] = set()
        self.revoked: set[int] = set()
        self.read: Counter[tuple[int, int]] = Counter()
        self.consumer: Consumer = factory.consumer(bootstrap, topic, assignors=assignors.split(","))
        self.consumer.subscribe([topic], on_assigned=self._assigned, on_revoked=self._revoked)

    def _assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.owned |= {one.partition for one in partitions}

    def _revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.consumer.commit()
        gone = {one.partition for one in partitions}
        self.owned -= gone
        self.revoked |= gone

    def poll(self) -> None:
        for record in self.consumer.poll(0.02):
            self.read[record.partition, record.offset] += 1


def until(condition: Callable[[], bool], *clients: Ours | Theirs, seconds: float = 40) -> bool:
    """Polls them in turns until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        for client in clients:
            client.poll()
    return True


@pytest.mark.parametrize(("theirs", "ours"), [COOPERATIVE, EAGER, ROUND_ROBIN])
@pytest.mark.parametrize("we_lead", [True, False])
def test_a_group_of_both_splits_hands_over_and_reads_each_record_once(
    where: Where, topic: str, name: str, factory: ConsumerFactory, theirs: str, ours: str, we_lead: bool
) -> None:
    with Producer(where.kafka) as producer:
        for number in range(200):
            producer.send(topic, str(number), partition=number % 4)

    def join_us() -> Ours:
        return Ours(factory, where.kafka, topic, ours)

    def join_them() -> Theirs:
        return Theirs(where.kafka, name, topic, theirs)

    mine: Ours | None = join_us() if we_lead else None
    others: Theirs | None = None if we_lead else join_them()
    first = mine or others
    assert first is not None
    assert until(lambda: first.owned == {0, 1, 2, 3}, first)
    mine, others = mine or join_us(), others or join_them()
    assert until(lambda: len(mine.owned) == len(others.owned) == 2 and not mine.owned & others.owned, mine, others)
    assert until(lambda: len(mine.read + others.read) == 200, mine, others)
    if we_lead and theirs == "cooperative-sticky":
        assert len(mine.revoked) == 2, "it lets go of what moves, and of nothing else"
    others.close()
    assert until(lambda: mine.owned == {0, 1, 2, 3}, mine)
    with Producer(where.kafka) as producer:
        for number in range(40):
            producer.send(topic, str(number), partition=number % 4)
    assert until(lambda: len(mine.read + others.read) == 240, mine)
    assert max((mine.read + others.read).values()) == 1, "nothing twice: each commits before it lets go"
