"""Our own clients beside brokers, told of Muster's native listener alone: records straight from the brokers, groups at
Muster. The brokers are another musterd with embedded topics, or the Apache Kafka at port TEST_BESIDE_KAFKA of this
machine, as `interop/beside_spark.py` has it; there is Spark, too."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient

from muster import (
    ClientBalancedConsumer,
    Consumer,
    GroupMember,
    Producer,
    RangeReader,
    TopicPartition,
)
from muster.aio import Consumer as AsyncConsumer
from muster.aio import Producer as AsyncProducer
from muster.streams import MessageStream, StreamsConnector
from tests.edges.musterd import Daemon, forget, free_port, running, within
from tests.edges.test_beside_brokers import Both, consumer_of, make_topic, produce, read, remote_ports

QUICK = "group.initial.rebalance.delay.ms=0"
KAFKA_PORT = os.environ.get("TEST_BESIDE_KAFKA")
VALUES = [b"%d" % number for number in range(300)]


@contextmanager
def brokers(folder: Path) -> Iterator[Daemon]:
    if KAFKA_PORT is None:
        with running(folder, QUICK, with_kafka=True) as broker:
            yield broker
        return
    elsewhere = Daemon(folder, with_kafka=True)
    elsewhere.kafka_port = int(KAFKA_PORT)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{KAFKA_PORT}"})
    if "orders" in admin.list_topics(timeout=30).topics:
        admin.delete_topics(["orders"])["orders"].result(30)
        assert within(30, lambda: "orders" not in admin.list_topics(timeout=30).topics)
    yield elsewhere


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    tmp_path, listener = tmp_path_factory.mktemp("native-beside"), free_port()
    settings = (QUICK, "upstream.refresh.ms=200", f"upstream.listener.ports={listener}")
    with brokers(tmp_path / "broker") as broker:
        upstream = f"upstream.servers=127.0.0.1:{broker.kafka_port}"
        with running(tmp_path / "front", *settings, upstream, with_kafka=True, with_http=True) as front:
            yield Both(broker, front, listener)


@pytest.fixture
def both(served: Both) -> Iterator[Both]:
    """The module's, without the topic and the group."""
    yield served
    forget(served.front, ["orders"], ["kitchen"])


def command(both: Both, *words: str) -> str:
    asked = [sys.executable, "-m", "muster.cli", "--bootstrap", both.front.bootstrap, *words]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def our_consumer(both: Both) -> Consumer:
    consumer = Consumer(both.front.bootstrap, "kitchen", auto_offset_reset="earliest")
    consumer.subscribe(["orders"])
    return consumer


def gather(count: int, *sources: Callable[[], list[bytes]]) -> list[bytes]:
    got: list[bytes] = []

    def has_all() -> bool:
        for source in sources:
            got.extend(source())
        return len(got) >= count

    assert within(20, has_all), got
    return got


def values_of(consumer: Consumer, count: int) -> list[bytes]:
    return gather(count, lambda: [one.value or b"" for one in consumer.poll(0.2)])


def test_a_consumer_and_a_producer_go_to_the_brokers_for_records_and_to_muster_for_the_group(both: Both) -> None:
    make_topic(both, "orders", 3)
    with Producer(both.front.bootstrap) as producer:
        sent = [producer.send("orders", value) for value in VALUES]
        assert all(one.result(20).offset >= 0 for one in sent)
        with our_consumer(both) as consumer:
            assert sorted(values_of(consumer, 300)) == sorted(VALUES)
            consumer.commit()
            ports = remote_ports()
            assert both.broker.kafka_port in ports
            assert both.listener not in ports
            assert both.front.port in ports
            assert consumer.end_offsets([TopicPartition("orders", 0)])
    assert both.groups_at_broker() == []
    assert "kitchen" in command(both, "groups", "list")
    assert "300" in command(both, "groups", "describe", "kitchen")


