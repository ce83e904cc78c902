"""Polling, interceptors and metrics of the asyncio client against a real `musterd`, in both dialects."""

import asyncio
import re
import secrets
import signal
from collections.abc import Iterator, Mapping

import pytest

from muster import (
    ConsumerInterceptor,
    ConsumerRecord,
    MusterError,
    OffsetToCommit,
    ProducerInterceptor,
    ProducerRecord,
    TopicPartition,
    WokenUp,
    Written,
)
from muster.aio import Consumer, Producer
from muster.metrics import collector
from tests.edges.musterd import Daemon, running
from tests.edges.test_aio import create

SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("aio-interceptors") / "data", *SETTINGS, with_kafka=True) as daemon:
        yield daemon


@pytest.fixture(params=["native", "kafka"])
def bootstrap(daemon: Daemon, request: pytest.FixtureRequest) -> str:
    return daemon.bootstrap if request.param == "native" else f"kafka://127.0.0.1:{daemon.kafka_port}"


@pytest.fixture
def topic(daemon: Daemon, request: pytest.FixtureRequest) -> str:
    """One of two partitions, and the name of a group too."""
    name = f"{re.sub('[^a-z0-9]+', '-', request.node.name.lower())[:60]}-{secrets.token_hex(3)}"
    create(daemon, name, 2)
    return name


def consumer_of(bootstrap: str, topic: str, *interceptors: ConsumerInterceptor) -> Consumer:
    consumer = Consumer(
        bootstrap, topic, auto_offset_reset="earliest", enable_auto_commit=False, interceptors=interceptors
    )
    consumer.subscribe([topic])
    return consumer


async def steady(consumer: Consumer) -> None:
    async with asyncio.timeout(60):
        while len(consumer.positions()) < 2:
            await consumer.poll(0.05)


async def produce(bootstrap: str, topic: str, *values: bytes) -> None:
    async with Producer(bootstrap) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value, partition=number % 2)


async def test_a_poll_without_data_lasts_its_time_and_fetches_twice_a_second(bootstrap: str, topic: str) -> None:
    async with consumer_of(bootstrap, topic) as consumer:
        await steady(consumer)
        loop = asyncio.get_running_loop()
        fetches, began = consumer.metrics()["fetch-total"], loop.time()
        assert await consumer.poll(2.0) == []
        assert 2.0 <= loop.time() - began < 4.0
        assert 1 <= consumer.metrics()["fetch-total"] - fetches <= 6


async def test_a_wakeup_that_meets_records_is_raised_once_and_loses_none(bootstrap: str, topic: str) -> None:
    async with consumer_of(bootstrap, topic) as consumer:
        await steady(consumer)
        values, woken = list[bytes](), 0
        for number in range(5):
            await produce(bootstrap, topic, b"%d" % number)
            asyncio.get_running_loop().call_later(number / 1000, consumer.wakeup)
            async with asyncio.timeout(60):
                while len(values) < number + 1 or woken < number + 1:
                    try:
                        values += [record.value for record in await consumer.poll(0.5)]
                    except WokenUp:
                        woken += 1
        assert (woken, values) == (5, [b"%d" % number for number in range(5)])


async def test_records_can_be_had_by_partition(bootstrap: str, topic: str) -> None:
    await produce(bootstrap, topic, b"0", b"1", b"2", b"3")
    async with consumer_of(bootstrap, topic) as consumer:
        seen: dict[TopicPartition, list[bytes]] = {}
        async with asyncio.timeout(60):
            while sum(map(len, seen.values())) < 4:
                for one, records in (await consumer.poll(0.2, by_partition=True)).items():
                    seen.setdefault(one, []).extend(record.value for record in records)
        assert seen == {TopicPartition(topic, 0): [b"0", b"2"], TopicPartition(topic, 1): [b"1", b"3"]}
        assert await consumer.poll(0.0, by_partition=True) == {}


