"""Answer CreateTopics."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.facts.admin_notes import note_admin
from coordinator.groups.classic.notes import Cause
from coordinator.handlers.client_balanced import topics_changed
from protocol.messages.topics import CreateTopics
from protocol.session import RequestRef


def create_topics(core: Core, ref: RequestRef, message: CreateTopics, moment: Moment) -> None:
    """Create embedded topics; durable when answered."""
    reply, position = core.embedded.create(message, moment)
    created = [topic.name for topic in reply.topics if not topic.error_code]
    if created and not message.validate_only:
        note_admin(core, ref, Cause.TOPIC_CREATED, "create topic", ", ".join(created), moment)
    topics_changed(core, moment)
    core.outbox.hold(position, ref, reply)
