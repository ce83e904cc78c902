"""Log lines of notes: removed members, and clients' changes of groups, topics and settings."""

from typing import Any, Final

from coordinator.groups.classic.notes import Cause
from coordinator.groups.client_balanced.notes import BalancedCause
from coordinator.groups.consumer.notes import ConsumerCause
from coordinator.node.effects import Effect, LogNote
from coordinator.records.records import Note

EVICTIONS: Final = frozenset(
    {
        Cause.SESSION_EXPIRED.value,
        Cause.NOT_REJOINED.value,
        Cause.SYNC_EXPIRED.value,
        ConsumerCause.NOT_REVOKED.value,
        BalancedCause.LEASE_OVER.value,
    }
)
"""Causes of removals that the member did not request."""


def log_note(effects: list[Effect], note: Note) -> None:
    """Log the note if it is about an eviction or an administrative action."""
    details: dict[str, Any] = {"group": note.group_id, "detail": note.detail}
    if note.act:
        origin = note.origin
        details["act"] = note.act
        if origin is not None:
            details |= {"client": origin.client_id, "host": origin.client_host.lstrip("/")}
            details |= {"principal": origin.principal} if origin.principal else {}
        effects.append(LogNote("act on a group" if note.group_id else "act on the node", note.cause, details))
    elif note.cause in EVICTIONS:
        effects.append(LogNote("member evicted", note.cause, details | {"member": note.initiator}))
