"""Rows of the group's page, from the node's replies. Pure."""

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Any, Final

import msgspec

from coordinator.http.lag.partitions import PartitionLag, longest_ms
from diagnosis import people
from diagnosis.assignments import assigned_partitions, partitions_of, ranges
from diagnosis.phases import is_gone, is_stopped
from membership.outlook import Outlook
from protocol.client_text import client_text
from protocol.messages.groups import DescribedGroup, DescribedMember, ListedNote, Origin

BAD, BUSY, GOOD = "bad", "busy", "good"
_HAS_NOT: Final[Mapping[str, str]] = {
    "join": "has not joined again",
    "sync": "has not synced",
    "revoke": "has not revoked its partitions",
    "assign": "has not followed yet",
}
_MOST_ACTS: Final = 8
_MOST_MOVED: Final = 50
_MOST_ASSIGNMENTS: Final = 200
"""Members whose assignments are shown; `/v1/groups/{group}` has all."""
_MOST_PARTITIONS: Final = 500
"""Partitions of an assignment that are looked at."""
_LONGEST_RANGES: Final = 200
"""Characters of the partitions in a cell."""


class MemberRow(msgspec.Struct, frozen=True):
    """A member. `tone` is bad for one that holds the group up, is gone or stopped; `waits`: what it waits for, or is
    waited for."""

    member_id: str
    name: str
    address: str
    instance_id: str | None
    tone: str
    waits: str
    condition: str
    partitions: int
    lag: int | None
    software: str
    is_leader: bool
    said: str = ""
    """Facts reported by its application."""


class AssignmentRow(msgspec.Struct, frozen=True):
    """Epoch and assignments of a member of a server-driven group; partitions as `orders 0-3 7`. `revoking_for`: empty
    for a member that has nothing to revoke."""

    member_id: str
    name: str
    instance_id: str | None
    group_protocol: str
    epoch: str
    has: str
    target: str
    is_at_target: bool
    to_revoke: str
    revoking_for: str


class ActRow(msgspec.Struct, frozen=True):
    """An administrative change of the group; it can be undone if it changed offsets."""

    id: str
    wall_ms: int
    act: str
    detail: str
    who: str
    can_undo: bool


class TopicRow(msgspec.Struct):
    """A topic that the group reads. `lags_ms`: lag in time of each partition."""

    topic: str
    partitions: int = 0
    lag: int = 0
    is_known: bool = True
    largest: PartitionLag | None = None
    lags_ms: list[int | None] = []

    @property
    def behind_ms(self) -> int | None:
        """Largest lag in time of its partitions."""
        return longest_ms(self.lags_ms)


def member_rows(group: DescribedGroup, lines: Iterable[PartitionLag]) -> list[MemberRow]:
    """Return the members, those that delay the group first."""
    lags: dict[str, list[int | None]] = {}
    for line in lines:
        if line.member is not None:
            lags.setdefault(line.member.member_id, []).append(line.lag)
    rows = [_member_row(group, member, lags.get(member.member_id, [])) for member in group.members]
    order = {BAD: 0, BUSY: 1, GOOD: 2}
    return sorted(rows, key=lambda row: (order[row.tone], row.name, row.member_id))


def _member_row(group: DescribedGroup, member: DescribedMember, lags: list[int | None]) -> MemberRow:
    is_culprit = member.member_id in group.waiting_for
    known = [lag for lag in lags if lag is not None]
    if is_culprit:
        waits = _HAS_NOT.get(group.phase, "is waited for")
    elif member.waiting:
        waits = f"waits in {member.waiting} for {people.duration(member.waiting_ms)}"
    else:
        waits = ""
    is_late = is_culprit and group.phase != "assign"  # which ends with the next heartbeats
    is_bad = is_gone(member) or is_stopped(member) or is_late
    tone = BAD if is_bad else BUSY if member.waiting or is_culprit else GOOD
    return MemberRow(
        member.member_id,
        member.client_id or "(unnamed)",
        client_text("", member.client_host, member.client_port).removeprefix("(unnamed)").removeprefix(" at "),
        member.group_instance_id,
        tone,
        waits,
        people.condition(member),
        len(assigned_partitions(group, member)),
        sum(known) if known or not lags else None,
        " ".join(filter(None, (member.client_software_name, member.client_software_version))),
        member.member_id == group.leader,
        ", ".join(f"{one.name} {one.text}" for one in member.reported),
    )


