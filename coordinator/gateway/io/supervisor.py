"""EDGE: everything between the node and the cluster's brokers: discovers them, opens a listener for each, and sends the
node's requests to them.

Decides nothing: what it finds become events, and what it sends were effects.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog

from coordinator.config.config import Address
from coordinator.config.keys import Ports
from coordinator.gateway.brokers import Broker
from coordinator.gateway.effects import AbandonUpstream, Forward, Splice, UpstreamRequest
from coordinator.gateway.events import BrokersFound, UpstreamReply, UpstreamUnreachable
from coordinator.gateway.io.broker_client import BrokerClient, BrokerLogin, HostPort, RequestFailed
from coordinator.gateway.io.broker_clients import BrokerClients
from coordinator.gateway.io.cluster_identity import ClusterIdentity
from coordinator.gateway.io.listeners import Listeners
from coordinator.gateway.io.proxied_sockets import ProxiedClientProtocol, RelayedClientProtocol
from coordinator.gateway.io.splice import PipePool
from coordinator.gateway.io.tasks import Tasks
from coordinator.gateway.io.tls import UpstreamTls
from coordinator.gateway.io.unguarded_listeners import UnguardedListeners
from coordinator.gateway.native import FORWARDED_APIS
from coordinator.io.server import ClientProtocol, Server
from coordinator.io.tls.listening import ListeningTls
from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import DescribeAcls, DescribeAclsReply
from protocol.messages.topics import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Metadata,
    MetadataBroker,
    MetadataReply,
)

log = structlog.get_logger()

_AUTHORIZER_TTL_S = 60.0
"""Validity of an answer about the cluster's authorizer."""
_DESCRIBE_ACLS = BY_MESSAGE[DescribeAcls].key
_GROUP_RESOURCE, _GROUP_NAME = 3, "muster"
"""Filter that matches few ACLs, resource type and name: only the presence of an authorizer matters."""
_MAX_SERVER_TIMEOUT_S = 60.0
"""Limit of the timeout that a request itself may set, so that a broker that vanished is noticed."""


class ProxyLoop(RequestFailed):
    """The upstream address resolves to one of Muster's own listeners."""


@dataclass(frozen=True, slots=True)
class GatewayPlan:
    """Configuration of the supervisor. Listeners bind `host`; clients are told `advertised_host`."""

    servers: tuple[Address, ...]
    ports: Ports
    host: str
    advertised_host: str
    refresh_s: float
    timeout_s: float
    login: BrokerLogin | None = None
    tls: UpstreamTls | None = None
    """TLS to the brokers, proxied connections included; None: plaintext."""
    listening: ListeningTls | None = None
    """TLS of the listeners."""
    advertised_port: int = 0
    """Port of the bootstrap listener as clients are told it; 0: the bound one."""
    identity: ClusterIdentity | None = None
    """Check of the cluster's id; None: any cluster will do."""
    unguarded: UnguardedListeners | None = None
    """Listeners that close when the cluster has an authorizer."""


