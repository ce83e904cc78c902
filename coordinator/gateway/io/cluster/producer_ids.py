"""EDGE: requests for producer ids and epochs of transactional ids, each to the coordinator of the id."""

from coordinator.gateway.io.broker_client import HostPort, RequestFailed
from coordinator.gateway.io.cluster.link import ClusterLink, only
from protocol.errors import ErrorCode
from protocol.messages.data import InitProducerId, InitProducerIdReply
from protocol.messages.node import FindCoordinator, FindCoordinatorReply

_TRANSACTION_KEY = 1
"""Type of the keys that are transactional ids, in a FindCoordinator."""
COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class ProducerIds:
    """Requests to the ids' coordinators, which are remembered."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link
        self._coordinators: dict[str, HostPort] = {}

    async def ask(self, name: str, producer_id: int = -1, producer_epoch: int = -1) -> InitProducerIdReply:
        """Ask for the next epoch, of this producer id if one is given. Raises RequestFailed."""
        try:
            coordinator = self._coordinators.get(name) or await self._find(name)
            if isinstance(coordinator, ErrorCode):
                return InitProducerIdReply(coordinator)
            message = InitProducerId(name, producer_id=producer_id, producer_epoch=producer_epoch)
            reply = await self._link.ask_at(coordinator, message, InitProducerIdReply)
        except RequestFailed:
            self._coordinators.pop(name, None)
            raise
        if reply.error_code in COORDINATOR_MOVED:
            self._coordinators.pop(name, None)
        return reply

    async def _find(self, name: str) -> HostPort | ErrorCode:
        reply = await self._link.ask(FindCoordinator((name,), _TRANSACTION_KEY), FindCoordinatorReply)
        found = only(reply.coordinators)
        if found.error_code is not ErrorCode.NONE:
            return found.error_code
        self._coordinators[name] = found.host, found.port
        return found.host, found.port
