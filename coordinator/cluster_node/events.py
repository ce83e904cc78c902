"""Events of a node whose shards are in the cluster's log, besides those of `coordinator.node.events`."""

from coordinator.cluster_log.events import ShardEvent
from coordinator.cluster_node.nodes import LetGo, NodeView
from coordinator.node.events import Event
from coordinator.records.records import Note


class ShardChanged(Event):
    """A broker answered a request of the shard, or the nodes' group gave the shard, or took it."""

    shard: int
    event: ShardEvent


class LeaseRenewed(Event):
    """The coordinator of the nodes' group answered a heartbeat or a join without an error. It was sent at this reading
    of CLOCK_BOOTTIME."""

    sent_boot_ms: int


class LeaseEnded(Event):
    """The node has left its group, or heard that it is no member. `OwnershipLost` follows for each shard it had."""


class NodesFound(Event):
    """Members of the nodes' group, this node among them. `owners`: the id of the node that has been given each shard;
    -1 for none. `unsettled_boot_ms`: when this node heard that members come or go; -1 if it has only come itself."""

    nodes: tuple[NodeView, ...]
    owners: tuple[int, ...]
    unsettled_boot_ms: int = -1


class NodesTold(Event):
    """Other nodes, or this one before its start, told these, in order."""

    news: tuple[Note | LetGo, ...]


class LogProblems(Event):
    """All that is unsafe about the brokers and the topic of the log, for `/readyz`."""

    problems: tuple[str, ...]
