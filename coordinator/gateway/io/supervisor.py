"""EDGE: what stands between the node and the cluster's brokers: finds them, opens a listener for each, and puts the
node's questions to them. Decides nothing: what is found are events, and what is asked were effects."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import structlog

from coordinator.config.config import Address
from coordinator.config.keys import Ports
from coordinator.gateway.brokers import Broker
from coordinator.gateway.effects import AbandonUpstream, Forward, Splice, UpstreamRequest
from coordinator.gateway.events import BrokersFound, UpstreamReply, UpstreamUnreachable
from coordinator.gateway.io.broker_client import BrokerClient, HostPort, Login, RequestFailed
from coordinator.gateway.io.broker_clients import BrokerClients
from coordinator.gateway.io.cluster_identity import Identity
from coordinator.gateway.io.listeners import Listeners
from coordinator.gateway.io.proxied_connection import ProxyProtocol
from coordinator.gateway.io.splice import Pipes
from coordinator.gateway.io.tls import UpstreamTls
from coordinator.gateway.io.unguarded_listeners import UnguardedListeners
from coordinator.gateway.native import HANDED_ON
from coordinator.io.exit import exit_process
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

_AUTHORIZER_FOR_S = 60.0
_DESCRIBE_ACLS = BY_MESSAGE[DescribeAcls].key
_GROUPS, _NO_GROUP = 3, "muster"
"""A filter by which few ACLs are told: that there are any is all we want to know."""
_MOST_OWN_S = 60.0
"""A broker that is gone without a word is noticed by then, whatever a client says that its request may take."""


class ProxyLoop(RequestFailed):
    """A listener of ours is no broker: who is led there is led there again, without end."""


@dataclass(frozen=True, slots=True)
class GatewayPlan:
    """`told_host` is what clients are told of the listeners, which bind `host`."""

    servers: tuple[Address, ...]
    ports: Ports
    host: str
    told_host: str
    refresh_s: float
    timeout_s: float
    login: Login | None = None
    tls: UpstreamTls | None = None
    """How brokers are spoken to, by clients' connections too; None: in the clear."""
    listening: ListeningTls | None = None
    """How clients speak to the listeners."""
    told_port: int = 0
    """What clients are told of where they begin; 0: of the port that was bound."""
    identity: Identity | None = None
    """Which cluster it has to be; None: any."""
    unguarded: UnguardedListeners | None = None
    """Is told whether the cluster has an authorizer."""


