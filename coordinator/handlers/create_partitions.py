"""Answer CreatePartitions."""

from coordinator.clock import Moment
from coordinator.handlers.client_balanced import topics_changed
from coordinator.handlers.core import Core
from protocol.messages.topics import CreatePartitions
from protocol.session import RequestRef


def create_partitions(core: Core, ref: RequestRef, message: CreatePartitions, moment: Moment) -> None:
    """Add partitions; durable when answered."""
    reply, position = core.embedded.grow(message, moment)
    topics_changed(core, moment)
    core.outbox.hold(position, ref, reply)
