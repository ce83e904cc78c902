"""Answer PartitionMeta."""

from coordinator.clock import Moment
from coordinator.groups.client_balanced.events import AskMeta
from coordinator.handlers.client_balanced import admit_client_balanced, find
from coordinator.handlers.core import Core
from protocol.messages.balanced import PartitionMeta, PartitionMetaReply
from protocol.session import RequestRef


def partition_meta(core: Core, ref: RequestRef, message: PartitionMeta, moment: Moment) -> None:
    """Return the configured partitions and their states."""
    if refused := admit_client_balanced(core, message.group_id):
        core.outbox.send(ref, PartitionMetaReply(refused))
        return
    shard, group = find(core, message.group_id, moment)
    shard.process(group, AskMeta(ref, message), moment)
