"""EDGE: the gateway's listeners, one port for each broker, and the test whether an address is one of them."""

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

ProtocolFactory = Callable[[], ClientProtocol]
_WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  (looked for, not bound)
_LOOPBACKS = frozenset({"localhost", "127.0.0.1", "::1"})


class Listeners:
    """Listeners bind `host`; clients are told `advertised_host`. `advertised_port` is that of the bootstrap listener;
    0: the bound one."""

    def __init__(
        self,
        host: str,
        advertised_host: str,
        ports: Ports,
        tls: ListeningTls | None = None,
        *,
        advertised_port: int = 0,
    ) -> None:
        self._host = host
        self._advertised_host = advertised_host
        self._advertised_port = advertised_port
        self._range = ports
        self._tls = tls
        self._bootstrap: asyncio.Server | None = None
        self._bootstrap_port = 0
        self._servers: dict[int, asyncio.Server] = {}
        self._ports: dict[int, int] = {}
        """Ports of all brokers seen so far: a broker that returns gets its port again."""
        self._departed: dict[int, None] = {}
        """Brokers that have left but keep a port, the first to leave first."""
        self._lock = asyncio.Lock()

    async def open_bootstrap(self, factory: ProtocolFactory, port: int) -> HostPort:
        """Bind the listener that leads to any broker; return the bound address. It does not accept yet. Raises
        OSError."""
        self._bootstrap = await listen_at(factory, self._host, port, self._tls, starts=False)
        bound = self._bootstrap.sockets[0].getsockname()
        self._bootstrap_port = bound[1]
        return bound[0], bound[1]

    async def serve_bootstrap(self) -> None:
        """Begin to accept on the bootstrap listener."""
        assert self._bootstrap is not None
        await self._bootstrap.start_serving()

    async def open(self, node_id: int, factory: ProtocolFactory) -> int | None:
        """Return the port of the broker's listener, bound now if it is new. Return None and log an error if no port is
        left."""
        # One at a time: sockets that are bound but do not listen yet do not conflict, so two brokers could get the same
        # port.
        async with self._lock:
            if node_id in self._servers:
                return self._ports[node_id]
            for port in self._candidate_ports(node_id):
                with contextlib.suppress(OSError):
                    # Not accepting yet: after a restart a client may connect before the node knows the broker.
                    server = await listen_at(factory, self._host, port, self._tls, starts=False)
                    self._servers[node_id] = server
                    self._assign_port(node_id, port)
                    log.info("in front of a broker", broker=node_id, listener=f"{self._host}:{port}")
                    return port
        log.error("no port is left for a broker's listener", broker=node_id, ports=str(self._range))
        return None

    def _candidate_ports(self, node_id: int) -> Iterator[int]:
        """Ports to try: the broker's former one, that of its id, free ones, and that of the broker that left first."""
        ports = range(self._range.first, self._range.last + 1)
        first = self._ports.get(node_id, ports[max(node_id, 0) % len(ports)])
        taken = {port for other, port in self._ports.items() if other != node_id}
        yield from (port for port in (first, *(one for one in ports if one != first)) if port not in taken)
        yield from [self._ports[departed] for departed in self._departed if departed != node_id]

    def _assign_port(self, node_id: int, port: int) -> None:
        for other in [departed for departed in self._departed if self._ports[departed] == port or departed == node_id]:
            del self._departed[other], self._ports[other]
        self._ports[node_id] = port

    def retain(self, node_ids: Container[int]) -> None:
        """Close the listeners of all other brokers. Connections stay: group requests need no broker."""
        for node_id in [node_id for node_id in self._servers if node_id not in node_ids]:
            log.info("a broker has left the cluster", broker=node_id)
            self._servers.pop(node_id).close()
            self._departed[node_id] = None

    async def serve(self) -> None:
        """Begin to accept on new listeners. A listener whose port another process took is closed; the next discovery
        finds it another port."""
        for node_id, server in list(self._servers.items()):
            if server.is_serving():
                continue
            try:
                await server.start_serving()
                if not _sockets(server):
                    raise OSError("another process listens there")
            except OSError as error:
                log.warning("a broker's listener is lost", broker=node_id, port=self._ports[node_id], why=str(error))
                server.close()
                del self._servers[node_id], self._ports[node_id]

    def close(self) -> None:
        """Accept no more connections."""
        for server in filter(None, (self._bootstrap, *self._servers.values())):
            server.close()

    # ---------------------------------------------------------------------------------------------------- own addresses

    def owns_address(self, address: HostPort) -> bool:
        """Return whether one of the listeners is bound to this address or advertised at it, by name."""
        host, port = address[0].lower(), address[1]
        if host == self._advertised_host.lower() and port and port == self._advertised_port:
            return True
        if port not in self._bound_ports():
            return False
        return host in {self._host.lower(), self._advertised_host.lower()} or (
            self._host in _WILDCARDS | _LOOPBACKS and host in _WILDCARDS | _LOOPBACKS
        )

    def owns_connection(self, local: HostPort, remote: HostPort) -> bool:
        """Return whether a connection between these addresses ends at one of the listeners, by whatever name it was
        opened."""
        if not local[0] or remote[1] not in self._bound_ports():
            return False
        there = _unmapped(remote[0])
        if there in self._bound_hosts():
            return True
        is_here = there == _unmapped(local[0]) or ip_address(there).is_loopback
        return is_here and not self._bound_hosts().isdisjoint(_WILDCARDS)

    def _bound_ports(self) -> set[int]:
        return {self._bootstrap_port, *(self._ports[node_id] for node_id in self._servers)} - {0}

    def _bound_hosts(self) -> set[str]:
        servers = filter(None, (self._bootstrap, *self._servers.values()))
        return {_unmapped(one.getsockname()[0]) for server in servers for one in _sockets(server)}


def _sockets(server: asyncio.Server) -> list[socket]:
    """Return the open sockets: uvloop silently closes one that cannot listen."""
    sockets = cast(Sequence[socket | None], server.sockets)
    return [one for one in sockets if one is not None and one.fileno() >= 0]


def _unmapped(address: str) -> str:
    """Return the address with an IPv4-mapped IPv6 address as IPv4."""
    known = ip_address(address)
    mapped = known.ipv4_mapped if isinstance(known, IPv6Address) else None
    return str(mapped or known)
