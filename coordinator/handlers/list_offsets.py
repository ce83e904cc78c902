"""Answer ListOffsets."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.messages.offsets import ListOffsets
from protocol.session import RequestRef


def list_offsets(core: Core, ref: RequestRef, message: ListOffsets, moment: Moment) -> None:
    """List offsets: first, last, and by time; durable when answered."""
    reply, position = core.embedded.list_offsets(message)
    core.outbox.hold(position, ref, reply)
