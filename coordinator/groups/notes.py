"""Notes of groups of every kind: the facts about the group."""

import enum
from typing import Final, Protocol, TypedDict, Unpack

from coordinator.groups.outcome import Outcome
from coordinator.records.records import Note
from protocol.client_text import client_text
from protocol.messages.groups import OffsetChange, Origin, PreviousHolder, SlowestMember

TAKEOVER: Final = "takeover"
"""Act of a process that takes the instance id of another, which is still connected and is fenced by that."""
_INSTANCE: Final = "instance "


def instance_of(note: Note) -> str:
    """Return the instance id that the note is about."""
    return note.subject.removeprefix(_INSTANCE)


class NoteFacts(TypedDict, total=False):
    """Optional fields of `Note`."""

    subject: str
    origin: Origin | None
    took_ms: int
    slowest: SlowestMember | None
    joined: tuple[str, ...]
    previous: PreviousHolder | None
    idle_ms: int
    rebalance_timeout_ms: int
    act: str
    changes: tuple[OffsetChange, ...]
    moved_partitions: int
    kept_partitions: int


def taken_over(
    instance_id: str | None, previous: PreviousHolder | None, detail: str, *, is_fencing: bool
) -> tuple[str, NoteFacts]:
    """Return detail and facts of the note that a member has its instance id from another. Notes about one instance id
    have one subject: two processes with it replace each other without end."""
    facts = NoteFacts(subject=f"{_INSTANCE}{instance_id or ''}", previous=previous)
    if is_fencing and previous is not None:
        facts["act"] = TAKEOVER
        heard = f", heard {previous.heard_ago_ms} ms ago," if previous.heard_ago_ms >= 0 else ""
        detail = f"{detail}; {client_text(previous.client_id, previous.client_host)}{heard} is fenced"
    return detail, facts


class NamedState(Protocol):
    """State with the name that clients see."""

    @property
    def title(self) -> str:
        """Name of the state, as DescribeGroups gives it."""


class NoteSubject(Protocol):
    """The fields of a group that its notes contain."""

    @property
    def group_id(self) -> str: ...

    @property
    def state(self) -> NamedState: ...


def append_note(
    group: NoteSubject,
    out: Outcome,
    kind: str,
    cause: enum.StrEnum,
    initiator: str,
    detail: str,
    generation_id: int,
    members: int,
    **facts: Unpack[NoteFacts],
) -> None:
    """Append a note on the group in its present state, at the time of the event. The fields are those of `Note`."""
    out.notes.append(
        Note(
            group_id=group.group_id,
            kind=kind,
            cause=cause.value,
            initiator=initiator,
            detail=detail,
            generation_id=generation_id,
            members=members,
            group_state=group.state.title,
            wall_ms=out.moment.wall_ms,
            **facts,
        )
    )