class Doubles(ConsumerInterceptor):
    """Interceptor of coroutine functions. Its first `on_consume` lasts as long as the test wants."""

    def __init__(self) -> None:
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self.committed: list[dict[TopicPartition, int]] = []
        self.is_closed = False

    async def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        self.begun.set()
        await self.goes_on.wait()
        return [
            ConsumerRecord(one.topic, one.partition, one.offset, one.timestamp_ms, one.key, one.value * 2)
            for one in records
        ]

    async def on_commit(self, offsets: Mapping[TopicPartition, OffsetToCommit]) -> None:
        await asyncio.sleep(0)
        self.committed.append({one: at.offset for one, at in offsets.items()})

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.is_closed = True


async def test_interceptors_may_be_coroutines_and_one_that_is_cancelled_loses_nothing(
    bootstrap: str, topic: str
) -> None:
    await produce(bootstrap, topic, b"a")
    doubles = Doubles()
    consumer = consumer_of(bootstrap, topic, doubles)
    polling = asyncio.create_task(consumer.poll(15.0))
    await asyncio.wait_for(doubles.begun.wait(), 15)
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    doubles.goes_on.set()
    assert [record.value for record in await consumer.poll(15.0)] == [b"aa"]
    await consumer.commit()
    assert doubles.committed == [{TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 0}]
    await consumer.close()
    assert doubles.is_closed


class Shouts(ProducerInterceptor):
    def __init__(self) -> None:
        self.heard: list[tuple[Written, Exception | None]] = []
        self.is_closed = False

    async def on_send(self, record: ProducerRecord) -> ProducerRecord:
        await asyncio.sleep(0)
        assert isinstance(record.value, bytes)
        return ProducerRecord(record.topic, record.value.upper(), record.key, record.partition)

    def on_acknowledgement(self, written: Written, error: Exception | None) -> None:
        assert not self.is_closed
        self.heard.append((written, error))

    def close(self) -> None:
        self.is_closed = True


async def test_a_producer_s_interceptors_see_records_go_and_arrive(bootstrap: str, topic: str) -> None:
    shouts = Shouts()
    async with Producer(bootstrap, interceptors=[shouts]) as producer:
        written = await (await producer.send(topic, b"quiet", partition=1)).result()
        with pytest.raises(ValueError, match="has partitions 0 to 1"):
            await producer.send(topic, b"x", partition=7)
        assert [(one.partition, one.offset, error is None) for one, error in shouts.heard] == [
            (1, 0, True),
            (7, -1, False),
        ]
        assert shouts.heard[0][0] == written
        last = await producer.send(topic, b"last", partition=0)
    assert shouts.heard[-1] == (await last.result(), None)
    assert shouts.is_closed
    assert producer.metrics()["record-send-total"] == 2
    async with consumer_of(bootstrap, topic) as consumer:
        values: list[bytes] = []
        async with asyncio.timeout(60):
            while len(values) < 2:
                values += [record.value for record in await consumer.poll(0.2)]
    assert sorted(values) == [b"LAST", b"QUIET"]


async def test_what_is_given_up_at_close_is_heard_of_before_the_chain_is_closed(daemon: Daemon, topic: str) -> None:
    shouts = Shouts()
    producer = Producer(daemon.bootstrap, interceptors=[shouts])
    await (await producer.send(topic, b"first", partition=0)).result()
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        await producer.send(topic, b"never", partition=0)
        with pytest.raises(MusterError):
            await producer.close(0.2)
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert [error is not None for _written, error in shouts.heard] == [False, True] and shouts.is_closed


async def test_metrics_can_be_collected_in_the_loop(bootstrap: str, topic: str) -> None:
    await produce(bootstrap, topic, b"a", b"b")
    async with consumer_of(bootstrap, topic) as consumer:
        async with asyncio.timeout(60):
            while consumer.metrics()["records-consumed-total"] < 2:
                await consumer.poll(0.2)
        await consumer.commit()
        read = consumer.metrics()
        assert read["rebalance-total"] == read["commit-total"] == 1
        assert 0 <= read["commit-latency-avg"] < 5_000 and 0 <= read["fetch-latency-avg"] < 5_000
        families = {family.name: family for family in collector(consumer).collect()}
        assert [sample.value for sample in families["muster_consumer_records_lag"].samples] == [0, 0]
