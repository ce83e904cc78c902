"""Pages of the problems of groups: `/v1/problems`, and the evidence behind the metric of the same name."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from coordinator.http.queries import Problem, Queries, partitions_of
from coordinator.http.shapes import Json
from diagnosis import gathering
from diagnosis.facts import known_facts
from diagnosis.problem import GroupProblem
from protocol.messages.groups import DescribedGroup, ListedNote

Names = Mapping[str, str]
Rest = Callable[[], Awaitable[None]]
BAD_PARAMETER: Final = 40002
_GROUPS_A_GO: Final = 20
"""Groups examined before the loop serves others."""


class ProblemPages:
    """Each method is a page: (origin, names in the path, query)."""

    def __init__(self, queries: Queries, rest: Rest) -> None:
        """Examine groups, and call `rest` between some and the next: it lets the loop serve others."""
        self._ask, self._rest = queries, rest

    async def problems(self, origin: str, names: Names, query: Names) -> Json:
        """The open problems of all groups, or of `?group=`."""
        unknown = sorted(set(query) - {"group"})
        if unknown:
            raise Problem(BAD_PARAMETER, f"there is no parameter {unknown[0][:40]!r} here, only group")
        if "group" in query:
            found = await examine(self._ask, self._rest, [(await self._ask.group(query["group"])).group_id])
        else:
            found = await examine(self._ask, self._rest)
        return {"problems": [known_facts(problem) for problem in found]}


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
        evidence = await gathering.gather(_Asked(queries), wanted[start : start + _GROUPS_A_GO], known)
        there.update(one.group.group_id for one in evidence)
        found += gathering.problems_of(evidence)
        await rest()
    return found + gathering.problems_of_absent(there, known)


class _Asked:
    """The node, as the servers that evidence is gathered from."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self.commits = queries.commits
        self.offsets_at = queries.offsets_at
        self.first_expiry = queries.first_expiry

    async def describe(self, group_ids: Sequence[str]) -> list[DescribedGroup]:
        return await self._queries.describe(group_ids, with_facts=True)

    async def notes(self, group_id: str) -> tuple[ListedNote, ...]:
        return (await self._queries.notes(group_id, -1, gathering.NOTES_A_GROUP)).notes


ProblemPage = Callable[[ProblemPages, str, Names, Names], Awaitable[Json]]
PROBLEM_ROUTES: Final[tuple[tuple[str, ProblemPage], ...]] = (("/v1/problems", ProblemPages.problems),)
