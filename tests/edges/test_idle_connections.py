"""Connections that say nothing more are closed in time, and none that is owed an answer."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from coordinator.io.idle_connections import IdleConnections
from coordinator.io.keepalive import IDLE_S
from coordinator.io.server import ClientProtocol, Server, read_clock
from coordinator.io.tls.listening import listen_at
from coordinator.node.events import Event, Idle
from muster import Consumer, Producer
from muster.blocking import ClusterClient
from protocol.messages.node import DescribeNode
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.native.client import NativeClient
from tests.edges.musterd import free_port, running, within

IDLE_MS = 400


Connect = Callable[[int], socket.socket]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Sockets that are closed when the test is over."""
    with ExitStack() as stack:
        yield lambda port: stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))


def is_closed_within(one: socket.socket, seconds: float) -> bool:
    one.settimeout(seconds)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def is_served(one: socket.socket) -> bool:
    try:
        one.sendall(NativeClient(1 << 20).encode_request(DescribeNode())[1])
        return bool(one.recv(1 << 16))
    except OSError:
        return False


def test_silent_connections_are_closed_at_both_listeners_and_make_room(tmp_path: Path, connect: Connect) -> None:
    settings = (f"connections.max.idle.ms={IDLE_MS}", "max.connections=2")
    with running(tmp_path / "data", *settings, with_kafka=True) as daemon:
        silent = [connect(daemon.port), connect(daemon.kafka_port)]
        assert is_served(silent[0])
        assert is_closed_within(connect(daemon.port), 5)  # there is no room
        for one in silent:
            assert is_closed_within(one, 10)
        assert is_served(connect(daemon.port))


def test_one_that_speaks_now_and_then_stays(tmp_path: Path, connect: Connect) -> None:
    idle_ms = 1_000  # longer than a busy machine keeps this process from speaking
    with running(tmp_path / "data", f"connections.max.idle.ms={idle_ms}") as daemon:
        one = connect(daemon.port)
        until = time.monotonic() + 2.5 * idle_ms / 1_000
        while time.monotonic() < until:
            assert is_served(one)
            time.sleep(0.02)


def test_our_clients_go_on_after_they_were_silent_for_longer(tmp_path: Path) -> None:
    settings = (f"connections.max.idle.ms={IDLE_MS}", "group.initial.rebalance.delay.ms=0")
    with (
        running(tmp_path / "data", *settings) as daemon,
        ClusterClient(daemon.bootstrap) as connection,
        Producer(daemon.bootstrap) as producer,
        Consumer(daemon.bootstrap, "g", auto_offset_reset="earliest") as consumer,
    ):
        connection.ask(CreateTopics((CreatableTopic("flights", 1),)))
        consumer.subscribe(["flights"])
        seen = 0
        for number in range(2):
            producer.send("flights", str(number)).result(10)
            deadline = time.monotonic() + 60
            while seen <= number and time.monotonic() < deadline:
                seen += len(consumer.poll(1))
            assert seen == number + 1
            assert connection.ask(DescribeNode()) is not None
            time.sleep(3 * IDLE_MS / 1_000)


def test_those_in_front_of_brokers_are_closed_too(tmp_path: Path, connect: Connect) -> None:
    listener = free_port()
    with running(tmp_path / "broker", with_kafka=True) as broker:
        settings = (
            f"upstream.servers=127.0.0.1:{broker.kafka_port}",
            f"upstream.listener.ports={listener}",
            f"connections.max.idle.ms={IDLE_MS}",
        )
        with running(tmp_path / "front", *settings, with_kafka=True) as front:
            silent = [connect(front.kafka_port)]
            assert within(10, lambda: _accepts(listener))
            silent.append(connect(listener))
            for one in silent:
                assert is_closed_within(one, 10)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_the_kernel_asks_whether_the_machine_of_an_accepted_socket_is_still_there(run: Any, connect: Connect) -> None:
    async def story() -> None:
        accepted: asyncio.Future[asyncio.BaseTransport] = asyncio.get_running_loop().create_future()

        class Client(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted.set_result(transport)

        server = await listen_at(cast(Any, Client), "127.0.0.1", 0, None)
        connect(server.sockets[0].getsockname()[1])
        transport = await accepted
        own = transport.get_extra_info("socket")
        assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == IDLE_S
        transport.close()
        server.close()

    run(story())


class PretendedClient:
    """`unsent` bytes of `handed_bytes` were not taken yet."""

    def __init__(self, number: int, silent_ms: int, unsent: int = 0) -> None:
        self.number = number
        self.moved_ms = read_clock().monotonic_ms - silent_ms
        self.handed_bytes = 1_000
        self.idle_bytes = 0
        self.unsent = unsent

    def unsent_bytes(self) -> int:
        return self.unsent


class PretendedServer:
    def __init__(self, *clients: PretendedClient) -> None:
        self.all = clients
        self.events: list[Event] = []

    def clients(self) -> tuple[ClientProtocol, ...]:
        return cast(tuple[ClientProtocol, ...], self.all)

    def happen(self, event: Event) -> None:
        self.events.append(event)


def look(server: PretendedServer, max_idle_ms: int = 1_000) -> list[Event]:
    """Return the events that one check for idle connections causes."""

    async def once() -> None:
        idle = IdleConnections(cast(Server, server), max_idle_ms)
        idle._look()
        idle.stop()

    server.events.clear()
    asyncio.run(once())
    return list(server.events)


def test_who_still_takes_a_long_answer_is_not_idle_and_who_stopped_taking_it_is() -> None:
    reader = PretendedClient(1, silent_ms=2_000, unsent=900)
    server = PretendedServer(reader, PretendedClient(2, silent_ms=500), PretendedClient(3, silent_ms=2_000))
    assert look(server) == [Idle(3)]
    reader.moved_ms -= 2_000
    reader.unsent = 400
    assert look(server) == []
    reader.moved_ms -= 2_000
    assert look(server) == [Idle(1)]


def test_many_are_told_of_by_and_by() -> None:
    server = PretendedServer(*(PretendedClient(number, silent_ms=2_000) for number in range(1_200)))
    assert [len(look(server)) for _ in range(4)] == [500, 500, 200, 0]


def test_below_zero_nobody_is_looked_at(tmp_path: Path) -> None:
    async def story() -> None:
        idle = IdleConnections(cast(Server, PretendedServer(PretendedClient(1, silent_ms=2_000))), -1)
        idle.watch()
        assert idle._timer is None

    asyncio.run(story())
