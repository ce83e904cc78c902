"""EDGE: requests merged by broker: one is in flight at a time, and those that arrive meanwhile are merged into the
next."""

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from coordinator.gateway.io.broker_client import HostPort
from coordinator.gateway.io.tasks import Tasks


class HasShard(Protocol):
    @property
    def shard(self) -> int: ...


R = TypeVar("R", bound=HasShard)


class BrokerQueues(Generic[R]):
    """A queue for each broker. `carry` sends the waiting requests to the broker and returns once all are answered.
    Requests added in one iteration of the event loop are sent together (docs/spec/shared-log.md#Recommended.3)."""

    def __init__(self, carry: Callable[[HostPort, list[R]], Awaitable[None]], tasks: Tasks) -> None:
        self._carry = carry
        self._tasks = tasks
        self._waiting: dict[HostPort, dict[int, R]] = {}

    def add(self, address: HostPort, request: R) -> None:
        """Send the request as soon as none is in flight. It replaces a waiting request of the same shard, which the
        shard has given up."""
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
