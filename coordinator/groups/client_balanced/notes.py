"""Notes of a client-balanced group: events of its members, in words an operator can act on."""

import enum

from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.groups.outcome import Outcome
from coordinator.records.records import Note


class BalancedCause(enum.StrEnum):
    """Causes of the notes. Add to them, never rename."""

    JOINED = "member joined"
    JOINED_AGAIN = "member joined again"
    REPLACED = "member replaced"
    LEFT = "member left"
    LEASE_OVER = "lease over"
    PARTITIONS_GONE = "partitions gone"
    ASSIGNED = "partitions assigned"
    FROM_MAX = "told to consume from the end"


def note(
    group: BalancedGroup,
    out: Outcome,
    cause: BalancedCause,
    who: str,
    detail: str,
    members: int,
    *,
    kind: str = "member",
    subject: str = "",
) -> None:
    """Append a note; `members` is the number of members afterwards, `subject` as in `Note`."""
    out.notes.append(
        Note(
            group_id=group.group_id,
            kind=kind,
            cause=cause.value,
            initiator=who,
            detail=detail,
            generation_id=group.on_record.epoch,
            members=members,
            group_state=group.state.title,
            wall_ms=out.moment.wall_ms,
            subject=subject,
        )
    )


def partitions(count: int) -> str:
    """Format a count: `1 partition`, `2 partitions`."""
    return "1 partition" if count == 1 else f"{count} partitions"
