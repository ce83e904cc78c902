"""EDGE: who leads which partition of the log's topic."""

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
"""Answers after which the leader may be another; None: there was no answer."""


class PartitionLeaders:
    """Leaders as they were last told. What is not known, or in doubt, is asked for, one question at a time."""

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
        """Ask the cluster, unless that is under way."""
        if not self._is_asking:
            self._is_asking = True
            self._tasks.start(self._look())

    async def _look(self) -> None:
        try:
            reply = await self._link.metadata(self._topic)
        except RequestFailed:
            return  # whoever needs a leader tries again in a moment
        finally:
            self._is_asking = False
        found = {
            one.partition_index: self._link.address_of(one.leader_id)
            for topic in reply.topics
            for one in topic.partitions
        }
        self._leaders = {partition: address for partition, address in found.items() if address is not None}
