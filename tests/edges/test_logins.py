"""Logins of stock Kafka clients at a real daemon: PLAIN and SCRAM, and what happens to those who are refused."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import aiokafka
import aiokafka.errors
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaAdminClient

from tests.edges.musterd import Daemon, running

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WAIT_S = 20.0


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(
        tmp_path_factory.mktemp("logins") / "data",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
        "initial.admin=root:first secret",
        "connections.max.reauth.ms=1500",
        "group.initial.rebalance.delay.ms=0",
        with_kafka=True,
    ) as one:
        admin = AdminClient(login(one, "PLAIN"))
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(WAIT_S)
        yield one


def login(daemon: Daemon, mechanism: str, password: str = "first secret") -> dict[str, Any]:
    """librdkafka's settings."""
    return {
        "bootstrap.servers": f"127.0.0.1:{daemon.kafka_port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "root",
        "sasl.password": password,
    }


def python_login(daemon: Daemon, mechanism: str, password: str = "first secret") -> dict[str, Any]:
    """Settings of aiokafka and kafka-python."""
    return {
        "bootstrap_servers": f"127.0.0.1:{daemon.kafka_port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "root",
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_reads_and_commits_beyond_the_life_of_its_login(daemon: Daemon, mechanism: str) -> None:
    group = {"group.id": f"confluent-{mechanism}", "auto.offset.reset": "earliest"}
    producer = Producer(login(daemon, mechanism))
    consumer = Consumer(login(daemon, mechanism) | group)
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
    producer = aiokafka.AIOKafkaProducer(**python_login(daemon, mechanism))
    consumer = aiokafka.AIOKafkaConsumer(
        "orders",
        group_id=f"aiokafka-{mechanism}",
        auto_offset_reset="earliest",
        **python_login(daemon, mechanism),
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
    admin = KafkaAdminClient(**python_login(daemon, mechanism))
    try:
        admin.list_groups()
    finally:
        admin.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_to_librdkafka(daemon: Daemon, mechanism: str) -> None:
    errors: list[str] = []
    settings = login(daemon, mechanism, "second secret") | {"error_cb": lambda error: errors.append(str(error))}
    admin = AdminClient(settings)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(0)
    assert any("invalid credentials" in error for error in errors), errors


async def test_a_wrong_password_and_no_login_are_refused_to_aiokafka(daemon: Daemon) -> None:
    settings = python_login(daemon, "SCRAM-SHA-256", "second secret")
    for refused in (settings, {"bootstrap_servers": settings["bootstrap_servers"]}):
        producer = aiokafka.AIOKafkaProducer(**refused)
        with pytest.raises(aiokafka.errors.KafkaError):
            await producer.start()
        await producer.stop()


def test_no_password_is_in_the_log(daemon: Daemon) -> None:
    with pytest.raises(KafkaException):
        AdminClient(login(daemon, "PLAIN", "second secret")).list_topics(timeout=1)
    log = (daemon.folder.parent / f"{daemon.folder.name}.log").read_text()
    assert "a login as 'root' from 127.0.0.1 failed" in log
    assert "second secret" not in log and "first secret" not in log
