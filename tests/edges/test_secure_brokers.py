"""Our own clients at an Apache Kafka that wants TLS and logins, and beside it. Skipped as `test_tls_kafka.py` is."""

import time
from pathlib import Path

import pytest

import muster.aio
from muster import AuthenticationFailed, Consumer, Producer, Security
from muster.blocking import ClusterClient
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.certificates import Folder
from tests.edges.musterd import running, within
from tests.edges.test_tls_kafka import NAME, Kafka, kafka

__all__ = ["kafka"]  # a fixture

pytestmark = [pytest.mark.xdist_group("kafka with tls"), pytest.mark.long, pytest.mark.timeout(180)]
WAIT_S = 30.0


def login(kafka: Kafka, mechanism: str, password: str = "wunder", folder: Folder | None = None) -> Security:
    return Security(
        protocol="SASL_SSL",
        ca_location=str((folder or kafka.folder).ca),
        mechanism=mechanism,
        username="alice",
        password=password,
    )


def make(where: str, security: Security, topic: str) -> None:
    with ClusterClient(where, security=security) as connection:
        connection.ask(CreateTopics((CreatableTopic(topic, 1, 1),)))


def round_trip(where: str, group: str, topic: str, security: object, brokers: object = None) -> list[bytes | None]:
    how = {"security": security, "broker_security": brokers}
    with Producer(where, **how) as producer:  # type: ignore[arg-type]
        for number in range(20):
            producer.send(topic, str(number))
    got: list[bytes | None] = []
    with Consumer(where, group, auto_offset_reset="earliest", **how) as consumer:  # type: ignore[arg-type]
        consumer.subscribe([topic])

        def has_all() -> bool:
            got.extend(record.value for record in consumer.poll(0.5))
            return len(got) >= 20

        within(WAIT_S, has_all)
        consumer.commit()
    return got


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_whoever_has_the_password_writes_and_reads(kafka: Kafka, mechanism: str) -> None:
    where, topic = f"kafka://127.0.0.1:{kafka.sasl_port}", f"by-{mechanism}"
    security = login(kafka, mechanism)
    make(where, security, topic)
    assert round_trip(where, topic, topic, security) == [str(number).encode() for number in range(20)]


def test_so_does_whoever_has_a_certificate(kafka: Kafka) -> None:
    where, shown = f"kafka://127.0.0.1:{kafka.ssl_port}", str(kafka.folder.client)
    security = Security(protocol="SSL", ca_location=str(kafka.folder.ca), certificate_location=shown)
    make(where, security, "shown")
    assert len(round_trip(where, "shown", "shown", security)) == 20
    with (
        ClusterClient(where, security=Security(protocol="SSL", ca_location=str(kafka.folder.ca))) as connection,
        pytest.raises(AuthenticationFailed, match=r"our certificate, or requires one"),
    ):
        connection.ask(CreateTopics(()))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_whoever_has_not_is_told_in_the_brokers_words(kafka: Kafka, mechanism: str) -> None:
    consumer = Consumer(f"kafka://127.0.0.1:{kafka.sasl_port}", "g", security=login(kafka, mechanism, "guessed"))
    consumer.subscribe(["t"])
    with pytest.raises(AuthenticationFailed, match=f"'alice' is not let in by {mechanism}: Authentication failed"):
        consumer.poll(WAIT_S)
    consumer.close(0)


def test_a_broker_of_another_authority_is_not_believed(kafka: Kafka, tmp_path: Path) -> None:
    security = login(kafka, "PLAIN", folder=Folder(tmp_path / "strange"))
    producer = Producer(f"kafka://127.0.0.1:{kafka.sasl_port}", security=security)
    with pytest.raises(AuthenticationFailed, match="its certificate is not believed"):
        producer.send("t", b"x")
    producer.close(0)


async def test_logins_that_end_after_seconds_are_renewed_and_nothing_is_noticed(kafka: Kafka) -> None:
    """Its `connections.max.reauth.ms` is 4 seconds."""
    where, security = f"kafka://127.0.0.1:{kafka.sasl_port}", login(kafka, "SCRAM-SHA-512")
    make(where, security, "renewed")
    got: list[bytes | None] = []
    sent = 0
    async with (
        muster.aio.Producer(where, security=security) as producer,
        muster.aio.Consumer(where, "renewed", security=security, auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe(["renewed"])
        deadline = time.monotonic() + 12
        while time.monotonic() < deadline:
            await producer.send("renewed", str(sent))
            await producer.flush(WAIT_S)
            sent += 1
            got += [record.value for record in await consumer.poll(0.2)]
        while len(got) < sent and time.monotonic() < deadline + WAIT_S:
            got += [record.value for record in await consumer.poll(0.5)]
        assert consumer._driver.last_failure == producer._driver.last_failure == ""
    assert got == [str(number).encode() for number in range(sent)]


def test_beside_it_a_native_client_logs_in_at_the_brokers_alone(kafka: Kafka, tmp_path: Path) -> None:
    at_brokers = login(kafka, "SCRAM-SHA-256")
    make(f"kafka://127.0.0.1:{kafka.sasl_port}", at_brokers, "beside")
    upstream = (
        f"upstream.servers=127.0.0.1:{kafka.sasl_port}",
        "upstream.security.protocol=SASL_SSL",
        f"upstream.ssl.ca.location={kafka.folder.ca}",
        *NAME,
    )
    settings = ("group.initial.rebalance.delay.ms=0", *kafka.folder.listening(), *upstream)
    with running(tmp_path / "data", *settings, with_kafka=True) as daemon:
        at_muster = Security(protocol="SSL", ca_location=str(kafka.folder.ca))
        assert len(round_trip(daemon.bootstrap, "beside", "beside", at_muster, at_brokers)) == 20
        wrong = login(kafka, "SCRAM-SHA-256", "guessed")
        consumer = Consumer(daemon.bootstrap, "wrong", security=at_muster, broker_security=wrong)
        consumer.subscribe(["beside"])
        with pytest.raises(AuthenticationFailed, match=f"127.0.0.1:{kafka.sasl_port}: 'alice' is not let in"):
            _poll_for(consumer, WAIT_S)
        consumer.close(1)


def _poll_for(consumer: Consumer, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        consumer.poll(1.0)
