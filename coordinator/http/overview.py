"""The state of the whole node in one page: `/v1/overview`. Groups are sorted by their problems."""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from coordinator.http.client_balanced import CONTAINS, STATE
from coordinator.http.lag.totals import GroupTotal, group_totals
from coordinator.http.queries import GROUPS_A_REQUEST, Queries
from coordinator.http.routing import schemas
from coordinator.http.routing.route import PAGE_TOKEN, HttpRoute, Names, Parameter, whole
from coordinator.http.routing.schemas import COUNTS, TEXT, TEXT_OR_NULL, WHOLE, WHOLE_OR_NULL, record, several
from coordinator.http.shapes import Json
from coordinator.http.watch import OpenProblems, Rest
from diagnosis import people
from diagnosis.facts import known_facts
from diagnosis.problem import GroupProblem, Kind
from protocol.messages.groups import DescribedGroup, ListedGroup
from protocol.messages.node import DescribeNodeReply

ORDER: Final = tuple(Kind)
"""Kinds of problems, the most urgent first."""
WITHOUT: Final = "none"
SORTS: Final = ("problem", "group", "-group", "state", "-state", "lag", "-lag", "members", "-members")
_DEFAULT_SIZE: Final = 100
_group_id, _group_state = attrgetter("group_id"), attrgetter("group_state")


class GroupRow(msgspec.Struct, frozen=True):
    """A group in the list. `lag` is None if no end of its partitions is known."""

    group_id: str
    state: str
    type: str
    problems: tuple[GroupProblem, ...]
    members: int = 0
    partitions: int = 0
    lag: int | None = None
    end_age_ms: int | None = None
    state_since_ms: int = -1
    phase: str | None = None
    waiting_for: str | None = None


class GroupFilter(NamedTuple):
    """Filter, order and page of the list: `size` groups from number `start` on."""

    contains: str = ""
    state: str | None = None
    problem: str | None = None
    """Kind of problem; `any`; `none`."""
    sort: str = "problem"
    start: int = 0
    size: int = _DEFAULT_SIZE


class Overview(NamedTuple):
    """The node, numbers of all groups, and the page's rows of the `matching` groups."""

    node: DescribeNodeReply
    states: dict[str, int]
    kinds: dict[str, int]
    problems: list[GroupProblem]
    groups: int
    matching: int
    rows: list[GroupRow]


async def look_over(queries: Queries, open_problems: OpenProblems, wanted: GroupFilter, rest: Rest) -> Overview:
    """Gather the overview. Members and lag are counted only for the rows of the page, unless the list is sorted by
    them. `rest` lets the loop serve other requests."""
    node = await queries.node()
    listed = await queries.groups()
    problems = await open_problems.listed_for(queries, set(map(_group_id, listed)), node.wall_ms)
    by_group: dict[str, list[GroupProblem]] = {}
    for problem in sorted(problems, key=lambda one: ORDER.index(one.kind)):
        by_group.setdefault(problem.group_id, []).append(problem)
    kinds = Counter(problem.kind.value for problem in problems)
    absent = by_group.keys() - map(_group_id, listed)
    every = [*listed, *(ListedGroup(group_id, "", "Dead") for group_id in absent)]
    matching = _matching(every, by_group, wanted)
    page = await _page(queries, matching, by_group, wanted, rest)
    states = Counter(map(_group_state, listed))
    return Overview(node, dict(states), dict(kinds), problems, len(listed), len(matching), page)


def _matching(
    groups: list[ListedGroup], by_group: Mapping[str, list[GroupProblem]], wanted: GroupFilter
) -> list[ListedGroup]:
    """Return the groups that pass the filter, by id."""
    if wanted.contains:
        groups = [one for one in groups if wanted.contains in one.group_id]
    if wanted.state is not None:
        groups = [one for one in groups if one.group_state == wanted.state]
    if wanted.problem == WITHOUT:
        groups = [one for one in groups if one.group_id not in by_group]
    elif wanted.problem is not None:
        kinds = {one: {problem.kind.value for problem in problems} for one, problems in by_group.items()}
        having = {one for one, its in kinds.items() if wanted.problem in {"any", *its}}
        groups = [one for one in groups if one.group_id in having]
    return sorted(groups, key=_group_id)


async def _page(
    queries: Queries,
    groups: list[ListedGroup],
    by_group: Mapping[str, list[GroupProblem]],
    wanted: GroupFilter,
    rest: Rest,
) -> list[GroupRow]:
    field, is_down = wanted.sort.removeprefix("-"), wanted.sort.startswith("-")
    page = slice(wanted.start, wanted.start + wanted.size)
    totals: Mapping[str, GroupTotal] | None = None
    if field in ("lag", "members"):
        totals = await group_totals(queries, list(map(_group_id, groups)), rest)
        counts = {
            group_id: total.members if field == "members" else total.lag or 0 for group_id, total in totals.items()
        }
        groups.sort(key=lambda one: counts.get(one.group_id, 0), reverse=is_down)
    elif field == "problem":
        urgent = [one for one in groups if one.group_id in by_group]
        urgent.sort(key=lambda one: _urgency(by_group[one.group_id]))
        groups = [*urgent, *(one for one in groups if one.group_id not in by_group)]
    else:
        groups.sort(key=_group_state if field == "state" else _group_id, reverse=is_down)
    rows = [
        GroupRow(one.group_id, one.group_state, one.group_type, tuple(by_group.get(one.group_id, ())))
        for one in groups[page]
    ]
    if totals is None:
        totals = await group_totals(queries, [row.group_id for row in rows], rest)
    found: list[GroupRow] = []
    for start in range(0, len(rows), GROUPS_A_REQUEST):
        found += await _described(queries, rows[start : start + GROUPS_A_REQUEST], totals)
    return found


