"""Answer ListNotes: the reasons for a group's rebalances."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from protocol.messages.groups import ListNotes
from protocol.session import RequestRef


def list_notes(core: Core, ref: RequestRef, message: ListNotes, found: Found, moment: Moment) -> None:
    """List the notes of the group. A deleted group may still have notes."""
    core.outbox.send(ref, core.journal.list(message))
