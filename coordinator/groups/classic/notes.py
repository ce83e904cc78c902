"""Notes of a classic group: the reasons for its rebalances, in words an operator can act on."""

import enum

from coordinator.groups.classic.state import Group
from coordinator.groups.outcome import Outcome
from coordinator.records.records import Note


class Cause(enum.StrEnum):
    """Causes that begin a rebalance, or end a part of one. Metric labels: add to them, never rename."""

    MEMBER_JOINED = "member joined"
    MEMBER_REJOINED = "leader rejoined"
    METADATA_CHANGED = "member metadata changed"
    STATIC_REPLACED = "static member replaced"
    MEMBER_LEFT = "member left"
    SESSION_EXPIRED = "session expired"
    SYNC_EXPIRED = "member never synced"
    ASSIGNMENT_LOST = "assignment could not be stored"
    GROUP_TOO_LARGE = "group larger than allowed"
    NOT_REJOINED = "member did not rejoin in time"
    COMPLETED = "rebalance completed"
    EMPTIED = "last member gone"
    DELETED = "group deleted"
    OFFSETS_EXPIRED = "offsets expired"
    GROUP_EXPIRED = "group expired"
    TOPIC_DELETED = "topic deleted"
    ADOPTED = "offsets adopted"
    MEMBERS_ELSEWHERE = "members elsewhere"
    NOT_ADOPTED = "offsets not adopted"


def note(group: Group, out: Outcome, kind: str, cause: Cause, initiator: str, detail: str, subject: str = "") -> None:
    """Append a note. `kind` and `subject` as in `Note`; `detail` is a sentence for people."""
    out.notes.append(
        Note(
            group_id=group.group_id,
            kind=kind,
            cause=cause.value,
            initiator=initiator,
            detail=detail,
            generation_id=group.generation_id,
            members=len(group.members),
            group_state=group.state.title,
            wall_ms=out.moment.wall_ms,
            subject=subject,
        )
    )


def counted(count: int, noun: str) -> str:
    """Format a count: `1 member`, `2 members`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
