"""`muster groups describe` of several groups, and its views, with a line for each offset, member or group."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from diagnosis.assignments import ranges
from diagnosis.gathering import problems_of
from diagnosis.people import duration, phase, waiting_for
from diagnosis.problem import GroupProblem
from muster.admin.asking import Complaint, NotFound, describe_group
from muster.admin.nodes import list_groups
from muster.blocking.cluster import ClusterClient
from muster.cli.asking import ActRefused
from muster.cli.balanced import balanced_document, describe_balanced, show_balanced
from muster.cli.operating.doctor import gathered
from muster.cli.operating.group_page import (
    GroupStanding,
    member_document,
    member_epochs,
    page_document,
    show_page,
    standings,
)
from muster.cli.operating.member_facts import VERBOSE_COLUMNS, verbose_row
from muster.cli.showing import local_time, say_left_out, show_csv, show_json, show_table, utc_time
from muster.errors import Refused
from protocol.messages.balanced import BALANCED_TYPES, BalancedGroupView, BalancedMemberView, BalancedPartition
from protocol.messages.groups import DescribedGroup


class GroupView(StrEnum):
    """A table over all groups that are described."""

    OFFSETS = "offsets"
    MEMBERS = "members"
    STATE = "state"


class DescribeForm(NamedTuple):
    """Form of the output: with `view` None the pages of all groups, one after the other. `is_one`: a single group was
    named, so that the JSON is not a list."""

    view: GroupView | None
    is_one: bool
    is_verbose: bool
    as_json: bool
    as_csv: bool
    is_musterd: bool = True
    """False at a Kafka broker."""


class _ViewLine(NamedTuple):
    """A line of a view: for scripts, for people, and the columns that `--verbose` adds for people."""

    document: dict[str, Any]
    cells: tuple[object, ...]
    more: tuple[object, ...]


_COLUMNS: Final = {
    GroupView.OFFSETS: ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST", "CLIENT"),
    GroupView.MEMBERS: ("GROUP", "MEMBER", "INSTANCE", "HOST", "CLIENT", "PARTITIONS"),
    GroupView.STATE: ("GROUP", "COORDINATOR", "ASSIGNOR", "STATE", "MEMBERS"),
}
_MORE_COLUMNS: Final = {
    GroupView.OFFSETS: ("LEADER EPOCH", "COMMITTED AT", "END AGE"),
    GroupView.MEMBERS: ("ASSIGNED", "PROTOCOL", "EPOCH", "TARGET", "TO REVOKE", *VERBOSE_COLUMNS[1:]),
    GroupView.STATE: ("GENERATION", "TARGET EPOCH", "SINCE", "PHASE", "WAITING FOR"),
}
_NO_FACTS: Final = (None,) * (len(VERBOSE_COLUMNS) - 1)


def show_groups(cluster: ClusterClient, group_ids: Sequence[str] | None, form: DescribeForm) -> None:
    """Show groups, None for all. Errors of groups that cannot be described are raised at the end: Complaint, or
    Refused."""
    failures: list[Complaint | Refused] = []
    wanted = (
        [one.group_id for one in list_groups(cluster, say_left_out)]
        if group_ids is None
        else list(dict.fromkeys(group_ids))
    )
    groups: list[DescribedGroup] = []
    for group_id in wanted:
        try:
            groups.append(describe_group(cluster, group_id))
        except (Complaint, Refused) as failure:
            if group_ids is not None or not isinstance(failure, NotFound):  # one of all groups may be deleted meanwhile
                failures.append(failure)
    if groups or not failures:
        (_show_pages if form.view is None else _show_view)(cluster, groups, form)
    if failures:
        raise _together(failures)


def _together(failures: list[Complaint | Refused]) -> Exception:
    if len(failures) == 1:
        return failures[0]
    kind = Complaint
    if any(isinstance(one, Refused | ActRefused) for one in failures):
        kind = ActRefused
    elif all(isinstance(one, NotFound) for one in failures):
        kind = NotFound
    return kind("; ".join(map(str, failures)))


def _asked(cluster: ClusterClient, groups: Iterable[DescribedGroup]) -> list[GroupStanding | BalancedGroupView]:
    """Return the facts about each group, in their order."""
    ones = list(groups)
    rest = iter(standings(cluster, [one for one in ones if one.protocol_type not in BALANCED_TYPES]))
    return [
        describe_balanced(cluster, one.group_id) if one.protocol_type in BALANCED_TYPES else next(rest) for one in ones
    ]


def _show_pages(cluster: ClusterClient, groups: Sequence[DescribedGroup], form: DescribeForm) -> None:
    found = _asked(cluster, groups)
    problems = _problems(cluster, groups, is_musterd=form.is_musterd)
    if form.as_json:
        pages = [
            balanced_document(one)
            if isinstance(one, BalancedGroupView)
            else page_document(one, problems.get(one.group.group_id, ()))
            for one in found
        ]
        show_json(pages[0] if form.is_one else pages)
        return
    if not found:
        print("There are no groups.")
    for number, one in enumerate(found):
        if number:
            print("\n")
        if isinstance(one, BalancedGroupView):
            show_balanced(one)
        else:
            show_page(one, problems.get(one.group.group_id, ()), is_verbose=form.is_verbose)


def _problems(
    cluster: ClusterClient, groups: Sequence[DescribedGroup], *, is_musterd: bool
) -> dict[str, list[GroupProblem]]:
    """Return the problems of each group; none if the caller may not see the evidence."""
    wanted = [one.group_id for one in groups if one.protocol_type not in BALANCED_TYPES]
    if not wanted:
        return {}
    try:
        _known_facts, evidence = gathered(cluster, wanted, tuple(wanted), is_musterd=is_musterd)
    except (Complaint, Refused):
        return {}
    return {one.group.group_id: problems_of((one,)) for one in evidence}


def _show_view(cluster: ClusterClient, groups: Sequence[DescribedGroup], form: DescribeForm) -> None:
    assert form.view is not None
    if form.view is GroupView.STATE:
        lines = [_state_line(cluster, group) for group in groups]
    else:
        lines = [line for one in _asked(cluster, groups) for line in _lines(one, form.view)]
    if form.as_json:
        show_json([line.document for line in lines])
        return
    columns = _COLUMNS[form.view] + (_MORE_COLUMNS[form.view] if form.is_verbose else ())
    rows = [line.cells + (line.more if form.is_verbose else ()) for line in lines]
    (show_csv if form.as_csv else show_table)(columns, rows)


def _lines(one: GroupStanding | BalancedGroupView, view: GroupView) -> list[_ViewLine]:
    if isinstance(one, BalancedGroupView):
        is_of_members = view is GroupView.MEMBERS
        return _balanced_members(one) if is_of_members else _balanced_offsets(one)
    return _member_lines(one) if view is GroupView.MEMBERS else _offset_lines(one)


def _state_line(cluster: ClusterClient, group: DescribedGroup) -> _ViewLine:
    node = cluster.coordinator(group.group_id)
    target = group.target_epoch if group.target_epoch >= 0 else None
    document = {
        "group_id": group.group_id,
        "coordinator": {"node_id": node.node_id, "host": node.host, "port": node.port},
        "assignor": group.protocol_data or None,
        "state": group.group_state,
        "members": len(group.members),
        "generation_id": group.generation_id,
        "target_epoch": target,
        "since": utc_time(group.state_since_ms) if group.state_since_ms >= 0 else None,
        "phase": group.phase or None,
        "waiting_for": list(group.waiting_for),
    }
    cells = (group.group_id, f"{node} ({node.node_id})", group.protocol_data, group.group_state, len(group.members))
    since = local_time(group.state_since_ms) if group.state_since_ms >= 0 else None
    return _ViewLine(document, cells, (group.generation_id, target, since, phase(group), waiting_for(group)))


def _member_lines(standing: GroupStanding) -> list[_ViewLine]:
    group = standing.group
    lines = []
    for one in group.members:
        owned = standing.owned[one.member_id]
        epochs = member_epochs(group, one)[2:5] if group.target_epoch >= 0 else (None, None, None)
        lines.append(
            _ViewLine(
                {"group_id": group.group_id, **member_document(standing, one)},
                (
                    group.group_id,
                    one.member_id,
                    one.group_instance_id,
                    one.client_host.lstrip("/"),
                    one.client_id,
                    len(owned),
                ),
                (ranges(owned), one.group_protocol, *epochs, *verbose_row(one)[1:]),
            )
        )
    return lines


def _offset_lines(standing: GroupStanding) -> list[_ViewLine]:
    members = {one.member_id: one for one in standing.group.members}
    commits = {(one.topic, one.partition): commit for one, commit in standing.commits.items()}
    lines = []
    for line in standing.lines:
        member = members.get(line["member_id"])
        commit = commits.get((line["topic"], line["partition"]))
        committed_ms = _known(-1 if commit is None else commit.commit_timestamp_ms)
        epoch = _known(-1 if commit is None else commit.committed_leader_epoch)
        host = None if member is None else member.client_host.lstrip("/")
        client_id = None if member is None else member.client_id
        document = {
            "group_id": standing.group.group_id,
            **line,
            "client_host": host,
            "client_id": client_id,
            "leader_epoch": epoch,
            "committed_at": _said(utc_time, committed_ms),
        }
        names = ("group_id", "topic", "partition", "committed_offset", "end_offset", "lag", "member_id")
        cells = (*(document[name] for name in names), host, client_id)
        age = None if line["end_age_ms"] is None else duration(line["end_age_ms"])
        lines.append(_ViewLine(document, cells, (epoch, _said(local_time, committed_ms), age)))
    return lines


def _balanced_members(view: BalancedGroupView) -> list[_ViewLine]:
    lines = []
    for one in view.members:
        keys = sorted(map(_key, one.keys))
        document = {
            "group_id": view.group_id,
            "member_id": one.consumer_id,
            "group_instance_id": one.instance_id,
            "client_id": None,
            "client_host": one.host.lstrip("/"),
            "partitions": [{"topic": topic, "partition": partition} for topic, partition in keys],
            "node_id": one.node_id,
            "member_epoch": one.member_epoch,
            "heard_ago_ms": one.last_heartbeat_ms_ago,
            "session_timeout_ms": one.session_timeout_ms,
        }
        cells = (view.group_id, one.consumer_id, one.instance_id, one.host.lstrip("/"), None, len(keys))
        lines.append(
            _ViewLine(document, cells, (ranges(keys), None, one.member_epoch, None, None, *_balanced_facts(one)))
        )
    return lines


def _balanced_facts(member: BalancedMemberView) -> tuple[object, ...]:
    """Return the verbose columns, of which only the address and the last heartbeat are known."""
    known = (member.host.lstrip("/"), f"{duration(member.last_heartbeat_ms_ago)} ago")
    return known + _NO_FACTS[len(known) :]


def _balanced_offsets(view: BalancedGroupView) -> list[_ViewLine]:
    hosts = {one.consumer_id: one.host.lstrip("/") for one in view.members}
    return [_balanced_offset(view.group_id, one, hosts.get(one.owner or "")) for one in view.partitions]


def _balanced_offset(group_id: str, one: BalancedPartition, host: str | None) -> _ViewLine:
    topic, partition = _key(one.key)
    committed, end = _known(one.committed), _known(one.end)
    document = {
        "group_id": group_id,
        "topic": topic,
        "partition": partition,
        "committed_offset": committed,
        "end_offset": end,
        "lag": one.lag,
        "member_id": one.owner,
        "end_age_ms": None,
        "client_host": host,
        "client_id": None,
        "leader_epoch": None,
        "committed_at": None,
    }
    return _ViewLine(
        document, (group_id, topic, partition, committed, end, one.lag, one.owner, host, None), (None, None, None)
    )


def _key(key: str) -> tuple[str, int]:
    """Return topic and partition of a key as client-balanced members write it: `1:orders:0`."""
    _broker, _colon, rest = key.partition(":")
    topic, _colon, partition = rest.rpartition(":")
    return topic, int(partition)


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _said(show: Any, wall_ms: int | None) -> str | None:
    return None if wall_ms is None else str(show(wall_ms))
