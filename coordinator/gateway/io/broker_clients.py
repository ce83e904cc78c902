"""EDGE: one link to each broker, opened when it is needed."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from coordinator.gateway.io.broker_client import BrokerClient, HostPort


class BrokerClients:
    """`open_link` raises RequestFailed."""

    def __init__(self, open_link: Callable[[HostPort], Awaitable[BrokerClient]]) -> None:
        self._open_link = open_link
        self._links: dict[HostPort, BrokerClient] = {}
        self._opening: dict[HostPort, asyncio.Task[BrokerClient]] = {}

    def has(self, place: HostPort) -> bool:
        """Whether one was opened. It may be over meanwhile."""
        return place in self._links

    def is_open(self, place: HostPort) -> bool:
        link = self._links.get(place)
        return link is not None and link.is_open

    async def to(self, place: HostPort) -> BrokerClient:
        """Whoever wants one while it is being opened waits for the same, and hears the same if nothing comes of it."""
        if self.is_open(place):
            return self._links[place]
        opening = self._opening.get(place)
        if opening is None:
            opening = self._opening[place] = asyncio.ensure_future(self._renew(place))
            opening.add_done_callback(_look_at)
        return await asyncio.shield(opening)

    async def _renew(self, place: HostPort) -> BrokerClient:
        try:
            link = await self._open_link(place)
        finally:
            del self._opening[place]
        if place in self._links:
            self._links[place].retire()
        self._links[place] = link
        return link

    def keep(self, places: Collection[HostPort]) -> None:
        """Nobody is asked at any other."""
        for place in [place for place in self._links if place not in places]:
            self._links.pop(place).close()

    async def stop(self) -> None:
        """Nobody is asked any more."""
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        self.keep(())


def _look_at(opening: asyncio.Task[BrokerClient]) -> None:
    """Who waited for it may be gone: nobody is to be told that nobody looked at its failure."""
    if not opening.cancelled():
        opening.exception()
