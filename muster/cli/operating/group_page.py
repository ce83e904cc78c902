"""The page of `muster groups describe GROUP`: state, members, offsets and lag of each partition."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from diagnosis import assignments
from diagnosis.assignments import ranges
from diagnosis.commands import command
from diagnosis.people import standstill
from diagnosis.phases import HELD_UP
from diagnosis.problem import GroupProblem
from membership.topic_partition import TopicPartition
from muster.admin.asking import fetch_commits, partitions_of
from muster.admin.ends import KnownEnd, ends_of
from muster.blocking.cluster import EARLIEST, LATEST, ClusterClient
from muster.cli.ends import left_out, oldest
from muster.cli.operating.doctor import culprit_of, problem_document
from muster.cli.operating.member_facts import (
    EPOCH_COLUMNS,
    REPORTED_COLUMNS,
    VERBOSE_COLUMNS,
    epoch_row,
    facts_document,
    reported_row,
    verbose_row,
)
from muster.cli.showing import local_time, show_facts, show_table, utc_time
from protocol.messages.groups import DescribedGroup, DescribedMember
from protocol.messages.offsets import OffsetFetchPartitionReply

_PROBLEMS_SHOWN: Final = 3
"""Number of problems in the first lines; `muster doctor` shows all."""


class GroupStanding(NamedTuple):
    """A group with each member's partitions, by member id; its commits; and a line for each partition."""

    group: DescribedGroup
    owned: dict[str, list[TopicPartition]]
    commits: Mapping[TopicPartition, OffsetFetchPartitionReply]
    lines: list[dict[str, Any]]


def standings(cluster: ClusterClient, groups: Sequence[DescribedGroup]) -> list[GroupStanding]:
    """Request the progress of groups; topics and ends are requested once for all of them. Raises Complaint, or
    Refused."""
    commits = [fetch_commits(cluster, group.group_id) for group in groups]
    owned = [
        {member.member_id: _assigned(group, member.member_assignment) for member in group.members} for group in groups
    ]
    owners = [
        {TopicPartition(*key): member.member_id for key, member in assignments.owners_of(group).items()}
        for group in groups
    ]
    topics = [
        {one.topic for one in known} | {one.topic for one in had} for known, had in zip(commits, owners, strict=True)
    ]
    existing = partitions_of(cluster, set().union(*topics))
    wanted = [frozenset(one for one in existing if one.topic in names) for names in topics]
    ends = ends_of(cluster, existing, LATEST)
    unread = [ones - known.keys() for ones, known in zip(wanted, commits, strict=True)]
    first = ends_of(cluster, frozenset[TopicPartition]().union(*unread), EARLIEST)
    return [
        GroupStanding(group, owned[n], commits[n], _progress(commits[n], owners[n], wanted[n], ends, first))
        for n, group in enumerate(groups)
    ]


def _assigned(group: DescribedGroup, assignment: bytes) -> list[TopicPartition]:
    return [TopicPartition(*one) for one in assignments.partitions_of(group, assignment)]


def _progress(
    commits: Mapping[TopicPartition, OffsetFetchPartitionReply],
    owners: Mapping[TopicPartition, str],
    existing: frozenset[TopicPartition],
    ends: Mapping[TopicPartition, KnownEnd],
    first: Mapping[TopicPartition, KnownEnd],
) -> list[dict[str, Any]]:
    """Return a line for each partition. Without a commit all records of a partition count as lag."""
    lines = []
    for one in sorted(commits.keys() | owners.keys() | existing):
        committed = commits[one].committed_offset if one in commits else None
        begin = first[one].offset if committed is None and one in first else committed
        end = ends.get(one)
        lines.append(
            {
                "topic": one.topic,
                "partition": one.partition,
                "committed_offset": committed,
                "end_offset": None if end is None else end.offset,
                "lag": None if end is None or begin is None else max(0, end.offset - begin),
                "member_id": owners.get(one),
                "end_age_ms": None if end is None else end.age_ms,
            }
        )
    return lines


def page_document(standing: GroupStanding, problems: Sequence[GroupProblem]) -> dict[str, Any]:
    """Return the page as JSON, for scripts."""
    group, lines = standing.group, standing.lines
    return {
        "group_id": group.group_id,
        "state": group.group_state,
        "state_since": utc_time(group.state_since_ms) if group.state_since_ms >= 0 else None,
        "generation_id": group.generation_id,
        **({"target_epoch": group.target_epoch} if group.target_epoch >= 0 else {}),
        "protocol_type": group.protocol_type,
        "protocol": group.protocol_data,
        "leader": group.leader,
        "rebalance_timeout_ms": group.rebalance_timeout_ms,
        "pending_members": group.pending_members,
        "shard": group.shard if group.shard >= 0 else None,
        "log": group.log or None,
        "phase": group.phase or None,
        "phase_ms": group.phase_ms if group.phase else None,
        "phase_left_ms": group.phase_left_ms if group.phase else None,
        "waiting_for": list(group.waiting_for),
        "limited_by": group.limited_by or None,
        "hold_left_ms": group.hold_left_ms if group.hold_left_ms >= 0 else None,
        "hold_until_members": group.hold_until_members,
        "hold_joined": group.hold_joined,
        "problems": [problem_document(one) for one in problems],
        "members": [member_document(standing, member) for member in group.members],
        "partitions": lines,
        "total_lag": sum(line["lag"] or 0 for line in lines),
    }


