"""Answer ListOffsets."""

from coordinator.clock import Moment
from coordinator.handlers.core import Core
from protocol.messages.offsets import ListOffsets
from protocol.session import RequestRef


def list_offsets(core: Core, ref: RequestRef, message: ListOffsets, moment: Moment) -> None:
    """First, last, and by time; durable when told."""
    reply, position = core.topics.list_offsets(message)
    core.outbox.hold(position, ref, reply)
