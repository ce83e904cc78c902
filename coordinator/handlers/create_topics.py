"""Answer CreateTopics."""

from coordinator.clock import Moment
from coordinator.handlers.client_balanced import topics_changed
from coordinator.handlers.core import Core
from protocol.messages.topics import CreateTopics
from protocol.session import RequestRef


def create_topics(core: Core, ref: RequestRef, message: CreateTopics, moment: Moment) -> None:
    """Create embedded topics; durable when answered."""
    reply, position = core.embedded.create(message, moment)
    topics_changed(core, moment)
    core.outbox.hold(position, ref, reply)
