"""EDGE: our listeners in front of brokers: a port for each of them, and which addresses are our own."""

import asyncio
import contextlib
from collections.abc import Callable, Container, Iterator, Sequence
from ipaddress import IPv6Address, ip_address
from socket import socket
from typing import cast

import structlog

from coordinator.config.keys import Ports
from coordinator.gateway.io.broker_client import HostPort
from coordinator.io.server import ClientProtocol
from coordinator.io.tls.listening import ListeningTls, listen_at

log = structlog.get_logger()

Front = Callable[[], ClientProtocol]
_ANY = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  (looked for, not bound)
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


class Listeners:
    """They bind `host`; clients are told of `told_host`, and of `told_port` where they begin (0: of the one bound)."""

    def __init__(
        self, host: str, told_host: str, ports: Ports, tls: ListeningTls | None = None, *, told_port: int = 0
    ) -> None:
        self._host = host
        self._told_host = told_host
        self._told_port = told_port
        self._range = ports
        self._tls = tls
        self._first: asyncio.Server | None = None
        self._first_port = 0
        self._servers: dict[int, asyncio.Server] = {}
        self._ports: dict[int, int] = {}
        """Of brokers seen so far, whether they are there or not: who comes back finds its port again."""
        self._gone: dict[int, None] = {}
        """Those of them that are not there, the one that went first in front."""
        self._turn = asyncio.Lock()

    async def open_first(self, front: Front, port: int) -> HostPort:
        """The listener that leads to any broker; the address that was bound. Nobody is accepted. Raises OSError."""
        self._first = await listen_at(front, self._host, port, self._tls, starts=False)
        bound = self._first.sockets[0].getsockname()
        self._first_port = bound[1]
        return bound[0], bound[1]

    async def serve_first(self) -> None:
        """Accept."""
        assert self._first is not None
        await self._first.start_serving()

    async def open(self, node_id: int, front: Front) -> int | None:
        """The port in front of this broker, bound now if it is new; None, and a line in the log, if none is left."""
        # One at a time: sockets that are bound and do not listen yet do not hinder each other, so two could share one.
        async with self._turn:
            if node_id in self._servers:
                return self._ports[node_id]
            for port in self._choice(node_id):
                with contextlib.suppress(OSError):
                    # A client finds its way here after a restart before the node knows the broker: not serving yet.
                    server = await listen_at(front, self._host, port, self._tls, starts=False)
                    self._servers[node_id] = server
                    self._give(node_id, port)
                    log.info("in front of a broker", broker=node_id, listener=f"{self._host}:{port}")
                    return port
        log.error("no port is left for a broker's listener", broker=node_id, ports=str(self._range))
        return None

    def _choice(self, node_id: int) -> Iterator[int]:
        """Its own of before, that of its id, any that is free, and that of the broker that has been gone longest."""
        ports = range(self._range.first, self._range.last + 1)
        first = self._ports.get(node_id, ports[max(node_id, 0) % len(ports)])
        taken = {port for other, port in self._ports.items() if other != node_id}
        yield from (port for port in (first, *(one for one in ports if one != first)) if port not in taken)
        yield from [self._ports[gone] for gone in self._gone if gone != node_id]

    def _give(self, node_id: int, port: int) -> None:
        for other in [gone for gone in self._gone if self._ports[gone] == port or gone == node_id]:
            del self._gone[other], self._ports[other]
        self._ports[node_id] = port

    def keep(self, node_ids: Container[int]) -> None:
        """Close those of all others. Who is connected stays: group requests need no broker."""
        for node_id in [node_id for node_id in self._servers if node_id not in node_ids]:
            log.info("a broker has left the cluster", broker=node_id)
            self._servers.pop(node_id).close()
            self._gone[node_id] = None

    async def serve(self) -> None:
        """Accept, at those that do not yet. Where somebody else listens by now, another port is for the next look."""
        for node_id, server in list(self._servers.items()):
            if server.is_serving():
                continue
            try:
                await server.start_serving()
                if not _sockets(server):
                    raise OSError("somebody else listens there")
            except OSError as error:
                log.warning("a broker's listener is lost", broker=node_id, port=self._ports[node_id], why=str(error))
                server.close()
                del self._servers[node_id], self._ports[node_id]

    def close(self) -> None:
        """Accept nobody any more."""
        for server in filter(None, (self._first, *self._servers.values())):
            server.close()

    # ------------------------------------------------------------------------------------------------- what is our own

    def are_at(self, place: HostPort) -> bool:
        """Whether this, by its name, is where one of them is or is told to be."""
        host, port = place[0].lower(), place[1]
        if host == self._told_host.lower() and port and port == self._told_port:
            return True
        if port not in self._bound_ports():
            return False
        return host in {self._host.lower(), self._told_host.lower()} or (
            self._host in _ANY | _HERE and host in _ANY | _HERE
        )

    def are_reached_by(self, local: HostPort, remote: HostPort) -> bool:
        """Whether a connection between these addresses ends at one of them, whatever name it was opened by."""
        if not local[0] or remote[1] not in self._bound_ports():
            return False
        there = _plain(remote[0])
        if there in self._bound_hosts():
            return True
        is_here = there == _plain(local[0]) or ip_address(there).is_loopback
        return is_here and not self._bound_hosts().isdisjoint(_ANY)

    def _bound_ports(self) -> set[int]:
        return {self._first_port, *(self._ports[node_id] for node_id in self._servers)} - {0}

    def _bound_hosts(self) -> set[str]:
        servers = filter(None, (self._first, *self._servers.values()))
        return {_plain(one.getsockname()[0]) for server in servers for one in _sockets(server)}


def _sockets(server: asyncio.Server) -> list[socket]:
    """Those that are open: uvloop closes one that cannot listen, and says nothing."""
    told = cast(Sequence[socket | None], server.sockets)
    return [one for one in told if one is not None and one.fileno() >= 0]


def _plain(address: str) -> str:
    """IPv4 as such, also where it was written in IPv6's way."""
    known = ip_address(address)
    mapped = known.ipv4_mapped if isinstance(known, IPv6Address) else None
    return str(mapped or known)
