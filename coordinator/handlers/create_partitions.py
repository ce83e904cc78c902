"""Answer CreatePartitions."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.facts.admin_notes import note_admin
from coordinator.groups.classic.notes import Cause
from coordinator.handlers.client_balanced import topics_changed
from protocol.messages.topics import CreatePartitions
from protocol.session import RequestRef


def create_partitions(core: Core, ref: RequestRef, message: CreatePartitions, moment: Moment) -> None:
    """Add partitions; durable when answered."""
    reply, position = core.embedded.grow(message, moment)
    grown = {topic.name for topic in reply.results if not topic.error_code}
    told = [f"{topic.name} to {topic.count}" for topic in message.topics if topic.name in grown]
    if told and not message.validate_only:
        note_admin(core, ref, Cause.PARTITIONS_ADDED, "add partitions", ", ".join(told), moment)
    topics_changed(core, moment)
    core.outbox.hold(position, ref, reply)
