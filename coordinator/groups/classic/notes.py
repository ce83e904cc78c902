"""Notes of a classic group: the reasons for its rebalances, in words an operator can act on."""

import enum
from typing import TypedDict, Unpack

from coordinator.groups.classic.events import Client
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.outcome import Outcome
from coordinator.records.records import Note
from protocol.messages.groups import OffsetChange, Origin, PreviousHolder, SlowestMember


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
    OFFSETS_DELETED = "offsets deleted"
    OFFSETS_EXPIRED = "offsets expired"
    OFFSETS_RESET = "offsets reset"
    OFFSETS_REWOUND = "offsets rewound"
    GROUP_EXPIRED = "group expired"
    TOPIC_DELETED = "topic deleted"
    TOPIC_CREATED = "topic created"
    PARTITIONS_ADDED = "partitions added"
    SETTINGS_CHANGED = "settings changed"
    ADOPTED = "offsets adopted"
    MEMBERS_ELSEWHERE = "members elsewhere"
    NOT_ADOPTED = "offsets not adopted"
    DOWNGRADED = "group downgraded"


class NoteFacts(TypedDict, total=False):
    """Fields of a note beyond its sentence."""

    origin: Origin | None
    took_ms: int
    slowest: SlowestMember | None
    joined: tuple[str, ...]
    previous: PreviousHolder | None
    idle_ms: int
    rebalance_timeout_ms: int
    act: str
    changes: tuple[OffsetChange, ...]


def departure(member: Member, now_ms: int) -> NoteFacts:
    """Return the facts about a member that is gone: its client, and whether its application had stopped polling."""
    active_ms = max(member.parked_ms, member.committed_ms)
    return NoteFacts(
        origin=origin_of_client(member.client or Client(member.client_id, member.client_host)),
        idle_ms=now_ms - active_ms if active_ms >= 0 else -1,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )


def origin_of_client(client: Client) -> Origin:
    """Return the client as notes keep it."""
    return Origin(client.client_id, client.client_host, client.client_port, client.listener, client.principal)


def note(
    group: ClassicGroup,
    out: Outcome,
    kind: str,
    cause: Cause,
    initiator: str,
    detail: str,
    subject: str = "",
    **facts: Unpack[NoteFacts],
) -> None:
    """Append a note. `kind` and `subject` as in `Note`; `detail` is a sentence for people. Without an `origin` it is
    that of the initiator, if the group has that member."""
    member = group.members.get(initiator)
    if member is not None and facts.get("origin") is None:
        # None: not heard since a load
        facts["origin"] = origin_of_client(member.client or Client(member.client_id, member.client_host))
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
            **facts,
        )
    )


def counted(count: int, noun: str) -> str:
    """Format a count: `1 member`, `2 members`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
