"""Pages of the problems of groups: `/v1/problems`, and the evidence behind the metric of the same name."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from coordinator.http.queries import Queries, partitions_of
from coordinator.http.routing import schemas
from coordinator.http.routing.route import HttpRoute, Names, Parameter
from coordinator.http.shapes import Json
from diagnosis import gathering
from diagnosis.problem import Evidence, GroupProblem, Kind

Rest = Callable[[], Awaitable[None]]
_GROUPS_A_GO: Final = 20
"""Groups examined before the loop serves others."""


class ProblemPages:
    """Each method is a page: (origin, names in the path, query)."""

    def __init__(self, queries: Queries, rest: Rest) -> None:
        """Examine groups, and call `rest` between some and the next: it lets the loop serve others."""
        self._ask, self._rest = queries, rest

    async def problems(self, origin: str, names: Names, query: Names) -> Json:
        """The open problems of all groups, or of `?group=`."""
        if "group" in query:
            found = await examine(self._ask, self._rest, [(await self._ask.group(query["group"])).group_id])
        else:
            found = await examine(self._ask, self._rest)
        kind = query.get("kind")
        return {"problems": [shown_problem(problem) for problem in found if kind in (None, problem.kind)]}


def shown_problem(problem: GroupProblem) -> Json:
    """Return the problem as JSON; what is unknown is null."""
    page = msgspec.structs.asdict(problem)
    for name in ("client_port", "since_ms"):
        page[name] = None if page[name] < 0 else page[name]
    for name in ("member_id", "client_id", "client_host", "command"):
        page[name] = page[name] or None
    return page


async def examine(queries: Queries, rest: Rest, group_ids: Sequence[str] | None = None) -> list[GroupProblem]:
    """Return the open problems of these groups, of all groups if None. `rest` lets the loop serve others."""
    node = await queries.node()
    topology = await queries.topology(topics=True)
    refusals = await queries.refusals(group_ids or ())
    known = gathering.Known(node.wall_ms, partitions_of(topology.topics), refusals)
    wanted = [one.group_id for one in await queries.groups()] if group_ids is None else group_ids
    found: list[GroupProblem] = []
    there: set[str] = set()
    for start in range(0, len(wanted), _GROUPS_A_GO):
        evidence = await _gathered(queries, gathering.gather(wanted[start : start + _GROUPS_A_GO], known))
        there.update(one.group.group_id for one in evidence)
        found += gathering.problems_of(evidence)
        await rest()
    return found + gathering.problems_of_absent(there, known)


async def _gathered(queries: Queries, gathered: gathering.Gathering) -> list[Evidence]:
    answer: Any = None
    while True:
        try:
            question = gathered.send(answer)
        except StopIteration as done:
            evidence: list[Evidence] = done.value
            return evidence
        answer = await _answer(queries, question)


async def _answer(queries: Queries, question: gathering.Question) -> Any:
    match question:
        case gathering.Describe():
            return await queries.describe(question.group_ids, with_facts=True)
        case gathering.Commits():
            return await queries.commits(question.group_ids)
        case gathering.Offsets():
            return await queries.offsets_at(question.keys, question.timestamp)
        case gathering.Notes():
            return (await queries.notes(question.group_id, -1, gathering.NOTES_A_GROUP)).notes
        case gathering.FirstExpiry():
            return await queries.first_expiry(question.group_id)


PROBLEM_ROUTES: Final = (
    HttpRoute(
        "/v1/problems",
        ProblemPages.problems,
        "Open problems: what, who, since when, and what helps.",
        schemas.PROBLEMS,
        (
            Parameter("group", "The group to examine; left out: all."),
            Parameter("kind", "Kind of the problems.", tuple(kind.value for kind in Kind)),
        ),
        (404,),
    ),
)
