"""Descriptions of members and phases of groups."""

from collections.abc import Mapping

from protocol.client_text import client_text
from protocol.messages.consumer_groups import LEAVING_FOR_NOW
from protocol.messages.groups import DescribedGroup, DescribedMember
from protocol.words import counted

_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
_NAMED = 3
"""Members named in one sentence."""
_PHASES: Mapping[str, str] = {
    "delay": "waits for more members",
    "hold": "a rebalance is held",
    "join": "join",
    "sync": "sync",
    "revoke": "revocation",
    "assign": "assignment",
}


def duration(ms: int) -> str:
    """`340 ms`, `12 s`, `5 min`, `3 h`, `2 d`."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 10_000:
        return f"{ms / 1_000:.1f} s"
    for unit_ms, unit, below in ((1_000, "s", 120), (_MINUTE_MS, "min", 120), (_HOUR_MS, "h", 48)):
        if ms < below * unit_ms:
            return f"{ms // unit_ms} {unit}"
    return f"{ms // _DAY_MS} d"


def have(number: int) -> str:
    """Return `has` for one, `have` for several."""
    return "has" if number == 1 else "have"


def client_of(member: DescribedMember) -> str:
    """`billing-7 at 10.0.0.7:51234`, with the instance id if there is one."""
    instance = f" (instance {member.group_instance_id})" if member.group_instance_id else ""
    return client_text(member.client_id, member.client_host, member.client_port) + instance


def member_epoch(member: DescribedMember) -> str:
    """Return the epoch of a member of a server-driven group: `away` for a static member that left for a while."""
    return "away" if member.member_epoch == LEAVING_FOR_NOW else str(member.member_epoch)


def condition(member: DescribedMember) -> str:
    """Describe the condition of a member: `connection closed 11 s ago, last heard 12 s ago, evicted in 33 s`."""
    parts = []
    if member.is_connected is False:
        parts.append(f"connection closed {duration(member.disconnected_ms)} ago")
    if member.revoking_ms >= 0:
        parts.append(f"has not revoked its partitions for {duration(member.revoking_ms)}")
    if member.waiting:
        parts.append(f"waits in {member.waiting} for {duration(member.waiting_ms)}")
    if member.heard_ago_ms >= 0:
        parts.append(f"last heard {duration(member.heard_ago_ms)} ago")
    elif member.session_timeout_ms >= 0:
        parts.append("not heard since the coordinator loaded the group")
    if member.session_left_ms >= 0 and not member.waiting:
        parts.append(f"evicted in {duration(member.session_left_ms)} if silent")
    return ", ".join(parts)


def phase(group: DescribedGroup) -> str | None:
    """Describe the phase that the group waits in, and the remaining time; None if it waits for nothing."""
    if not group.phase:
        return None
    limit = next((member for member in group.members if member.member_id == group.limited_by), None)
    whose = "" if limit is None else f" by the rebalance timeout of {client_of(limit)}"
    left = f", at most {duration(group.phase_left_ms)} more{whose}"
    return f"{_PHASES[group.phase]} for {duration(group.phase_ms)}{left}"


def hold(group: DescribedGroup) -> str | None:
    """Describe the end of the hold on the group; None if it is not held."""
    if group.hold_left_ms < 0:
        return None
    time_left = f"{duration(group.hold_left_ms)} more"
    if not group.hold_until_members:
        return time_left
    wanted, joined = group.hold_until_members, group.hold_joined
    return f"{time_left}, or until {counted(wanted, 'member')} {have(wanted)} come; {joined} {have(joined)}"


def standstill(group: DescribedGroup) -> list[tuple[str, str]]:
    """Describe everything that the group waits for, each with a title; empty if it waits for nothing."""
    said = {"Phase": phase(group), "Waiting for": waiting_for(group), "Held": hold(group)}
    return [(title, sentence) for title, sentence in said.items() if sentence]


def waiting_for(group: DescribedGroup) -> str | None:
    """Name the members that delay the phase, with their condition; None if there are none."""
    members = {member.member_id: member for member in group.members}
    named = [
        f"{client_of(members[one])} ({condition(members[one])})" if one in members else f"an id not used yet, {one}"
        for one in group.waiting_for[:_NAMED]
    ]
    more = len(group.waiting_for) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "") if named else None