def _urgency(problems: Sequence[GroupProblem]) -> tuple[int, int]:
    return ORDER.index(problems[0].kind), -sum(one.records for one in problems)


async def _described(queries: Queries, rows: list[GroupRow], totals: Mapping[str, GroupTotal]) -> list[GroupRow]:
    """Return the rows with the states of their groups. Groups deleted meanwhile are shown as they were listed."""
    described = {one.group_id: one for one in await queries.describe([row.group_id for row in rows])}
    return [
        row if group is None else _row(row, group, totals.get(row.group_id, GroupTotal()))
        for row in rows
        for group in (described.get(row.group_id),)
    ]


def _row(row: GroupRow, group: DescribedGroup, total: GroupTotal) -> GroupRow:
    return msgspec.structs.replace(
        row,
        state=group.group_state,
        members=len(group.members),
        partitions=total.partitions,
        lag=total.lag,
        end_age_ms=total.end_age_ms,
        state_since_ms=group.state_since_ms,
        phase=people.phase(group),
        waiting_for=people.waiting_for(group),
    )


class OverviewPages:
    """Each method is a page: (origin, names in the path, query)."""

    def __init__(self, queries: Queries, problems: OpenProblems, rest: Rest) -> None:
        self._ask, self._problems, self._rest = queries, problems, rest

    async def overview(self, origin: str, names: Names, query: Names) -> Json:
        """The node, how many groups are in which state, what is wrong, and a page of groups."""
        wanted = wanted_of(query)
        seen = await look_over(self._ask, self._problems, wanted, self._rest)
        node = seen.node
        more = wanted.start + wanted.size
        return {
            "node": {
                "node_id": node.node_id,
                "cluster_id": node.cluster_id,
                "version": node.version,
                "started_ms": node.started_wall_ms,
                "now_ms": node.wall_ms,
                "shards_loaded": node.shards_loaded,
                "shards_total": node.shards_total,
            },
            "groups": seen.groups,
            "states": seen.states,
            "problems": seen.kinds,
            "matching": seen.matching,
            "data": [_shown(row) for row in seen.rows],
            "next_page_token": str(more) if more < seen.matching else None,
        }


def wanted_of(query: Names) -> GroupFilter:
    """Parse a query whose parameters have been checked."""
    return GroupFilter(
        query.get("q", ""),
        query.get("state"),
        query.get("problem"),
        _SORT.text(query),
        PAGE_TOKEN.number(query),
        _SIZE.number(query),
    )


def _shown(row: GroupRow) -> Json:
    page = msgspec.structs.asdict(row)
    page["problems"] = [known_facts(problem) for problem in row.problems]
    page["state_since_ms"] = None if row.state_since_ms < 0 else row.state_since_ms
    return page


_SORT: Final = Parameter("sort", "Sort key; `-` reverses the order.", SORTS, default="problem")
_SIZE: Final = whole("page_size", "Groups a page.", 1, 1_000, _DEFAULT_SIZE)
_KINDS: Final = ("any", WITHOUT, *(kind.value for kind in Kind))
LIST_PARAMETERS: Final = (
    CONTAINS,
    STATE,
    Parameter("problem", "Groups with such a problem, with any, or with none.", _KINDS),
    _SORT,
    _SIZE,
    PAGE_TOKEN,
)
"""Parameters of the list of groups."""
_NODE: Final = record(
    "NodeSummary",
    node_id=WHOLE,
    cluster_id=TEXT,
    version=TEXT,
    started_ms=WHOLE,
    now_ms=WHOLE,
    shards_loaded=WHOLE,
    shards_total=WHOLE,
)
_ROW: Final = record(
    "GroupRow",
    group_id=TEXT,
    state=TEXT,
    type=TEXT,
    problems=several(schemas.PROBLEM_OF_GROUP),
    members=WHOLE,
    partitions=WHOLE,
    lag=WHOLE_OR_NULL,
    end_age_ms=WHOLE_OR_NULL,
    state_since_ms=WHOLE_OR_NULL,
    phase=TEXT_OR_NULL,
    waiting_for=TEXT_OR_NULL,
)
_ANSWER: Final = record(
    "Overview",
    ("unavailable",),
    node=_NODE,
    groups=WHOLE,
    states=COUNTS,
    problems=COUNTS,
    matching=WHOLE,
    data=several(_ROW),
    next_page_token=TEXT_OR_NULL,
    unavailable=schemas.UNAVAILABLE,
)
OVERVIEW_ROUTES: Final[tuple[HttpRoute, ...]] = (
    HttpRoute(
        "/v1/overview",
        OverviewPages.overview,
        "The node, what is wrong, and a page of groups.",
        _ANSWER,
        LIST_PARAMETERS,
    ),
)
