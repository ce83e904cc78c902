"""Rules about joins, syncs and revocations that do not end, and members that are silent."""

from collections.abc import Iterator
from typing import Final

from diagnosis import people
from diagnosis.assignments import assigned_partitions, partitions_of
from diagnosis.commands import command
from diagnosis.problem import Evidence, GroupProblem, Kind, blame, cost
from protocol.messages.groups import DescribedMember

PHASE_MS: Final = 10_000
"""Length from which a phase counts as delayed; a rolling restart has no such phase. If members have short rebalance
timeouts, a quarter of these counts."""
GONE_MS: Final = 1_000
"""Time after which a closed connection of a member that did not leave shows that the member was killed or cut off."""
_PHASES: Final = {"join": Kind.JOIN_HELD_UP, "sync": Kind.SYNC_HELD_UP, "revoke": Kind.REVOCATION_HELD_UP}
_STOPPED: Final = "; its connection is open, so its process is stopped or paused, or its network is cut"
HELD_UP: Final = frozenset(_PHASES.values())
_REBALANCING: Final = {"PreparingRebalance": Kind.JOIN_HELD_UP, "CompletingRebalance": Kind.SYNC_HELD_UP}


def held_up(evidence: Evidence) -> Iterator[GroupProblem]:
    """A join, sync or revocation that lasts too long, or waits for a member whose connection is closed."""
    group = evidence.group
    if not group.phase:
        yield from _seen_rebalancing(evidence)
        return
    members = {member.member_id: member for member in group.members}
    culprits = [members[one] for one in group.waiting_for if one in members]
    is_over = group.phase_ms >= _limit_ms(evidence)
    gone = [member for member in culprits if is_gone(member)]
    if group.phase not in _PHASES or not (is_over or gone):
        return
    first = next(iter(gone or culprits), None)
    sentence = f"{people.phase(group)}: waits for {people.waiting_for(group) or 'ids that were never used'}"
    since_ms = evidence.began_ms(group.phase_ms)
    problem = GroupProblem(
        _PHASES[group.phase], group.group_id, sentence, since_ms=since_ms, command=_command(evidence, first)
    )
    keys = None  # no partition is read while members join and sync
    if group.phase == "revoke":
        keys = frozenset(key for one in culprits for key in partitions_of(group, one.pending_revocation))
    yield cost(blame(problem, first), evidence.progress, keys)


def _limit_ms(evidence: Evidence) -> int:
    timeout_ms = evidence.group.rebalance_timeout_ms
    return min(PHASE_MS, timeout_ms // 4) if timeout_ms > 0 else PHASE_MS


def _seen_rebalancing(evidence: Evidence) -> Iterator[GroupProblem]:
    """A group that was rebalancing in two observations, for servers that do not report phases."""
    group = evidence.group
    kind = _REBALANCING.get(group.group_state)
    if kind is None or evidence.held_up_ms < PHASE_MS:
        return
    sentence = (
        f"{group.group_state} for {people.duration(evidence.held_up_ms)} at least; "
        "this server does not report which of its members has not answered"
    )
    since_ms = evidence.now_ms - evidence.held_up_ms
    yield cost(GroupProblem(kind, group.group_id, sentence, since_ms=since_ms), evidence.progress)


def silent(evidence: Evidence) -> Iterator[GroupProblem]:
    """Members that were killed or cut off within their session, or are stopped."""
    group = evidence.group
    for member in group.members:
        if is_gone(member):
            since_ms = member.disconnected_ms
        elif is_stopped(member):
            since_ms = member.heard_ago_ms
        else:
            continue
        own = frozenset(assigned_partitions(group, member))
        problem = GroupProblem(
            Kind.SILENT_MEMBER,
            group.group_id,
            f"{people.client_of(member)} is silent: {people.condition(member)}"
            + (_STOPPED if member.is_connected else ""),
            since_ms=evidence.began_ms(since_ms),
            command=_eviction(evidence, member),
        )
        yield cost(blame(problem, member), evidence.progress, own)


def is_gone(member: DescribedMember) -> bool:
    """Return true if the member's connection is closed and it did not leave. A static member may restart without
    leaving, within half its session timeout."""
    patience_ms = max(GONE_MS, member.session_timeout_ms // 2) if member.group_instance_id else GONE_MS
    return member.is_connected is False and member.disconnected_ms >= patience_ms


def is_stopped(member: DescribedMember) -> bool:
    """Return true if the member is connected and was not heard for half its session timeout."""
    is_late = 0 < member.session_timeout_ms < 2 * member.heard_ago_ms
    return member.is_connected is True and not member.waiting and is_late


def _command(evidence: Evidence, member: DescribedMember | None) -> str:
    if member is not None and member.is_connected is False:
        return _eviction(evidence, member)
    return command("groups describe", evidence.group.group_id, "--verbose")


def _eviction(evidence: Evidence, member: DescribedMember) -> str:
    return command("groups evict", evidence.group.group_id, "--member", member.member_id)
