"""One server for all tests of this folder, which use different names.

`TEST_KAFKA_BOOTSTRAP=HOST:PORT` points them at another server, an Apache Kafka for instance, to see what it does.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.edges.kafka.client import Admin, Consumer, Library, Membership, Producer
from tests.edges.kafka.libraries import LIBRARIES
from tests.edges.kafka.members import Member, MemberProcess
from tests.edges.kafka.with_muster import MUSTER
from tests.edges.musterd import running, within

WITHIN_S = 60.0
SETTINGS = (
    "group.initial.rebalance.delay.ms=100",
    "group.min.session.timeout.ms=1000",
    "log.cleaner.backoff.ms=200",
)


@dataclass(frozen=True, slots=True)
class Server:
    bootstrap: str
    native: str | None
    """Address of the native listener; None if there is none."""
    shortest_session_ms: int


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    elsewhere = os.environ.get("TEST_KAFKA_BOOTSTRAP")
    if elsewhere:
        yield Server(elsewhere, None, 6_000)
        return
    with running(tmp_path_factory.mktemp("kafka") / "data", *SETTINGS, with_kafka=True) as daemon:
        yield Server(f"127.0.0.1:{daemon.kafka_port}", daemon.bootstrap, 2_000)


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def library(request: pytest.FixtureRequest) -> Library:
    chosen: Library = request.param
    return chosen


class ClientFactory:
    """Makes clients of the test's server, and closes those that the test left open."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._open: list[Callable[[], None]] = []

    def producer(self, library: Library, *, codec: str = "none", idempotent: bool = False) -> Producer:
        producer = library.producer(self.server.bootstrap, codec=codec, idempotent=idempotent)
        self._open.append(producer.close)
        return producer

    def admin(self, library: Library) -> Admin:
        admin = library.admin(self.server.bootstrap)
        self._open.append(admin.close)
        return admin

    def create_topic(
        self, library: Library, name: str, partitions: int, settings: Mapping[str, str] | None = None
    ) -> Admin:
        """Create a topic, and wait until it is shown: a broker may answer before it knows the topic itself. Return the
        client that created it."""
        admin = self.admin(library)
        admin.create_topic(name, partitions, settings)
        assert within(WITHIN_S, lambda: name in admin.topics())
        return admin

    def consumer(self, library: Library, membership: Membership | None = None) -> Consumer:
        """Make a consumer that the test polls itself."""
        consumer = library.consumer(self.server.bootstrap, membership or Membership())
        self._open.append(consumer.close)
        return consumer

    def member(self, library: Library, membership: Membership, *topics: str, like: str | None = None) -> Member:
        """Make a consumer that a thread of its own polls until it is closed."""
        bootstrap = self.server.native if library is MUSTER else self.server.bootstrap
        assert bootstrap is not None
        member = Member(library, bootstrap, membership, topics, like=like)
        self._open.append(member.close)
        return member

    def process(self, library: Library, membership: Membership, *topics: str) -> MemberProcess:
        """Make a consumer in a process that can be killed."""
        process = MemberProcess(library, self.server.bootstrap, membership, topics)
        self._open.append(process.kill)
        return process

    def close(self) -> None:
        for close in reversed(self._open):
            close()


@pytest.fixture
def factory(server: Server) -> Iterator[ClientFactory]:
    factory = ClientFactory(server)
    yield factory
    factory.close()
