"""Answer ListNotes: the reasons for a group's rebalances."""

from coordinator.clock import Moment
from coordinator.handlers.admission import admit
from coordinator.handlers.core import Core
from protocol.messages.groups import ListNotes, ListNotesReply
from protocol.session import RequestRef


def list_notes(core: Core, ref: RequestRef, message: ListNotes, moment: Moment) -> None:
    """List the notes of the group. A deleted group may still have notes."""
    refused = admit(core, message.group_id, may_be_empty=True)
    core.outbox.send(ref, ListNotesReply(error_code=refused) if refused else core.journal.list(message))