def assignment_rows(group: DescribedGroup) -> list[AssignmentRow]:
    """Return the members' assignments, the longest revocation first, then those behind their target; none of a group
    that is not server-driven."""
    if group.target_epoch < 0:
        return []

    def order(one: DescribedMember) -> tuple[int, bool, str, str]:
        return -one.revoking_ms, one.member_assignment == one.target_assignment, one.client_id, one.member_id

    return [_assignment_row(group, member) for member in nsmallest(_MOST_ASSIGNMENTS, group.members, key=order)]


def _assignment_row(group: DescribedGroup, member: DescribedMember) -> AssignmentRow:
    def partitions(assignment: bytes) -> str:
        return _shortened(ranges(partitions_of(group, assignment), _MOST_PARTITIONS))

    has, is_at_target = partitions(member.member_assignment), member.member_assignment == member.target_assignment
    return AssignmentRow(
        member.member_id,
        member.client_id or "(unnamed)",
        member.group_instance_id,
        member.group_protocol,
        people.member_epoch(member),
        has,
        has if is_at_target else partitions(member.target_assignment),
        is_at_target,
        partitions(member.pending_revocation),
        people.duration(member.revoking_ms) if member.revoking_ms >= 0 else "",
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_RANGES else text[: _LONGEST_RANGES - 1] + "…"


def act_rows(group_id: str, notes: Iterable[ListedNote]) -> list[ActRow]:
    """Return the newest changes by clients, newest first."""
    acts = [note for note in notes if note.act]
    return [
        ActRow(
            f"{group_id}:{note.number}",
            note.wall_ms,
            note.act,
            note.detail,
            "" if note.origin is None else _who(note.origin),
            bool(note.changes),
        )
        for note in acts[: -_MOST_ACTS - 1 : -1]
    ]


def _who(origin: Origin) -> str:
    principal = f"{origin.principal}, " if origin.principal else ""
    return principal + client_text(origin.client_id, origin.client_host, origin.client_port)


def topic_rows(lines: Iterable[PartitionLag]) -> list[TopicRow]:
    """Return the topics of a group, by lag."""
    found: dict[str, TopicRow] = {}
    for line in lines:
        row = found.setdefault(line.topic, TopicRow(line.topic))
        row.partitions += 1
        row.lags_ms.append(line.lag_ms)
        if line.lag is None:
            row.is_known = False
            continue
        row.lag += line.lag
        if row.largest is None or line.lag > (row.largest.lag or 0):
            row.largest = line
    return sorted(found.values(), key=lambda row: (-row.lag, row.topic))


def outlook_context(group: DescribedGroup, outlook: Outlook) -> dict[str, Any]:
    """Return each member's number of partitions before and after the change, and the first partitions that would
    move."""
    names = {one.member_id: people.client_of(one) for one in group.members}
    moved = outlook.moved
    return {
        "assignor": outlook.assignor,
        "shares": [
            (names.get(one, one), len(outlook.before.get(one, ())), len(outlook.after.get(one, ())))
            for one in outlook.before | outlook.after
        ],
        "partitions": len({one for share in outlook.after.values() for one in share}),
        "moved": [
            (f"{place.topic}-{place.partition}", names.get(owner, owner), names.get(next_owner, next_owner))
            for place, owner, next_owner in moved[:_MOST_MOVED]
        ],
        "moves": len(moved),
    }
