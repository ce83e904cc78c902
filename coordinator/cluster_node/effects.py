"""Effects of a node whose shards are in the cluster's log, besides those of `coordinator.node.effects`."""

from coordinator.cluster_log.effects import AskProducerId, ReadLog, WriteBatch
from coordinator.cluster_node.nodes import News
from coordinator.node.effects import Effect


class ShardRequest(Effect):
    """Send the request of a shard to the brokers. Batches of one step may go in one Produce a leader. Comes back as
    `ShardChanged` with the answer, always."""

    request: AskProducerId | WriteBatch | ReadLog


class HandedOver(Effect):
    """Notify the nodes' group that another node may own the shard: this node has no request in flight. Follows each
    `OwnershipRevoked`."""

    shard: int


class CaughtUp(Effect):
    """Notify the nodes' group that this node has the state of the shard's log, which it serves or follows."""

    shard: int


class PublishNews(Effect):
    """Notify the other nodes, and those that start later. No reply waits for it."""

    news: tuple[News, ...]
