"""EDGE: one client for each broker, connected when it is needed."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from coordinator.gateway.io.broker_client import BrokerClient, HostPort


class BrokerClients:
    """Clients by address. `open_client` raises RequestFailed."""

    def __init__(self, open_client: Callable[[HostPort], Awaitable[BrokerClient]]) -> None:
        self._open_client = open_client
        self._clients: dict[HostPort, BrokerClient] = {}
        self._opening: dict[HostPort, asyncio.Task[BrokerClient]] = {}

    def has(self, address: HostPort) -> bool:
        """Return whether a client was opened; it may be closed since."""
        return address in self._clients

    def is_open(self, address: HostPort) -> bool:
        client = self._clients.get(address)
        return client is not None and client.is_open

    async def get(self, address: HostPort) -> BrokerClient:
        """Return the client of the address. Callers that come while it connects share the attempt and its failure."""
        if self.is_open(address):
            return self._clients[address]
        opening = self._opening.get(address)
        if opening is None:
            opening = self._opening[address] = asyncio.ensure_future(self._renew(address))
            opening.add_done_callback(_retrieve_exception)
        return await asyncio.shield(opening)

    async def _renew(self, address: HostPort) -> BrokerClient:
        try:
            client = await self._open_client(address)
        finally:
            del self._opening[address]
        if address in self._clients:
            self._clients[address].retire()
        self._clients[address] = client
        return client

    def retain(self, addresses: Collection[HostPort]) -> None:
        """Close the clients of all other addresses."""
        for address in [address for address in self._clients if address not in addresses]:
            self.close(address)

    def close(self, address: HostPort) -> None:
        """Close the client of the address, if there is one; the next `get` connects anew."""
        client = self._clients.pop(address, None)
        if client is not None:
            client.close()

    async def stop(self) -> None:
        """Close all clients."""
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        self.retain(())


def _retrieve_exception(opening: asyncio.Task[BrokerClient]) -> None:
    """Retrieve the exception so that asyncio does not log "never retrieved": every caller may have been cancelled."""
    if not opening.cancelled():
        opening.exception()
