"""Answer PartitionMeta."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from coordinator.groups.client_balanced.events import AskMeta
from coordinator.handlers.client_balanced import refreshed
from protocol.messages.balanced import PartitionMeta
from protocol.session import RequestRef


def partition_meta(core: Core, ref: RequestRef, message: PartitionMeta, found: Found, moment: Moment) -> None:
    """Return the configured partitions and their states."""
    group = found.group_or_new(message.group_id)
    refreshed(core, group, moment)
    found.shard.process(group, AskMeta(ref, message), moment)
