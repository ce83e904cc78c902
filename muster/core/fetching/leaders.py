"""The node that each partition is read from: its leader, or the follower that the leader named
(docs/spec/consumer-client.md#B2, KIP-392).
"""

from collections.abc import Iterable
from typing import NamedTuple

from membership.events import NodeAddress
from membership.nodes import nodes_of
from membership.topic_partition import TopicPartition
from protocol.messages.topics import NO_TOPIC_ID, MetadataPartitionReply, MetadataReply


class Leader(NamedTuple):
    """A leader. `epoch` is -1 if the reply did not have it."""

    node: NodeAddress
    epoch: int


class Leaders:
    """The newest metadata, without leaders that fetches have since shown to be outdated. Metadata with an older epoch
    of a partition than a known one is ignored, unless its topic was created again.
    """

    def __init__(self) -> None:
        self._leaders: dict[TopicPartition, Leader] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._preferred: dict[TopicPartition, tuple[int, int]] = {}
        self._nodes: dict[int, NodeAddress] = {}
        self._ids: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}

    def at(self, one: TopicPartition) -> Leader | None:
        return self._leaders.get(one)

    def reader(self, one: TopicPartition, now_ms: int) -> NodeAddress | None:
        """Return the node to fetch from; None if the partition has no known leader."""
        leader = self._leaders.get(one)
        if leader is None:
            return None
        node_id, until_ms = self._preferred.get(one, (-1, 0))
        if until_ms > now_ms and node_id in self._nodes:
            return self._nodes[node_id]
        return leader.node

    def unknown(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [one for one in partitions if one not in self._leaders]

    def topic_id(self, topic: str) -> bytes:
        return self._ids.get(topic, NO_TOPIC_ID)

    def topic_name(self, name: str, topic_id: bytes) -> str:
        """Return the name of a topic in a reply, which may have only the id; empty for an unknown id."""
        return name or self._names.get(topic_id, "")

    def prefer(self, one: TopicPartition, node_id: int, until_ms: int) -> None:
        self._preferred[one] = node_id, until_ms

    def forget_preferred(self, one: TopicPartition) -> bool:
        """Return to the leader; return true if another replica was preferred."""
        return self._preferred.pop(one, None) is not None

    def doubt(self, one: TopicPartition) -> None:
        """Forget a leader that may have moved: no requests are sent before a reply names the new one."""
        self._leaders.pop(one, None)
        self._preferred.pop(one, None)

    def hint(self, one: TopicPartition, node: NodeAddress, epoch: int) -> bool:
        """Store the leader that a former leader has named (KIP-951); return false if it is outdated."""
        if epoch <= self._epochs.get(one, -1):
            return False
        self._leaders[one] = Leader(node, epoch)
        self._epochs[one] = epoch
        self._nodes[node.node_id] = node
        return True

    def on_metadata(self, reply: MetadataReply) -> None:
        self._nodes.update(nodes_of(reply))
        for topic in reply.topics:
            if topic.name is None:
                continue
            if topic.topic_id != self._ids.get(topic.name, topic.topic_id):
                self._forget_topic(topic.name)
            if topic.topic_id != NO_TOPIC_ID:
                self._ids[topic.name] = topic.topic_id
                self._names[topic.topic_id] = topic.name
            for told in topic.partitions:
                self._on_leader(TopicPartition(topic.name, told.partition_index), told)

    def _on_leader(self, one: TopicPartition, told: MetadataPartitionReply) -> None:
        node = self._nodes.get(told.leader_id)
        if node is not None and told.leader_epoch >= self._epochs.get(one, -1):
            self._leaders[one] = Leader(node, told.leader_epoch)
            self._epochs[one] = told.leader_epoch

    def _forget_topic(self, topic: str) -> None:
        for one in [one for one in self._epochs if one.topic == topic]:
            del self._epochs[one]
            self.doubt(one)
