"""Notes of a classic group: the reasons for its rebalances, written for operators."""

import enum
from typing import Unpack

from coordinator.groups.classic.events import Client
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.notes import NoteFacts, append_note
from coordinator.groups.outcome import Outcome
from protocol.messages.groups import Origin


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
    ASSIGNED = "partitions assigned"
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
    HELD = "group held"
    HOLD_OVER = "hold over"
    COORDINATOR_MOVED = "coordinator moved"


def departure(member: Member, now_ms: int) -> NoteFacts:
    """Return the facts about a removed member: its client, and whether its application had stopped polling."""
    active_ms = max(member.parked_ms, member.committed_ms)
    return NoteFacts(
        origin=origin_of_client(member.client or Client(member.client_id, member.client_host)),
        idle_ms=now_ms - active_ms if active_ms >= 0 else -1,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )


def origin_of_client(client: Client) -> Origin:
    """Return the client in the form that notes keep."""
    return Origin(
        client.client_id,
        client.client_host,
        client.client_port,
        client.listener,
        client.principal,
        client.certificate,
    )


def note(
    group: ClassicGroup,
    out: Outcome,
    kind: str,
    cause: Cause,
    initiator: str,
    detail: str,
    **facts: Unpack[NoteFacts],
) -> None:
    """Append a note. `detail` is a sentence for people. Without an `origin` it is that of the initiator, if it is
    a member."""
    member = group.members.get(initiator)
    if member is not None and facts.get("origin") is None:
        # None: no request since a load
        facts["origin"] = origin_of_client(member.client or Client(member.client_id, member.client_host))
    append_note(group, out, kind, cause, initiator, detail, group.generation_id, len(group.members), **facts)
