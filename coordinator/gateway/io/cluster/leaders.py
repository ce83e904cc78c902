"""EDGE: the leaders of the log topic's partitions."""

from coordinator.gateway.io.broker_client import HostPort, RequestFailed
from coordinator.gateway.io.cluster.link import ClusterLink
from coordinator.gateway.io.tasks import Tasks
from protocol.errors import ErrorCode

MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        None,
    }
)
"""Errors after which the leader may have moved; None: there was no answer."""


class PartitionLeaders:
    """Leaders according to the last Metadata. Unknown or doubtful leaders are requested, one request at a time."""

    def __init__(self, link: ClusterLink, topic: str, tasks: Tasks) -> None:
        self._link = link
        self._topic = topic
        self._tasks = tasks
        self._leaders: dict[int, HostPort] = {}
        self._is_asking = False

    def of(self, partition: int) -> HostPort | None:
        """Return the leader's address; None while it is not known."""
        leader = self._leaders.get(partition)
        if leader is None:
            self.doubt()
        return leader

    def doubt(self) -> None:
        """Request the leaders again, unless a request is in flight."""
        if not self._is_asking:
            self._is_asking = True
            self._tasks.start(self._look())

    async def _look(self) -> None:
        try:
            reply = await self._link.metadata(self._topic)
        except RequestFailed:
            return  # callers that need a leader retry soon
        finally:
            self._is_asking = False
        found = {
            one.partition_index: self._link.address_of(one.leader_id)
            for topic in reply.topics
            for one in topic.partitions
        }
        self._leaders = {partition: address for partition, address in found.items() if address is not None}
