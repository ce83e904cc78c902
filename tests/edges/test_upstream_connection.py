"""The connection to a broker that a client's bytes go over: what becomes of them while it is not there yet."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import uvloop

from coordinator.gateway.events import UpstreamLost
from coordinator.gateway.io.proxied_sockets import ProxiedClientProtocol, UpstreamProtocol
from coordinator.io.server import Server
from coordinator.node.events import Event
from tests.edges.tcp import tcp_server

Tell = Callable[[Callable[[], Awaitable[None]]], None]
CLIENT = 7


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def tell(request: pytest.FixtureRequest) -> Tell:
    """Runs a story on a loop of either kind."""

    def run(story: Callable[[], Awaitable[None]]) -> None:
        async def in_time() -> None:
            await asyncio.wait_for(story(), 20)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(in_time())

    return run


class Node:
    """In the place of server and client; `lost` says why the upstream was."""

    def __init__(self) -> None:
        self.receive_buffer = memoryview(bytearray(1_000))
        self.number = CLIENT
        self.upstream: UpstreamProtocol | None = None
        self.transport = None
        self.reads_slowly = False
        self.lost: list[str] = []
        self.told = asyncio.Event()

    def update_reading(self) -> None:
        """Nobody sends more."""

    def happen(self, event: Event) -> None:
        assert isinstance(event, UpstreamLost)
        assert event.connection == CLIENT
        self.lost.append(event.reason)
        self.told.set()

    def connect(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> UpstreamProtocol:
        self.upstream = UpstreamProtocol(cast(Server, self), cast(ProxiedClientProtocol, self), (host, port), tls)
        return self.upstream


@asynccontextmanager
async def slow_to_connect() -> AsyncIterator[tuple[Node, UpstreamProtocol, socket.socket]]:
    """An upstream connection that is being connected, with a request to send, and where the broker listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        node = Node()
        upstream = node.connect(*listener.getsockname())
        upstream.send(b"a record")
        await asyncio.sleep(0)
        assert upstream.transport is None
        yield node, upstream, listener


async def received(listener: socket.socket) -> bytes:
    """By the broker, of everybody who came."""
    loop = asyncio.get_running_loop()
    heard = b""
    while True:
        try:
            connection, _ = await asyncio.wait_for(loop.sock_accept(listener), 0.2)
        except TimeoutError:
            return heard
        with connection:
            while data := await loop.sock_recv(connection, 100):
                heard += data


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Nobody should come here."""
    writer.close()


def test_what_was_said_to_be_lost_before_there_was_a_connection_is_never_sent(tell: Tell) -> None:
    async def story() -> None:
        async with slow_to_connect() as (node, upstream, listener):
            upstream.abandon("it is silent")
            assert node.lost == ["it is silent"]
            assert await received(listener) == b""
            assert node.lost == ["it is silent"]
            assert node.upstream is None

    tell(story)


def test_what_a_client_sent_last_leaves_although_there_was_no_connection_yet(tell: Tell) -> None:
    async def story() -> None:
        async with slow_to_connect() as (node, upstream, listener):
            upstream.finish()
            assert await received(listener) == b"a record"
            assert node.lost == []

    tell(story)


@pytest.mark.parametrize("host", ["127.0.0.1\0x", "localhost\0x", "a" * 70 + ".example", "[::1]"])
@pytest.mark.parametrize("make_tls", [lambda: None, ssl.create_default_context], ids=["clear", "tls"])
def test_a_broker_with_a_name_that_is_none_is_lost_and_the_client_hears_of_it(
    tell: Tell, host: str, make_tls: Callable[[], Any]
) -> None:
    async def story() -> None:
        async with tcp_server(hang_up) as port:
            node = Node()
            node.connect(host, port, make_tls()).send(b"a record")
            await node.told.wait()
            assert node.lost[0].startswith(f"{host}:{port}: ")

    tell(story)