def member_document(standing: GroupStanding, member: DescribedMember) -> dict[str, Any]:
    """Return a member as JSON, for scripts."""
    owned = standing.owned[member.member_id]
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host.lstrip("/"),
        "partitions": [{"topic": one.topic, "partition": one.partition} for one in owned],
        **facts_document(member),
        **(_epochs(standing.group, member) if standing.group.target_epoch >= 0 else {}),
    }


def _epochs(group: DescribedGroup, member: DescribedMember) -> dict[str, Any]:
    """Return the facts of a server-driven member."""
    both = {"target": member.target_assignment, "to_revoke": member.pending_revocation}
    return {
        "member_epoch": member.member_epoch,
        "revoking_ms": member.revoking_ms if member.revoking_ms >= 0 else None,
        **{
            name: [{"topic": one.topic, "partition": one.partition} for one in _assigned(group, encoded)]
            for name, encoded in both.items()
        },
    }


def member_epochs(group: DescribedGroup, member: DescribedMember) -> tuple[object, ...]:
    """Return a line of the table of epochs."""
    target, pending = _assigned(group, member.target_assignment), _assigned(group, member.pending_revocation)
    return epoch_row(member, ranges(target), ranges(pending))


def show_page(standing: GroupStanding, problems: Sequence[GroupProblem], *, is_verbose: bool) -> None:
    """Print the page for people."""
    group, owned, _commits, lines = standing
    since = f" since {local_time(group.state_since_ms)}" if group.state_since_ms >= 0 else ""
    protocol = " / ".join(part for part in (group.protocol_type, group.protocol_data) if part)
    is_server_driven = group.target_epoch >= 0
    generation = [("Generation", group.generation_id)]
    facts: list[tuple[str, object]] = [
        ("Group", group.group_id),
        ("State", group.group_state + since),
        *standstill(group),
        *_wrong(group, problems),
        *([("Epoch", group.generation_id), ("Target", _target(group))] if is_server_driven else generation),
        ("Protocol", protocol),
        ("Leader", group.leader),
        ("Total lag", _total(lines) if lines else None),  # no member has an assignment yet
    ]
    if (age := oldest(lines)) is not None:
        facts.append(("Ends", age))
    if group.shard >= 0:
        facts.append(("Shard", f"{group.shard} (log {group.log})" if group.log else group.shard))
    if group.pending_members:
        facts.append(("Pending ids", group.pending_members))
    show_facts(facts)
    if group.members:
        print()
        rows = [
            (m.member_id, m.group_instance_id, m.client_id, m.client_host.lstrip("/"), ranges(owned[m.member_id]))
            for m in group.members
        ]
        show_table(("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"), rows)
        if is_verbose:
            print()
            show_table(VERBOSE_COLUMNS, map(verbose_row, group.members))
        reporting = [member for member in group.members if member.reported]
        if is_verbose and reporting:
            print()
            show_table(REPORTED_COLUMNS, map(reported_row, reporting))
        if is_verbose and is_server_driven:
            print()
            show_table(EPOCH_COLUMNS, [member_epochs(group, member) for member in group.members])
    if lines:
        print()
        show_table(
            ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"), (tuple(line.values())[:-1] for line in lines)
        )


def _wrong(group: DescribedGroup, problems: Sequence[GroupProblem]) -> list[tuple[str, str]]:
    """Return a line for each problem, with its culprit; a problem that delays the phase is in the phase's lines."""
    told = [one for one in problems if not (group.phase and one.kind in HELD_UP)]
    lines = [("Problem", _problem_line(one)) for one in told[:_PROBLEMS_SHOWN]]
    more = len(told) - len(lines)
    return [*lines, ("", f"and {more} more: {command('doctor', group.group_id)}")] if more else lines


def _problem_line(problem: GroupProblem) -> str:
    """Return the sentence, with the culprit if it does not name it."""
    who = culprit_of(problem)
    is_named = not who or who in problem.sentence
    return (
        f"{problem.kind.value}: {problem.sentence}" if is_named else f"{problem.kind.value}, {who}: {problem.sentence}"
    )


def _target(group: DescribedGroup) -> str:
    is_behind = group.target_epoch < group.generation_id
    return f"epoch {group.target_epoch}" + (", the next one is not computed yet" if is_behind else "")


def _total(lines: list[dict[str, Any]]) -> str:
    known = [line["lag"] for line in lines if line["lag"] is not None]
    return f"{sum(known) if known else '-'}{left_out(lines)}"
