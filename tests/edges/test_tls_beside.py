"""In front of brokers that speak TLS, with clients that do or do not; and what is said where the two do not fit.
The broker is another musterd."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.edges.certificates import Folder
from tests.edges.musterd import Daemon, free_port, running, within
from tests.enumerations import some

SSL = "upstream.security.protocol=SSL"
Settings = dict[str, str | int | float | bool]


class Pair:
    """A broker, and Muster in front of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = Folder(path / "files")
        self.listener = free_port()
        self.broker: Daemon
        self.front: Daemon
        self._stack = ExitStack()

    @contextmanager
    def start(self, broker: tuple[str, ...], front: tuple[str, ...]) -> Iterator["Pair"]:
        with running(self.path / "broker", *broker, with_kafka=True) as self.broker:
            plan = (
                f"upstream.servers=127.0.0.1:{self.broker.kafka_port}",
                f"upstream.listener.ports={self.listener}",
                "upstream.refresh.ms=200",
                "tls.listeners=kafka",
            )
            mine = plan if any(one.startswith("tls.") for one in front) else plan[:-1]
            with running(self.path / "front", *front, *mine, with_http=True, with_kafka=True) as self.front:
                yield self

    @property
    def trusting(self) -> str:
        return f"upstream.ssl.ca.location={self.folder.ca}"

    def client(self, *, tls: bool) -> Settings:
        plain: Settings = {"bootstrap.servers": f"127.0.0.1:{self.front.kafka_port}"}
        return plain | {"security.protocol": "SSL", "ssl.ca.location": str(self.folder.ca)} if tls else plain

    def readiness(self) -> dict[str, object]:
        return readiness(self.front)

    def log(self) -> str:
        return (self.path / "front.log").read_text()


def readiness(front: Daemon) -> dict[str, object]:
    try:
        answer = urlopen(f"http://127.0.0.1:{front.http_port}/readyz", timeout=5)
    except HTTPError as refused:  # it was never reached
        answer = refused
    with answer:
        upstream: dict[str, object] = json.load(answer)["upstream"]
    return upstream


def reason(front: Daemon) -> str:
    """Return why no broker can be reached, whether or not one was reached before."""
    assert within(10, lambda: "why" in readiness(front))
    return str(readiness(front)["why"]).removeprefix("no broker of the cluster was reached yet: ")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def write_and_read(settings: Settings, count: int = 50, size: int = 50_000, topic: str = "orders") -> None:
    values = [os.urandom(size) for _ in range(count)]
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    consumer = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest", "session.timeout.ms": 6_000})
    consumer.subscribe([topic])
    got: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while len(got) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            got.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    assert got == values


@pytest.mark.parametrize(
    ("brokers", "clients"),
    some(itertools.product((True, False), repeat=2)),
    ids=lambda speaks_tls: "with TLS" if speaks_tls else "without",
)
def test_each_side_speaks_tls_or_not_whatever_the_other_does(pair: Pair, clients: bool, brokers: bool) -> None:
    broker = pair.folder.listening() if brokers else ()
    front = (*((SSL, pair.trusting) if brokers else ()), *(pair.folder.listening() if clients else ()))
    with pair.start(broker, front):
        write_and_read(pair.client(tls=clients))
        assert pair.front.stop() == 0
        assert pair.broker.stop() == 0
    assert "Traceback" not in pair.log()


def test_brokers_that_want_a_certificate_are_shown_ours(pair: Pair) -> None:
    ours = (f"upstream.ssl.certificate.location={pair.folder.client}",)
    with pair.start(pair.folder.listening(clients_show=True), (SSL, pair.trusting, *ours)):
        assert pair.readiness()["reachable"] is True
        write_and_read(pair.client(tls=False), count=3)
    assert "all clients have the principal of upstream.ssl.certificate.location" in pair.log()


def why_not(pair: Pair) -> str:
    why = reason(pair.front)
    assert pair.readiness()["reachable"] is False
    assert json.dumps(why)[1:-1] in pair.log(), "and the log says the same"
    assert why.startswith(f"127.0.0.1:{pair.broker.kafka_port}: ")
    return why.partition(": ")[2]


def test_a_broker_signed_by_a_stranger_is_not_believed(pair: Pair) -> None:
    strange = Folder(pair.path / "strange")
    with pair.start(strange.listening(), (SSL, pair.trusting)):
        assert why_not(pair).startswith("its certificate is not trusted: ")
        assert "(upstream.ssl.ca.location)" in why_not(pair)


@pytest.mark.long
def test_a_broker_with_a_certificate_for_another_host_is_not_believed_unless_that_is_wanted(pair: Pair) -> None:
    pair.folder.issue(name="broker-1.example.net")
    with pair.start(pair.folder.listening(), (SSL, pair.trusting)):
        assert why_not(pair).startswith("its certificate is for another host: ")
    lenient = "upstream.ssl.endpoint.identification.algorithm=none"
    with pair.start(pair.folder.listening(), (SSL, pair.trusting, lenient)):
        assert pair.readiness()["reachable"] is True


def test_a_broker_that_wants_a_certificate_of_ours_is_said_to(pair: Pair) -> None:
    with pair.start(pair.folder.listening(clients_show=True), (SSL, pair.trusting)):
        assert "upstream.ssl.certificate.location" in why_not(pair)


@pytest.mark.long
def test_the_wrong_protocol_is_named(pair: Pair) -> None:
    with pair.start(pair.folder.listening(), ()):
        assert "upstream.security.protocol" in why_not(pair)
    with pair.start((), (SSL, pair.trusting)):
        assert "upstream.security.protocol" in why_not(pair)
    login = ("upstream.sasl.username=muster", "upstream.sasl.password=secret")
    with pair.start((), login):
        assert "secret" not in pair.log()
        assert "does it want a login there" in why_not(pair)


def test_what_cannot_be_used_towards_brokers_stops_the_start(pair: Pair) -> None:
    command = [sys.executable, "-m", "coordinator", "--data-dir", str(pair.path / "none"), "--upstream", "127.0.0.1:1"]
    said = subprocess.run(
        [*command, "--set", SSL, "--set", "upstream.ssl.ca.location=gone.pem"], capture_output=True, check=False
    )
    assert said.returncode == 2
    last = said.stderr.decode().splitlines()[-1]
    assert last == "musterd: upstream.ssl.ca.location = gone.pem: cannot be read: No such file or directory"


@pytest.mark.long
def test_a_client_whose_broker_is_not_believed_is_sent_away(pair: Pair) -> None:
    with pair.start(pair.folder.listening(), (SSL, pair.trusting)):
        AdminClient(pair.client(tls=False)).list_topics(timeout=60)
        strange = Folder(pair.path / "strange")
        pair.folder.chain.write_bytes(strange.chain.read_bytes())
        pair.folder.key.write_bytes(strange.key.read_bytes())
        pair.broker.stop()
        pair.broker.start()
        assert within(10, lambda: "its certificate is not trusted" in why_not(pair))
