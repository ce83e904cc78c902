"""Pages of the problems of groups: `/v1/problems`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from coordinator.http.queries import Problem, Queries
from coordinator.http.shapes import Json
from coordinator.http.watch import ProblemWatch, Rest, examine
from diagnosis.facts import known_facts

Names = Mapping[str, str]
BAD_PARAMETER: Final = 40002


class ProblemPages:
    """Each method is a page: (origin, names in the path, query)."""

    def __init__(self, queries: Queries, rest: Rest, watch: ProblemWatch) -> None:
        """Show what `watch` finds. A single group is examined anew; `rest` lets the loop serve others."""
        self._ask, self._rest, self._watch = queries, rest, watch

    async def problems(self, origin: str, names: Names, query: Names) -> Json:
        """The open problems of all groups that the caller may see, or of `?group=`."""
        unknown = sorted(set(query) - {"group"})
        if unknown:
            raise Problem(BAD_PARAMETER, f"there is no parameter {unknown[0][:40]!r} here, only group")
        if "group" in query:
            found = await examine(self._ask, self._rest, [(await self._ask.group(query["group"])).group_id])
        else:
            found = await self._watch.shown_to(self._ask)
        return {"problems": [known_facts(problem) for problem in found]}


ProblemPage = Callable[[ProblemPages, str, Names, Names], Awaitable[Json]]
PROBLEM_ROUTES: Final[tuple[tuple[str, ProblemPage], ...]] = (("/v1/problems", ProblemPages.problems),)
