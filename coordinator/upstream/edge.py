"""EDGE: what stands between the node and the cluster's brokers: finds them, opens a listener for each, and puts the
node's questions to them. Decides nothing: what is found are events, and what is asked were effects."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import structlog

from coordinator.config import Address
from coordinator.config_keys import Ports
from coordinator.effects import AskUpstream, Forward, GiveUp, Pass
from coordinator.ending import end_at_once
from coordinator.events import BrokersFound, UpstreamAnswered, UpstreamAway
from coordinator.server import ClientProtocol, Server
from coordinator.tls_listening import ListeningTls, listen_at
from coordinator.upstream.brokers import Broker
from coordinator.upstream.link import AskFailed, Link, Login
from coordinator.upstream.passing import Pipes
from coordinator.upstream.tls import UpstreamTls
from coordinator.upstream.twin import FrontProtocol
from protocol.messages import Message
from protocol.messages.topics import Metadata, MetadataBroker, MetadataReply

log = structlog.get_logger()

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
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


class Beside:
    """Everything of the edge that has to do with brokers. It speaks to the node once that is started."""

    def __init__(self, server: Server, plan: Plan) -> None:
        self._server = server
        self._plan = plan
        self._brokers: dict[int, Broker] = {}
        self._links: dict[Place, Link] = {}
        self._opening: dict[Place, asyncio.Lock] = {}
        self._listeners: dict[int, asyncio.Server] = {}
        self._ports: dict[int, int] = {}
        """Of brokers seen so far, whether they are there or not: who comes back finds its port again."""
        self._first: asyncio.Server | None = None
        self._turn = 0
        self._reason = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._tried = asyncio.Event()
        self.pipes = Pipes()
        server.carry_out(Forward, self._forward)
        server.carry_out(Pass, self._let_pass)
        server.carry_out(GiveUp, self._give_up)
        server.carry_out(AskUpstream, self._ask)

    async def listen(self, port: int) -> Place:
        """The listener that leads to any broker; the address that was bound. Nobody is accepted until `start`."""
        front, plan = self._in_front_of(None), self._plan
        self._first = await listen_at(front, plan.host, port, plan.listening, starts=False)
        bound = self._first.sockets[0].getsockname()
        return bound[0], bound[1]

    async def start(self) -> None:
        """Look for brokers, now and from time to time. The node must have been started."""
        self._spawn(self._look_for_ever())
        await self._tried.wait()
        assert self._first is not None
        await self._first.start_serving()

    async def stop(self) -> None:
        """Accept nobody, ask nothing."""
        for one in filter(None, (self._first, *self._listeners.values())):
            one.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in self._links.values():
            link.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        """The process does not outlive one that fails: nobody would look for brokers any more."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            end_at_once("Beside", error)

    # ------------------------------------------------------------------------------------------------ for connections

    def any_broker(self) -> int | None:
        """The next of those that can be reached, else of those that are known."""
        known = sorted(self._brokers)
        living = [node_id for node_id in known if self._is_linked(self._brokers[node_id])] or known
        self._turn += 1
        return living[self._turn % len(living)] if living else None

    def _is_linked(self, broker: Broker) -> bool:
        link = self._links.get((broker.host, broker.port))
        return link is not None and link.is_open

    def address_of(self, broker: int) -> Place:
        """Where it really is; of one that has gone, where nobody is."""
        known = self._brokers.get(broker)
        return (known.host, known.port) if known is not None else (self._plan.host, 0)

    def tls(self) -> ssl.SSLContext | None:
        """For a connection to a broker."""
        return None if self._plan.tls is None else self._plan.tls.context()

    def _forward(self, effect: Forward) -> None:
        client: ClientProtocol | None = self._server.client(effect.connection)
        if isinstance(client, FrontProtocol) and client.transport is not None:
            client.forward(effect.data)

    def _let_pass(self, effect: Pass) -> None:
        client: ClientProtocol | None = self._server.client(effect.connection)
        if isinstance(client, FrontProtocol):
            client.let_pass(effect.size)

    def _give_up(self, effect: GiveUp) -> None:
        client: ClientProtocol | None = self._server.client(effect.connection)
        if isinstance(client, FrontProtocol) and client.twin is not None:
            client.twin.give_up(effect.reason)

    # ------------------------------------------------------------------------------------------------------ questions

    def _ask(self, effect: AskUpstream) -> None:
        self._spawn(self._answer(effect))

    async def _answer(self, effect: AskUpstream) -> None:
        try:
            reply: Message | None = await self._ask_broker(effect.message, effect.broker)
            reason = ""
        except AskFailed as failed:
            reply, reason = None, str(failed)
        self._server.happen(UpstreamAnswered(effect.call_id, reply, reason))

    async def _ask_broker(self, message: Message, node_id: int | None) -> Message:
        if node_id is None:
            node_id = self.any_broker()
        broker = self._brokers.get(node_id) if node_id is not None else None
        if broker is None:
            raise AskFailed(f"broker {node_id} is not known")
        link = await self._link((broker.host, broker.port))
        return await link.ask(message, self._plan.timeout_s)

    async def _link(self, place: Place) -> Link:
        async with self._opening.setdefault(place, asyncio.Lock()):
            link = self._links.get(place)
            if link is None or not link.is_open:
                if link is not None:
                    link.close()
                link = self._links[place] = await Link.open(
                    *place, self._plan.timeout_s, self._plan.login, self._plan.tls
                )
            return link

    # ---------------------------------------------------------------------------------------------------- who is there

    async def _look_for_ever(self) -> None:
        while True:
            try:
                brokers = await self._find()
            except AskFailed as failed:
                if str(failed) != self._reason:
                    self._reason = str(failed)
                    log.warning("the cluster cannot be reached; groups go on", why=self._reason)
                self._server.happen(UpstreamAway(str(failed)))
            else:
                if self._reason:
                    log.info("the cluster is there again")
                self._reason = ""
                await self._tell(brokers)
            self._tried.set()
            await asyncio.sleep(self._plan.refresh_s)

    async def _find(self) -> dict[int, Broker]:
        """Every broker of the cluster, with its listener. Raises AskFailed if none answers."""
        reply = await self._topology()
        found = await asyncio.gather(*(self._meet(broker) for broker in reply.brokers))
        return {broker.node_id: broker for broker in found if broker is not None}

    async def _topology(self) -> MetadataReply:
        why = "nobody to ask"
        for place in self._places():
            try:
                link = await self._link(place)
                reply = await link.ask(Metadata(()), self._plan.timeout_s)
            except AskFailed as failed:
                why = str(failed)
                continue
            assert isinstance(reply, MetadataReply)
            if reply.brokers:
                return reply
        raise AskFailed(why)

    def _places(self) -> Iterator[Place]:
        """Whom to ask, those with a connection first."""
        known = [(broker.host, broker.port) for broker in self._brokers.values()]
        given = [(server.host, server.port) for server in self._plan.servers]
        yield from sorted(dict.fromkeys(known + given), key=lambda place: place not in self._links)

    async def _meet(self, told: MetadataBroker) -> Broker | None:
        """One that cannot be reached just now is kept if it was known: the cluster says that it is there."""
        before = self._brokers.get(told.node_id)
        place = (told.host, told.port)
        try:
            link = await self._link(place)
        except AskFailed as failed:
            if before is None:
                log.warning("a broker cannot be reached from here", broker=told.node_id, why=str(failed))
                return None
            versions = before.versions
        else:
            versions = link.versions
        port = await self._listener(told.node_id)
        if port is None:
            return None
        return Broker(told.node_id, told.host, told.port, self._plan.told_host, port, versions, told.rack)

    def _in_front_of(self, node_id: int | None) -> Callable[[], FrontProtocol]:
        return lambda: FrontProtocol(self._server, self, node_id)

    async def _listener(self, node_id: int) -> int | None:
        if node_id in self._listeners:
            return self._ports[node_id]
        ports = range(self._plan.ports.first, self._plan.ports.last + 1)
        first = self._ports.get(node_id, ports[max(node_id, 0) % len(ports)])
        taken = {port for other, port in self._ports.items() if other != node_id}
        for port in (first, *(one for one in ports if one != first)):
            if port in taken:
                continue
            with contextlib.suppress(OSError):
                # A client finds its way here after a restart before the node knows the broker: not serving yet.
                self._listeners[node_id] = await listen_at(
                    self._in_front_of(node_id), self._plan.host, port, self._plan.listening, starts=False
                )
                self._ports[node_id] = port
                log.info("in front of a broker", broker=node_id, listener=f"{self._plan.host}:{port}")
                return port
        log.error("no port is left for a broker's listener", broker=node_id, ports=str(self._plan.ports))
        return None

    async def _tell(self, brokers: dict[int, Broker]) -> None:
        for node_id in [node_id for node_id in self._listeners if node_id not in brokers]:
            log.info("a broker has left the cluster", broker=node_id)
            self._listeners.pop(node_id).close()  # who is connected stays: group requests need no broker
        kept = {(broker.host, broker.port) for broker in brokers.values()}
        for place in [place for place in self._links if place not in kept]:
            self._links.pop(place).close()
        self._brokers = brokers
        self._server.happen(BrokersFound(tuple(brokers.values())))
        for listener in self._listeners.values():
            if not listener.is_serving():
                await listener.start_serving()
