"""Logins of stock Kafka clients at a real daemon: PLAIN and SCRAM, and what happens to those who are refused."""

import asyncio
import time
from collections.abc import Iterator

import aiokafka
import aiokafka.errors
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaAdminClient

from tests.edges.logins import MECHANISMS, PASSWORD, WAIT_S, hears, librdkafka, python
from tests.edges.musterd import Daemon, running, within


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(
        tmp_path_factory.mktemp("logins") / "data",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
        f"initial.admin=root:{PASSWORD}",
        "connections.max.reauth.ms=1500",
        "group.initial.rebalance.delay.ms=0",
        with_kafka=True,
    ) as one:
        admin = AdminClient(librdkafka(one, "PLAIN"))
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(WAIT_S)
        yield one


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_reads_and_commits_beyond_the_life_of_its_login(daemon: Daemon, mechanism: str) -> None:
    group = {"group.id": f"confluent-{mechanism}", "auto.offset.reset": "earliest"}
    producer = Producer(librdkafka(daemon, mechanism))
    consumer = Consumer(librdkafka(daemon, mechanism) | group)
    try:
        consumer.subscribe(["orders"])
        ends_at = time.monotonic() + 3  # two logins of 1.5 seconds
        seen = 0
        while time.monotonic() < ends_at or not seen:
            producer.produce("orders", mechanism.encode())
            producer.flush(WAIT_S)
            message = consumer.poll(0.3)
            if message is not None:
                assert message.error() is None
                seen += 1
        done = consumer.commit(asynchronous=False)
        assert done and done[0].error is None and done[0].offset > 0
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_writes_and_reads(daemon: Daemon, mechanism: str) -> None:
    producer = aiokafka.AIOKafkaProducer(**python(daemon, mechanism))
    consumer = aiokafka.AIOKafkaConsumer(
        "orders",
        group_id=f"aiokafka-{mechanism}",
        auto_offset_reset="earliest",
        **python(daemon, mechanism),
    )
    async with asyncio.timeout(WAIT_S):
        await producer.start()
        await producer.send_and_wait("orders", b"x")
        await producer.stop()
        await consumer.start()
        assert (await consumer.getone()).topic == "orders"
        await consumer.commit()
        await consumer.stop()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_lists_groups(daemon: Daemon, mechanism: str) -> None:
    admin = KafkaAdminClient(**python(daemon, mechanism))
    try:
        admin.list_groups()
    finally:
        admin.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_to_librdkafka(daemon: Daemon, mechanism: str) -> None:
    assert hears(librdkafka(daemon, mechanism, password="second secret"), "invalid credentials")


async def test_a_wrong_password_and_no_login_are_refused_to_aiokafka(daemon: Daemon) -> None:
    settings = python(daemon, "SCRAM-SHA-256", "second secret")
    for refused in (settings, {"bootstrap_servers": settings["bootstrap_servers"]}):
        producer = aiokafka.AIOKafkaProducer(**refused)
        with pytest.raises(aiokafka.errors.KafkaError):
            await producer.start()
        await producer.stop()


def test_no_password_is_in_the_log(daemon: Daemon) -> None:
    assert hears(librdkafka(daemon, "PLAIN", password="second secret"), "invalid credentials")
    log = daemon.folder.parent / f"{daemon.folder.name}.log"
    assert within(WAIT_S, lambda: "a login as 'root' from 127.0.0.1 failed" in log.read_text())
    assert "second secret" not in log.read_text() and PASSWORD not in log.read_text()