async def test_so_do_those_of_asyncio(both: Both) -> None:
    make_topic(both, "orders", 3)
    got: list[bytes] = []
    async with (
        AsyncProducer(both.front.bootstrap) as producer,
        AsyncConsumer(both.front.bootstrap, "kitchen", auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe(["orders"])
        for value in VALUES:
            await producer.send("orders", value)
        await producer.flush()
        async with asyncio.timeout(20):
            while len(got) < 300:
                got += [one.value or b"" for one in await consumer.poll(0.2)]
        await consumer.commit()
        ports = remote_ports()
    assert sorted(got) == sorted(VALUES)
    assert both.broker.kafka_port in ports
    assert both.listener not in ports
    assert both.groups_at_broker() == []


def test_a_stock_consumer_and_ours_share_a_group(both: Both) -> None:
    make_topic(both, "orders", 4)
    stock = consumer_of(both)
    stock.subscribe(["orders"])
    assert within(20, lambda: stock.poll(0.1) is None and len(stock.assignment()) == 4)
    with our_consumer(both) as ours:
        assert within(
            20,
            lambda: (
                ours.poll(0.1) == []
                and stock.poll(0.1) is None
                and (len(ours.assignment), len(stock.assignment())) == (2, 2)
            ),
        )
        for partition in range(4):
            produce(both, "orders", [b"%d" % partition], partitioner="random")
        got = gather(4, lambda: [one.value or b"" for one in ours.poll(0.1)], lambda: read(stock, 1, 0.1))
        assert sorted(got) == [b"0", b"1", b"2", b"3"]
    stock.close()
    assert both.groups_at_broker() == []


def test_a_member_without_records_and_a_reader_of_ranges_share_the_work(both: Both) -> None:
    """The driver of Spark and its tasks divide the work in this way."""
    make_topic(both, "orders", 1)
    produce(both, "orders", VALUES)
    one = TopicPartition("orders", 0)
    with GroupMember(both.front.bootstrap, "kitchen", ["orders"]) as member:
        assert within(20, lambda: member.poll(0.1))
        assert (member.begin_offsets([one]), member.end_offsets([one])) == ({one: 0}, {one: 300})
        with RangeReader(both.front.bootstrap, "orders", 0, 100, 200) as reader:
            assert [record.value for record in reader.records()] == VALUES[100:200]
            assert both.broker.kafka_port in remote_ports()
        assert both.listener not in remote_ports()
        member.commit({one: 200})
        assert member.committed([one]) == {one: 200}
    assert both.groups_at_broker() == []


def test_streams_read_at_the_brokers_what_the_registry_here_grants_them(both: Both) -> None:
    make_topic(both, "orders", 2)
    produce(both, "orders", VALUES)
    got: list[bytes] = []
    with StreamsConnector(
        both.front.bootstrap, "kitchen", auto_offset_reset="smallest", session_timeout_ms=6_000
    ) as connector:
        streams = connector.create_message_streams({"orders": 2})["orders"]

        def take(stream: MessageStream) -> None:
            got.extend(message.value for message in stream)

        threads = [threading.Thread(target=take, args=(stream,), daemon=True) for stream in streams]
        for thread in threads:
            thread.start()
        assert within(20, lambda: len(got) >= 300)
        assert both.broker.kafka_port in remote_ports()
        assert both.listener not in remote_ports()
    assert sorted(got) == sorted(VALUES)
    assert "orders" in command(both, "groups", "describe", "kitchen")


@pytest.mark.skipif(KAFKA_PORT is not None, reason="those brokers are not ours to kill")
def test_who_reads_and_writes_goes_on_while_muster_restarts_and_when_the_broker_is_back(both: Both) -> None:
    make_topic(both, "orders", 1)
    with (
        Producer(both.front.bootstrap) as producer,
        our_consumer(both) as consumer,
    ):
        producer.send("orders", b"before").result(20)
        assert values_of(consumer, 1) == [b"before"]
        both.front.kill()
        producer.send("orders", b"without muster").result(20)
        assert values_of(consumer, 1) == [b"without muster"]
        both.front.start()
        both.broker.kill()
        late = producer.send("orders", b"without the broker")
        both.broker.start()
        late.result(30)
        assert values_of(consumer, 1) == [b"without the broker"]
        consumer.commit()
        assert consumer.committed([TopicPartition("orders", 0)])[TopicPartition("orders", 0)] == 3
    assert within(30, lambda: has_found_its_broker(both.front)), "the tests that follow ask it for topics"


def has_found_its_broker(front: Daemon) -> bool:
    with urlopen(f"http://127.0.0.1:{front.http_port}/readyz", timeout=10) as answer:
        reachable: bool = json.load(answer)["upstream"]["reachable"]
    return reachable


def test_topics_are_made_and_looked_at_natively(both: Both) -> None:
    assert "orders" in command(both, "topics", "create", "orders", "--partitions", "3")
    with Producer(both.front.bootstrap) as producer:
        producer.send("orders", b"1", partition=2).result(20)
    assert "orders" in command(both, "topics", "list")
    with RangeReader(both.front.bootstrap, "orders", 2, 0, 1) as reader:
        assert [record.value for record in reader.records()] == [b"1"]
    command(both, "topics", "delete", "orders", "--yes")
    assert "orders" not in command(both, "topics", "list")


def test_client_balanced_groups_are_refused_since_their_records_come_from_the_node(both: Both) -> None:
    make_topic(both, "orders", 1)
    with ClientBalancedConsumer(both.front.bootstrap, "kitchen") as consumer:
        refused = consumer.start({"orders": None})
    assert not refused.ok
    assert "ask its brokers" in refused.msg
