"""Effects of a node whose shards are in the cluster's log, besides those of `coordinator.node.effects`."""

from coordinator.cluster_log.effects import AskProducerId, ReadLog, WriteBatch
from coordinator.node.effects import Effect


class ShardRequest(Effect):
    """Send the request of a shard to the brokers. Batches of one step may go in one Produce a leader. Comes back as
    `ShardChanged` with the answer, always."""

    request: AskProducerId | WriteBatch | ReadLog


class HandedOver(Effect):
    """Tell the nodes' group that another node may have the shard: nothing of this one's is under way. Follows each
    `OwnershipRevoked`."""

    shard: int
