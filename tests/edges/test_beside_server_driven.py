"""Groups that musterd balances in front of a broker (KIP-848), over real sockets: stock clients, and our own in the
same group. The broker is another musterd, with embedded topics, which serves classic groups alone."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer as StockConsumer
from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka import ConsumerGroupType as GroupType
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from muster import Consumer
from tests.edges.musterd import Daemon, free_port, running, within

PATIENCE_S = 120.0
SETTINGS = (
    "group.consumer.min.heartbeat.interval.ms=1",
    "group.consumer.heartbeat.interval.ms=200",
    "group.consumer.assignment.interval.ms=0",
    "upstream.refresh.ms=200",
    "upstream.metadata.max.age.ms=1000",
)


class Both:
    """A broker, and Muster in front of it."""

    def __init__(self, broker: Daemon, front: Daemon) -> None:
        self.broker = broker
        self.front = front
        self.address = f"127.0.0.1:{front.kafka_port}"
        self.admin = AdminClient({"bootstrap.servers": self.address})

    def groups_at_broker(self) -> list[str]:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.broker.kafka_port}"})
        return [group.group_id for group in admin.list_consumer_groups().result(60).valid]

    def make_topic(self, name: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)

    def produce(self, topic: str, values: list[bytes], partitions: int) -> None:
        producer = Producer({"bootstrap.servers": self.address})
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % partitions)
        assert producer.flush(60) == 0

    def stock(self, group: str, topics: list[str]) -> StockConsumer:
        consumer = StockConsumer(
            {
                "bootstrap.servers": self.address,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )
        consumer.subscribe(topics)
        return consumer


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("beside")
    listener = f"upstream.listener.ports={free_port()}"
    with running(folder / "broker", with_kafka=True) as broker:
        upstream = f"upstream.servers=127.0.0.1:{broker.kafka_port}"
        with running(folder / "front", *SETTINGS, listener, upstream, with_kafka=True) as front:
            yield Both(broker, front)


def take(consumer: StockConsumer, values: list[bytes]) -> None:
    """Poll once, and keep what comes."""
    message = consumer.poll(0.05)
    if message is not None and message.error() is None:
        values.append(message.value() or b"")


def test_stock_clients_and_ours_share_the_clusters_topic(both: Both) -> None:
    both.make_topic("orders", 4)
    sent = [b"%d" % number for number in range(200)]
    both.produce("orders", sent, 4)
    first, values = both.stock("kitchen", ["orders"]), list[bytes]()

    def alone() -> bool:
        take(first, values)
        return len(values) >= 200

    assert within(PATIENCE_S, alone, every_s=0)
    first.commit(asynchronous=False)
    ours = Consumer(f"kafka://{both.address}", "kitchen", auto_offset_reset="earliest", enable_auto_commit=False,
                    group_protocol="consumer")  # fmt: skip
    ours.subscribe(["orders"])
    native = Consumer(both.front.bootstrap, "kitchen", auto_offset_reset="earliest", enable_auto_commit=False,
                      group_protocol="auto")  # fmt: skip
    native.subscribe(["orders"])

    def poll_all() -> None:
        take(first, values)
        for one in (ours, native):
            values.extend(record.value or b"" for record in one.poll(0.05))

    def shared() -> bool:
        poll_all()
        return sorted([len(first.assignment()), len(ours.assignment), len(native.assignment)]) == [1, 1, 2]

    assert within(PATIENCE_S, shared, every_s=0)
    both.admin.create_partitions([NewPartitions("orders", 6)])["orders"].result(60)

    def grown() -> bool:
        poll_all()
        return len(first.assignment()) == len(ours.assignment) == len(native.assignment) == 2

    assert within(PATIENCE_S, grown, every_s=0), "the new partitions are found, and assigned"
    later = [b"+%d" % number for number in range(120)]
    both.produce("orders", later, 6)

    def all_read() -> bool:
        poll_all()
        return set(values) >= {*sent, *later}

    assert within(PATIENCE_S, all_read, every_s=0)

    def is_stable() -> bool:
        poll_all()
        described = both.admin.describe_consumer_groups(["kitchen"])["kitchen"].result(60)
        assert described.type == GroupType.CONSUMER
        return described.state == ConsumerGroupState.STABLE and len(described.members) == 3

    assert within(PATIENCE_S, is_stable)
    listed = both.admin.list_consumer_groups(types={GroupType.CONSUMER}).result(60).valid
    assert [one.group_id for one in listed] == ["kitchen"]
    assert both.groups_at_broker() == [], "the cluster's own coordinator hears of nothing"
    native.close()
    ours.close()
    first.close()


@pytest.mark.long
def test_a_pattern_of_a_stock_client_finds_topics_as_they_are_made(both: Both) -> None:
    both.make_topic("pay-1", 1)
    both.produce("pay-1", [b"one"], 1)
    consumer, values = both.stock("payers", ["^pay-.*"]), list[bytes]()

    def has(*wanted: bytes) -> bool:
        take(consumer, values)
        return set(values) == set(wanted)

    assert within(PATIENCE_S, lambda: has(b"one"), every_s=0)
    both.make_topic("pay-2", 1)
    both.produce("pay-2", [b"two"], 1)
    assert within(PATIENCE_S, lambda: has(b"one", b"two"), every_s=0)
    consumer.close()
