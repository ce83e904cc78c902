"""EDGE: requests gathered by broker: one at a time under way, and what comes meanwhile goes together in the next."""

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from coordinator.gateway.io.broker_client import HostPort
from coordinator.gateway.io.tasks import Tasks


class OfShard(Protocol):
    @property
    def shard(self) -> int: ...


R = TypeVar("R", bound=OfShard)


class Lanes(Generic[R]):
    """A lane for each broker. `carry` takes what waits to the broker and returns once all of it is answered. What is
    added in one turn of the loop goes together (docs/spec/shared-log.md#Recommended.3)."""

    def __init__(self, carry: Callable[[HostPort, list[R]], Awaitable[None]], tasks: Tasks) -> None:
        self._carry = carry
        self._tasks = tasks
        self._waiting: dict[HostPort, dict[int, R]] = {}

    def add(self, address: HostPort, request: R) -> None:
        """Send the request as soon as the lane is free, in place of one of its shard that waits: a shard that asks
        again has given up what it asked before."""
        waiting = self._waiting.get(address)
        if waiting is not None:
            waiting[request.shard] = request
            return
        self._waiting[address] = {request.shard: request}
        self._tasks.start(self._run(address))

    async def _run(self, address: HostPort) -> None:
        while waiting := self._waiting[address]:
            self._waiting[address] = {}
            await self._carry(address, list(waiting.values()))
        del self._waiting[address]