class Supervisor:
    """Everything of the edge that has to do with brokers. It speaks to the node once that is started."""

    def __init__(self, server: Server, plan: GatewayPlan) -> None:
        self._server = server
        self._plan = plan
        self._brokers: dict[int, Broker] = {}
        self._links = BrokerClients(self._open)
        self._links_to_work = BrokerClients(self._open)
        """A broker does one after the other of what comes over a connection. What is handed on may take long there, and
        nobody who only wants to know something waits in front of it."""
        self._lookout: tuple[HostPort, BrokerClient] | None = None
        """What tells who is there has a connection of its own: however much is asked, nobody waits in front of it."""
        self._listeners = Listeners(plan.host, plan.told_host, plan.ports, plan.listening, told_port=plan.told_port)
        self._told_own: set[tuple[int, HostPort]] = set()
        self._authorizer: tuple[bool, float] | None = None
        """Presence of an authorizer in the cluster, and the time it was asked."""
        self._turn = 0
        self._reason = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._tried = asyncio.Event()
        self.pipes = Pipes()
        server.carry_out(Forward, self._forward)
        server.carry_out(Splice, self._let_pass)
        server.carry_out(AbandonUpstream, self._give_up)
        server.carry_out(UpstreamRequest, self._ask)

    async def listen(self, port: int) -> HostPort:
        """The listener that leads to any broker; the address that was bound. Nobody is accepted until `start`."""
        return await self._listeners.open_first(self._in_front_of(None), port)

    async def has_authorizer(self) -> bool | None:
        """Whether the cluster authorizes requests; None if no broker answers."""
        try:
            async with asyncio.timeout(self._plan.timeout_s):
                await self._topology()
                return await self._ask_authorizer()
        except (RequestFailed, TimeoutError):
            return None

    async def start(self) -> None:
        """Look for brokers, now and from time to time. The node must have been started."""
        self._spawn(self._look_for_ever())
        await self._tried.wait()
        await self._listeners.serve_first()

    async def stop(self) -> None:
        """Accept nobody, ask nothing."""
        self._listeners.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._links.stop()
        await self._links_to_work.stop()
        if self._lookout is not None:
            self._lookout[1].close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        """The process does not outlive one that fails: nobody would look for brokers any more."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            exit_process("Supervisor", error)

    # ------------------------------------------------------------------------------------------------ for connections

    def any_broker(self) -> int | None:
        """The next of those that can be reached, else of those that are known."""
        known = sorted(self._brokers)
        living = [node_id for node_id in known if self._links.is_open(self.address_of(node_id))] or known
        self._turn += 1
        return living[self._turn % len(living)] if living else None

    def address_of(self, broker: int) -> HostPort:
        """Where it really is; of one that has gone, where nobody is."""
        known = self._brokers.get(broker)
        return (known.host, known.port) if known is not None else (self._plan.host, 0)

    def tls(self) -> ssl.SSLContext | None:
        """For a connection to a broker."""
        return None if self._plan.tls is None else self._plan.tls.context()

    def _forward(self, effect: Forward) -> None:
        client: ClientProtocol | None = self._server.client(effect.connection)
        if isinstance(client, ProxyProtocol) and client.transport is not None:
            client.forward(effect.data)

    def _let_pass(self, effect: Splice) -> None:
        client: ClientProtocol | None = self._server.client(effect.connection)
        if isinstance(client, ProxyProtocol):
            client.let_pass(effect.size)

    def _give_up(self, effect: AbandonUpstream) -> None:
        client: ClientProtocol | None = self._server.client(effect.connection)
        if isinstance(client, ProxyProtocol) and client.twin is not None:
            client.twin.give_up(effect.reason)

    # ------------------------------------------------------------------------------------------------------ questions

    def _ask(self, effect: UpstreamRequest) -> None:
        self._spawn(self._answer(effect))

    async def _answer(self, effect: UpstreamRequest) -> None:
        try:
            reply: Message | None = await self._ask_broker(effect.message, effect.broker)
            reason = ""
        except RequestFailed as failed:
            reply, reason = None, str(failed)
        self._server.happen(UpstreamReply(effect.call_id, reply, reason))

    async def _ask_broker(self, message: Message, node_id: int | None) -> Message:
        if node_id is None:
            node_id = self.any_broker()
        broker = self._brokers.get(node_id) if node_id is not None else None
        if broker is None:
            raise RequestFailed(f"broker {node_id} is not known")
        links = self._links_to_work if isinstance(message, HANDED_ON) else self._links
        link = await links.to((broker.host, broker.port))
        return await link.ask(message, max(self._plan.timeout_s, _own_time_s(message)))

    async def _open(self, place: HostPort) -> BrokerClient:
        own = ProxyLoop(f"{place[0]}:{place[1]} is a listener of Muster's own")

        def look_at(local: HostPort, remote: HostPort) -> None:
            if self._listeners.are_reached_by(local, remote):
                raise own

        if self._listeners.are_at(place):
            raise own
        return await BrokerClient.open(*place, self._plan.timeout_s, self._plan.login, self._plan.tls, look_at)

    # ---------------------------------------------------------------------------------------------------- who is there

    async def _look_for_ever(self) -> None:
        while True:
            try:
                brokers = await self._find()
            except RequestFailed as failed:
                if str(failed) != self._reason:
                    self._reason = str(failed)
                    first = "no broker of the cluster was reached yet: nobody can be led anywhere"
                    log.warning(
                        "the cluster cannot be reached; groups go on" if self._brokers else first, why=self._reason
                    )
                self._server.happen(UpstreamUnreachable(str(failed)))
            else:
                if self._reason:
                    log.info("the cluster is there again")
                self._reason = ""
                await self._tell(brokers)
            self._tried.set()
            await asyncio.sleep(self._plan.refresh_s)

    async def _find(self) -> dict[int, Broker]:
        """Every broker of the cluster, with its listener. Raises RequestFailed if none answers."""
        reply = await self._topology()
        await self._ask_authorizer()
        self._listeners.keep({broker.node_id for broker in reply.brokers})  # their ports may be wanted now
        self._told_own &= {(broker.node_id, (broker.host, broker.port)) for broker in reply.brokers}
        found = await asyncio.gather(*(self._meet(broker) for broker in reply.brokers))
        return {broker.node_id: broker for broker in found if broker is not None}

    async def _topology(self) -> MetadataReply:
        why = "nobody to ask"
        for place in self._places():
            try:
                reply = await (await self._look_from(place)).ask(Metadata(()), self._plan.timeout_s)
            except RequestFailed as failed:
                why = str(failed)
                continue
            assert isinstance(reply, MetadataReply)
            doubt = self._doubt(reply)
            if reply.brokers and not doubt:
                return reply
            why = doubt or "it names no brokers yet"
        raise RequestFailed(why)

    async def _ask_authorizer(self) -> bool:
        """Ask who answered last, once a minute. A broker without an authorizer says SECURITY_DISABLED, others anything
        else; one that has never heard of ACLs has none. Raises RequestFailed where it was never answered."""
        assert self._lookout is not None
        now_s = asyncio.get_running_loop().time()
        link, known = self._lookout[1], self._authorizer
        if known is not None and now_s - known[1] < _AUTHORIZER_FOR_S:
            return known[0]
        has_authorizer = any(row.api_key == _DESCRIBE_ACLS for row in link.versions.api_keys)
        if has_authorizer:
            try:
                reply = await link.ask(DescribeAcls(_GROUPS, _NO_GROUP), self._plan.timeout_s)
            except RequestFailed:
                if known is None:
                    raise
                return known[0]
            assert isinstance(reply, DescribeAclsReply)
            has_authorizer = reply.error_code is not ErrorCode.SECURITY_DISABLED
        self._authorizer = has_authorizer, now_s
        return has_authorizer

    def _doubt(self, reply: MetadataReply) -> str:
        """Why this is not the cluster to stand beside; empty if it is."""
        try:
            return self._plan.identity.doubt(reply.cluster_id) if self._plan.identity is not None else ""
        except OSError as error:
            return f"which cluster it is cannot be noted: {error}"

    async def _look_from(self, place: HostPort) -> BrokerClient:
        if self._lookout is not None:
            before, link = self._lookout
            if before == place and link.is_open:
                return link
            self._lookout = None
            link.close()
        self._lookout = (place, await self._open(place))
        return self._lookout[1]

    def _places(self) -> Iterator[HostPort]:
        """Whom to ask, who answered last first, then those with a connection."""
        known = [(broker.host, broker.port) for broker in self._brokers.values()]
        given = [(server.host, server.port) for server in self._plan.servers]
        last = self._lookout[0] if self._lookout is not None else None
        yield from sorted(dict.fromkeys(known + given), key=lambda place: (place != last, not self._links.has(place)))

    async def _meet(self, told: MetadataBroker) -> Broker | None:
        """One that cannot be reached just now is kept if it was known: the cluster says that it is there."""
        before = self._brokers.get(told.node_id)
        place = (told.host, told.port)
        try:
            link = await self._links.to(place)
        except ProxyLoop as own:
            if (told.node_id, place) not in self._told_own:
                self._told_own.add((told.node_id, place))
                log.warning("a broker is left out: it would lead back here", broker=told.node_id, why=str(own))
            return None
        except RequestFailed as failed:
            if before is None:
                log.warning("a broker cannot be reached from here", broker=told.node_id, why=str(failed))
                return None
            versions = before.versions
        else:
            versions = link.versions
        port = await self._listeners.open(told.node_id, self._in_front_of(told.node_id))
        if port is None:
            return None
        return Broker(told.node_id, told.host, told.port, self._plan.told_host, port, versions, told.rack)

    def _in_front_of(self, node_id: int | None) -> Callable[[], ProxyProtocol]:
        return lambda: ProxyProtocol(self._server, self, node_id)

    async def _tell(self, brokers: dict[int, Broker]) -> None:
        self._listeners.keep(brokers)
        kept = {(broker.host, broker.port) for broker in brokers.values()}
        self._links.keep(kept)
        self._links_to_work.keep(kept)
        self._brokers = brokers
        assert self._authorizer is not None
        has_authorizer = self._authorizer[0]
        self._server.happen(BrokersFound(tuple(brokers.values()), has_authorizer))
        if self._plan.unguarded is not None:
            await self._plan.unguarded.heard(has_authorizer=has_authorizer)
        await self._listeners.serve()


def _own_time_s(message: Message) -> float:
    """How long the broker may take by what the request itself says."""
    timeout_ms = message.timeout_ms if isinstance(message, CreateTopics | DeleteTopics | CreatePartitions) else 0
    return min(timeout_ms / 1_000, _MOST_OWN_S)
