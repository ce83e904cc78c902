"""Events of a node whose shards are in the cluster's log, besides those of `coordinator.node.events`."""

from coordinator.cluster_log.events import ShardEvent
from coordinator.cluster_node.nodes import News, NodeView
from coordinator.node.events import Event


class ShardChanged(Event):
    """A broker answered a request of the shard, or the nodes' group assigned or revoked the shard."""

    shard: int
    event: ShardEvent


class LeaseRenewed(Event):
    """The coordinator of the nodes' group answered a heartbeat or a join without an error. The request was sent at this
    reading of CLOCK_BOOTTIME."""

    sent_boot_ms: int


class LeaseEnded(Event):
    """The node has left its group, or learnt that it is no member. `OwnershipLost` follows for each shard it owned."""


class LeftNodes(Event):
    """This node has left the nodes' group as planned, and serves no shard."""


class NodesFound(Event):
    """Members of the nodes' group, including this node. `owners`: the id of the node to which each shard is assigned;
    -1 for none. `unsettled_boot_ms`: when this node learnt that members join or leave; -1 if only this node joined."""

    nodes: tuple[NodeView, ...]
    owners: tuple[int, ...]
    unsettled_boot_ms: int = -1


class NodeEnded(Event):
    """The process of this node seems to have ended: its HTTP listener closed an open connection and refuses new ones.
    The nodes' group may count it as a member for a session."""

    node_id: int


class ShardsToRead(Event):
    """Number of shards whose logs this node must read before it is ready."""

    count: int


class NewsReceived(Event):
    """Notifications of other nodes, or of this one before its start, in order."""

    news: tuple[News, ...]


class LogProblems(Event):
    """All unsafe settings of the brokers and the topic of the log, for `/readyz`."""

    problems: tuple[str, ...]
