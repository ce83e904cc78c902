"""EDGE: requests that any broker of the cluster can answer, and the brokers' addresses from the replies."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from coordinator.gateway.io.broker_client import BrokerClient, HostPort, RequestFailed
from coordinator.gateway.io.broker_clients import BrokerClients
from protocol.messages import Message
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic

OpenClient = Callable[[HostPort], Awaitable[BrokerClient]]
R = TypeVar("R", bound=Message)
T = TypeVar("T")

TIMEOUT_S = 2.0
"""Silence after which another broker is asked."""


class ClusterLink:
    """Connections for requests that are answered quickly. Slow requests have connections of their own, since a broker
    serves the requests of a connection one after another. `mismatch` says why a reply is from another cluster."""

    def __init__(
        self, bootstrap: Iterable[HostPort], open_client: OpenClient, mismatch: Callable[[MetadataReply], str]
    ) -> None:
        self.open_client = open_client
        self.clients = BrokerClients(open_client)
        self._bootstrap = list(bootstrap)
        self._mismatch = mismatch
        self._brokers: dict[int, HostPort] = {}
        self._failed: dict[HostPort, None] = {}
        """Addresses that did not answer their last request, in the order of the failures."""

    def address_of(self, broker: int) -> HostPort | None:
        """Return the address of a broker; None while it is not known."""
        return self._brokers.get(broker)

    async def ask(self, message: Message, kind: type[R], timeout_s: float = TIMEOUT_S) -> R:
        """Ask any broker, one after another until one answers. Raises RequestFailed."""
        why = "no broker to ask"
        for address in list(self._addresses()):
            try:
                return await self.ask_at(address, message, kind, timeout_s)
            except RequestFailed as failed:
                why = str(failed)
                self._failed.pop(address, None)
                self._failed[address] = None
        raise RequestFailed(why)

    async def ask_at(self, address: HostPort, message: Message, kind: type[R], timeout_s: float = TIMEOUT_S) -> R:
        """Ask the broker there. Raises RequestFailed."""
        reply = await (await self.clients.get(address)).ask(message, timeout_s)
        if not isinstance(reply, kind):
            raise RequestFailed(f"{address[0]}:{address[1]} answered with {type(reply).__name__}")
        self._failed.pop(address, None)
        return reply

    async def metadata(self, *topics: str) -> MetadataReply:
        """Return the cluster's description of its brokers and of these topics. Raises RequestFailed."""
        reply = await self.ask(Metadata(tuple(MetadataTopic(name) for name in topics)), MetadataReply)
        problem = self._mismatch(reply)
        if problem or not reply.brokers:
            raise RequestFailed(problem or "it names no brokers yet")
        self._brokers = {one.node_id: (one.host, one.port) for one in reply.brokers}
        self.clients.retain({*self._brokers.values(), *self._bootstrap})
        return reply

    def _addresses(self) -> Iterator[HostPort]:
        known = dict.fromkeys([*self._brokers.values(), *self._bootstrap])
        yield from (one for one in known if one not in self._failed)
        yield from (one for one in self._failed if one in known)

    async def stop(self) -> None:
        """Close the connections."""
        await self.clients.stop()


def only(answers: Sequence[T]) -> T:
    """Return the answer about the one thing that was asked. Raises RequestFailed if a broker answers otherwise."""
    if len(answers) != 1:
        raise RequestFailed(f"a broker gave {len(answers)} answers to one question")
    return answers[0]
