"""EDGE: an open connection to each other node, by which this one notices at once that a node's process has ended.

A process that ends, however it does, has its connections closed, and its listener refuses new ones; the nodes' group
notices a session later. A firewall may do the same, so this only delays lookups. A node that was never reached, that is
silent or cut off, or whose address is gone with it, is left to the group.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import NamedTuple

from coordinator.cluster_node.events import NodeEnded
from coordinator.cluster_node.nodes import NodeView
from coordinator.gateway.io.broker_client import HostPort
from coordinator.gateway.io.tasks import Tasks
from coordinator.gateway.io.tls import CONNECT_ERRORS
from coordinator.node.events import Event

_DIALECT = "http"
_CONNECT_S = 2.0
_PAUSE_S = 1.0
"""Pause before the next attempt after a failure."""
_SOON_S, _SOON_TIMES = 0.05, 20
"""The same for the first attempts after a connection was closed: the listener of a process that ends may accept or
reset another one before it refuses."""
_SHORT_S = 0.5
"""A connection that is closed sooner is one too many for its listener."""
_RENEWED_S = 30.0
"""Age of a connection at which it is replaced: the other side may have closed it while the network was cut."""
_ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104  (nothing is bound to it)

MakeContext = Callable[[], ssl.SSLContext]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Peer(NamedTuple):
    """A watched node."""

    address: HostPort
    task: asyncio.Task[None]


class Peers:
    """Watches the other nodes. `happen` is called with `NodeEnded`, once for each process."""

    def __init__(self, node_id: int, tls: MakeContext | None, happen: Callable[[Event], None]) -> None:
        """`tls` makes the context of a connection; None: the nodes' HTTP listeners speak plaintext."""
        self._node_id = node_id
        self._tls = tls
        self._happen = happen
        self._peers: dict[int, _Peer] = {}
        self._tasks = Tasks("Peers")

    def found(self, nodes: Iterable[NodeView]) -> None:
        """Watch these nodes, and no others. An address that is this node's own, or no address to connect to, leads to
        none of them."""
        addresses = {one.node_id: one.addresses.get(_DIALECT) for one in nodes}
        own = addresses.pop(self._node_id, None)
        for node_id, peer in list(self._peers.items()):
            if addresses.get(node_id) != peer.address:
                peer.task.cancel()
                del self._peers[node_id]
        for node_id, address in addresses.items():
            if address in {None, own} or address[0] in _ANY_ADDRESS:
                continue
            if node_id not in self._peers:
                self._peers[node_id] = _Peer(address, self._tasks.start(self._watch(node_id, address)))

    async def stop(self) -> None:
        """Close the connections."""
        await self._tasks.stop()

    async def _watch(self, node_id: int, address: HostPort) -> None:
        is_reached, soon = False, 0
        while True:
            try:
                streams = await self._connect(*address)
            except ConnectionRefusedError:
                if is_reached:
                    self._happen(NodeEnded(node_id))
                is_reached, soon = False, 0
            except CONNECT_ERRORS:
                pass
            else:
                is_reached = True
                if await _seconds_open(*streams) >= _SHORT_S:
                    soon = _SOON_TIMES
                    continue
            await asyncio.sleep(_SOON_S if soon else _PAUSE_S)
            soon = max(soon - 1, 0)

    async def _connect(self, host: str, port: int) -> Streams:
        """Try all addresses of the host. Raises ConnectionRefusedError if one refuses and none is silent, else
        CONNECT_ERRORS."""
        failures: list[OSError] = []
        for *_, socket_address in await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM):
            address = str(socket_address[0])
            try:
                async with asyncio.timeout(_CONNECT_S):
                    if self._tls is None:
                        return await asyncio.open_connection(address, port)
                    return await asyncio.open_connection(address, port, ssl=self._tls(), server_hostname=host)
            except OSError as failed:
                failures.append(failed)
        refused = [one for one in failures if isinstance(one, ConnectionRefusedError)]
        if refused and not any(isinstance(one, TimeoutError) for one in failures):
            raise refused[0]
        raise OSError(f"{host} is not reached: {failures}")


async def _seconds_open(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    """Wait until the other side closes the connection, or it is old; return its age."""
    loop = asyncio.get_running_loop()
    since_s = loop.time()
    try:
        async with asyncio.timeout(_RENEWED_S):
            while await reader.read(1 << 10):
                pass
    except OSError:
        pass
    finally:
        writer.transport.abort()
    return loop.time() - since_s