class Supervisor:
    """The edge's part that deals with brokers. It sends events to the node once that has started."""

    def __init__(self, server: Server, plan: GatewayPlan) -> None:
        self._server = server
        self._plan = plan
        self._brokers: dict[int, Broker] = {}
        self._clients = BrokerClients(self.open_client)
        self._forwarding_clients = BrokerClients(self.open_client)
        """Connections for forwarded requests. A broker serves one request of a connection after another, and a
        forwarded request may take long: queries must not wait behind it."""
        self._discovery: tuple[HostPort, BrokerClient] | None = None
        """Address and connection used for discovery alone, so that it never waits behind other requests."""
        self._listeners = Listeners(
            plan.host, plan.advertised_host, plan.ports, plan.listening, advertised_port=plan.advertised_port
        )
        self._reported_loops: set[tuple[int, HostPort]] = set()
        self._authorizer: tuple[bool, float] | None = None
        """Presence of an authorizer in the cluster, and the time it was asked."""
        self._next_broker = 0
        self._reason = ""
        self._tasks = Tasks("Supervisor")
        self._discovery_tried = asyncio.Event()
        self.pipes = PipePool()
        server.carry_out(Forward, self._forward)
        server.carry_out(Splice, self._splice_next)
        server.carry_out(AbandonUpstream, self._abandon)
        server.carry_out(UpstreamRequest, self._start_request)

    async def listen(self, port: int) -> HostPort:
        """Bind the listener that leads to any broker; return the bound address. It accepts after `start`."""
        return await self._listeners.open_bootstrap(self._protocol_factory(None), port)

    def relayed_client(self, dialect: str = "native") -> RelayedClientProtocol:
        """Make the protocol of a native client, or of an HTTP login, that logs in at a broker."""
        return RelayedClientProtocol(self._server, self, dialect)

    async def has_authorizer(self) -> bool | None:
        """Return whether the cluster authorizes requests; None if no broker answers."""
        try:
            async with asyncio.timeout(self._plan.timeout_s):
                await self._fetch_brokers()
                return await self._detect_authorizer()
        except (RequestFailed, TimeoutError):
            return None

    async def start(self) -> None:
        """Discover brokers, now and every `refresh_s`. The node must have been started."""
        self._tasks.start(self._discover_forever())
        await self._discovery_tried.wait()
        await self._listeners.serve_bootstrap()

    async def stop(self) -> None:
        """Close listeners and connections, and cancel what is under way."""
        self._listeners.close()
        await self._tasks.stop()
        await self._clients.stop()
        await self._forwarding_clients.stop()
        if self._discovery is not None:
            self._discovery[1].close()

    # -------------------------------------------------------------------------------------------------- for connections

    def any_broker(self) -> int | None:
        """Return the next reachable broker, else the next known one; round robin."""
        known = sorted(self._brokers)
        living = [node_id for node_id in known if self._clients.is_open(self.address_of(node_id))] or known
        self._next_broker += 1
        return living[self._next_broker % len(living)] if living else None

    @property
    def listeners(self) -> dict[int, HostPort]:
        """Advertised addresses of the brokers' listeners, by the broker's id."""
        return {one.node_id: (one.advertised_host, one.advertised_port) for one in self._brokers.values()}

    def address_of(self, broker: int) -> HostPort:
        """Return the broker's real address; port 0 if it has left the cluster."""
        known = self._brokers.get(broker)
        return (known.host, known.port) if known is not None else (self._plan.host, 0)

    def tls(self) -> ssl.SSLContext | None:
        """Return the context of a connection to a broker; None for plaintext."""
        return None if self._plan.tls is None else self._plan.tls.context()

    def _forward(self, effect: Forward) -> None:
        client: ClientProtocol | None = self._server.client(effect.connection)
        if isinstance(client, ProxiedClientProtocol) and client.transport is not None:
            client.forward(effect.data)

    def _splice_next(self, effect: Splice) -> None:
        client: ClientProtocol | None = self._server.client(effect.connection)
        if isinstance(client, ProxiedClientProtocol):
            client.splice_next(effect.size)

    def _abandon(self, effect: AbandonUpstream) -> None:
        client: ClientProtocol | None = self._server.client(effect.connection)
        if isinstance(client, ProxiedClientProtocol) and client.upstream is not None:
            client.upstream.abandon(effect.reason)

    # --------------------------------------------------------------------------------------------------------- requests

    def _start_request(self, effect: UpstreamRequest) -> None:
        self._tasks.start(self._perform(effect))

    async def _perform(self, effect: UpstreamRequest) -> None:
        try:
            reply: Message | None = await self._send_to_broker(effect.message, effect.broker)
            reason = ""
        except RequestFailed as failed:
            reply, reason = None, str(failed)
        self._server.happen(UpstreamReply(effect.call_id, reply, reason))

    async def _send_to_broker(self, message: Message, node_id: int | None) -> Message:
        if node_id is None:
            node_id = self.any_broker()
        broker = self._brokers.get(node_id) if node_id is not None else None
        if broker is None:
            raise RequestFailed(f"broker {node_id} is not known")
        clients = self._forwarding_clients if isinstance(message, FORWARDED_APIS) else self._clients
        client = await clients.get((broker.host, broker.port))
        return await client.ask(message, max(self._plan.timeout_s, _server_timeout_s(message)))

    async def open_client(self, address: HostPort) -> BrokerClient:
        """Connect to a broker, as Muster itself. Raises RequestFailed, for one of Muster's own listeners too."""
        proxy_loop = ProxyLoop(f"{address[0]}:{address[1]} is a listener of Muster's own")

        def check_addresses(local: HostPort, remote: HostPort) -> None:
            if self._listeners.owns_connection(local, remote):
                raise proxy_loop

        if self._listeners.owns_address(address):
            raise proxy_loop
        return await BrokerClient.open(
            *address, self._plan.timeout_s, self._plan.login, self._plan.tls, check_addresses
        )

    # -------------------------------------------------------------------------------------------------------- discovery

    async def _discover_forever(self) -> None:
        while True:
            try:
                brokers = await self._discover()
            except RequestFailed as failed:
                if str(failed) != self._reason:
                    self._reason = str(failed)
                    first = "no broker of the cluster was reached yet: clients cannot be forwarded"
                    log.warning(
                        "the cluster cannot be reached; groups go on" if self._brokers else first, why=self._reason
                    )
                self._server.happen(UpstreamUnreachable(str(failed)))
            else:
                if self._reason:
                    log.info("the cluster is there again")
                self._reason = ""
                await self._publish(brokers)
            self._discovery_tried.set()
            await asyncio.sleep(self._plan.refresh_s)

    async def _discover(self) -> dict[int, Broker]:
        """Return every broker of the cluster that has a listener. Raises RequestFailed if none answers."""
        reply = await self._fetch_brokers()
        await self._detect_authorizer()
        self._listeners.retain(
            {broker.node_id for broker in reply.brokers}
        )  # frees the ports of brokers that have left
        self._reported_loops &= {(broker.node_id, (broker.host, broker.port)) for broker in reply.brokers}
        found = await asyncio.gather(*(self._resolve_broker(broker) for broker in reply.brokers))
        return {broker.node_id: broker for broker in found if broker is not None}

    async def _fetch_brokers(self) -> MetadataReply:
        why = "no broker to ask"
        for address in self._discovery_addresses():
            try:
                reply = await (await self._discovery_client(address)).ask(Metadata(()), self._plan.timeout_s)
            except RequestFailed as failed:
                why = str(failed)
                continue
            assert isinstance(reply, MetadataReply)
            mismatch = self.cluster_mismatch(reply)
            if reply.brokers and not mismatch:
                return reply
            why = mismatch or "it names no brokers yet"
        raise RequestFailed(why)

    async def _detect_authorizer(self) -> bool:
        """Return whether the cluster has an authorizer, asked of the discovery broker once a minute.

        A broker without an authorizer answers SECURITY_DISABLED, or does not know ACLs at all. Raises RequestFailed if
        no answer was ever received.
        """
        assert self._discovery is not None
        now_s = asyncio.get_running_loop().time()
        client, known = self._discovery[1], self._authorizer
        if known is not None and now_s - known[1] < _AUTHORIZER_TTL_S:
            return known[0]
        has_authorizer = any(row.api_key == _DESCRIBE_ACLS for row in client.versions.api_keys)
        if has_authorizer:
            try:
                reply = await client.ask(DescribeAcls(_GROUP_RESOURCE, _GROUP_NAME), self._plan.timeout_s)
            except RequestFailed:
                if known is None:
                    raise
                return known[0]
            assert isinstance(reply, DescribeAclsReply)
            has_authorizer = reply.error_code is not ErrorCode.SECURITY_DISABLED
        self._authorizer = has_authorizer, now_s
        return has_authorizer

    def cluster_mismatch(self, reply: MetadataReply) -> str:
        """Return why this is not the cluster of the data folder; empty if it is."""
        try:
            return self._plan.identity.mismatch(reply.cluster_id) if self._plan.identity is not None else ""
        except OSError as error:
            return f"which cluster it is cannot be noted: {error}"

    async def _discovery_client(self, address: HostPort) -> BrokerClient:
        if self._discovery is not None:
            before, client = self._discovery
            if before == address and client.is_open:
                return client
            self._discovery = None
            client.close()
        self._discovery = (address, await self.open_client(address))
        return self._discovery[1]

    def _discovery_addresses(self) -> Iterator[HostPort]:
        """Addresses to try: the one that answered last, then those with a client, then the others."""
        known = [(broker.host, broker.port) for broker in self._brokers.values()]
        given = [(server.host, server.port) for server in self._plan.servers]
        last = self._discovery[0] if self._discovery is not None else None
        yield from sorted(
            dict.fromkeys(known + given), key=lambda address: (address != last, not self._clients.has(address))
        )

    async def _resolve_broker(self, described: MetadataBroker) -> Broker | None:
        """Return the broker with its listener and versions; None if it has neither. A known broker that cannot be
        reached now is kept: the cluster says that it exists."""
        before = self._brokers.get(described.node_id)
        address = (described.host, described.port)
        try:
            client = await self._clients.get(address)
        except ProxyLoop as proxy_loop:
            if (described.node_id, address) not in self._reported_loops:
                self._reported_loops.add((described.node_id, address))
                log.warning(
                    "a broker is left out: it would lead back here", broker=described.node_id, why=str(proxy_loop)
                )
            return None
        except RequestFailed as failed:
            if before is None:
                log.warning("a broker cannot be reached from here", broker=described.node_id, why=str(failed))
                return None
            versions = before.versions
        else:
            versions = client.versions
        port = await self._listeners.open(described.node_id, self._protocol_factory(described.node_id))
        if port is None:
            return None
        return Broker(
            described.node_id,
            described.host,
            described.port,
            self._plan.advertised_host,
            port,
            versions,
            described.rack,
        )

    def _protocol_factory(self, node_id: int | None) -> Callable[[], ProxiedClientProtocol]:
        return lambda: ProxiedClientProtocol(self._server, self, node_id)

    async def _publish(self, brokers: dict[int, Broker]) -> None:
        self._listeners.retain(brokers)
        kept = {(broker.host, broker.port) for broker in brokers.values()}
        self._clients.retain(kept)
        self._forwarding_clients.retain(kept)
        self._brokers = brokers
        assert self._authorizer is not None
        has_authorizer = self._authorizer[0]
        self._server.happen(BrokersFound(tuple(brokers.values()), has_authorizer))
        if self._plan.unguarded is not None:
            await self._plan.unguarded.update(has_authorizer=has_authorizer)
        await self._listeners.serve()


def _server_timeout_s(message: Message) -> float:
    """Return the time that the request itself allows the broker, in seconds."""
    timeout_ms = message.timeout_ms if isinstance(message, CreateTopics | DeleteTopics | CreatePartitions) else 0
    return min(timeout_ms / 1_000, _MAX_SERVER_TIMEOUT_S)
