"""Notes of groups of every kind: the facts about the group."""

import enum
from typing import Protocol, TypedDict, Unpack

from coordinator.groups.outcome import Outcome
from coordinator.records.records import Note
from protocol.messages.groups import OffsetChange, Origin, PreviousHolder, SlowestMember


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
