"""A node watches the others by open connections to their HTTP listeners."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from socket import AF_INET, SOCK_STREAM

import pytest

from coordinator.cluster_node.events import NodeEnded
from coordinator.cluster_node.nodes import NodeView
from coordinator.gateway.io.cluster.peers import Peers
from coordinator.node.events import Event
from tests.edges.fake_kafka import until

_PATIENCE_S = 30
REFUSALS_S = 1.3
"""Time in which a watched node that refuses is tried twice."""
LASTING_S = 0.6
"""Age at which a connection was none too many: the next attempt follows its end at once."""
LOOPBACK = "127.0.0.1"


class Other:
    """Another node's listener."""

    def __init__(self) -> None:
        self.port = 0
        self.accepted = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, self.port, reuse_address=True)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.append(writer)

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def end(self) -> None:
        """End as a process does: no listener, no connections."""
        assert self._server is not None
        self._server.close()
        self.hang_up()

    def view(self, node_id: int) -> NodeView:
        return NodeView(node_id, {"http": (LOOPBACK, self.port)})


@asynccontextmanager
async def watched() -> AsyncIterator[tuple[Other, Peers, list[Event]]]:
    """Node 2, the peers of node 1, and what node 1 is told."""
    told: list[Event] = []
    other, peers = Other(), Peers(1, None, told.append)
    await other.start()
    try:
        yield other, peers, told
    finally:
        await peers.stop()
        other.end()


async def soon(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        await until(holds)


async def test_each_process_that_ends_is_noticed_once() -> None:
    async with watched() as (other, peers, told):
        peers.found([other.view(2), NodeView(1, {"http": (LOOPBACK, 9)}), NodeView(3, {"kafka": (LOOPBACK, 9)})])
        await soon(lambda: other.accepted == 1)
        other.end()
        await soon(lambda: told == [NodeEnded(2)])
        await asyncio.sleep(REFUSALS_S)
        await other.start()
        await soon(lambda: other.accepted == 2)
        assert told == [NodeEnded(2)]
        other.end()
        await soon(lambda: told == [NodeEnded(2)] * 2)


async def test_a_connection_that_is_closed_says_nothing_while_another_is_accepted() -> None:
    async with watched() as (other, peers, told):
        peers.found([other.view(2)])
        await soon(lambda: other.accepted == 1)
        other.hang_up()
        await soon(lambda: other.accepted == 2)
        assert told == []


async def test_a_listener_that_accepts_one_more_connection_before_it_refuses_is_noticed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coordinator.gateway.io.cluster.peers._PAUSE_S", 2 * _PATIENCE_S)
    async with watched() as (other, peers, told):
        peers.found([other.view(2)])
        await soon(lambda: other.accepted == 1)
        await asyncio.sleep(LASTING_S)
        other.hang_up()
        await soon(lambda: other.accepted == 2)
        other.end()
        await soon(lambda: told == [NodeEnded(2)])


async def test_an_address_that_was_never_reached_says_nothing() -> None:
    async with watched() as (other, peers, told):
        view = other.view(2)
        other.end()
        peers.found([view])
        await asyncio.sleep(REFUSALS_S)
        await other.start()
        await soon(lambda: other.accepted == 1)
        assert told == []


async def test_a_node_that_left_is_watched_no_more() -> None:
    async with watched() as (other, peers, told):
        peers.found([other.view(2)])
        await soon(lambda: other.accepted == 1)
        await asyncio.sleep(LASTING_S)
        peers.found([])
        other.end()
        await asyncio.sleep(REFUSALS_S)
        assert told == []


async def test_an_address_that_leads_to_this_node_or_to_none_is_not_watched() -> None:
    async with watched() as (other, peers, told):
        nowhere = [NodeView(3, {"http": ("0.0.0.0", other.port)}), NodeView(4, {"http": ("n..x", other.port)})]
        peers.found([other.view(1), other.view(2), *nowhere])
        await asyncio.sleep(REFUSALS_S)
        assert other.accepted == 0 and told == []


async def test_of_several_addresses_one_that_accepts_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched() as (other, peers, told):
        found = [(AF_INET, SOCK_STREAM, 6, "", (address, other.port)) for address in ("127.0.0.2", LOOPBACK)]

        async def resolved(*_: object, **__: object) -> list[object]:
            return list(found)

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)
        peers.found([NodeView(2, {"http": ("n2", other.port)})])
        await soon(lambda: other.accepted == 1)
        other.end()
        await soon(lambda: told == [NodeEnded(2)])
