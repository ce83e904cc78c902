"""Pages of the problems of groups: `/v1/problems`."""

from typing import Final

from coordinator.http.queries import Queries
from coordinator.http.routing import schemas
from coordinator.http.routing.route import HttpRoute, Names, Parameter
from coordinator.http.shapes import Json
from coordinator.http.watch import OpenProblems, Rest, examine
from diagnosis.facts import known_facts
from diagnosis.problem import Kind


class ProblemPages:
    """Each method is a page: (origin, names in the path, query)."""

    def __init__(self, queries: Queries, rest: Rest, open_problems: OpenProblems) -> None:
        """Show `open_problems`. A single group is examined at each request; `rest` lets the loop serve other
        requests."""
        self._ask, self._rest, self._open = queries, rest, open_problems

    async def problems(self, origin: str, names: Names, query: Names) -> Json:
        """The open problems of all groups that the caller may see, or of `?group=`."""
        if "group" in query:
            group_id = (await self._ask.group(query["group"])).group_id
            found = self._open.continued(await examine(self._ask, self._rest, [group_id], self._open.remembered))
        else:
            found = await self._open.shown_to(self._ask)
        kind = query.get("kind")
        return {"problems": [known_facts(problem) for problem in found if kind in (None, problem.kind)]}


PROBLEM_ROUTES: Final = (
    HttpRoute(
        "/v1/problems",
        ProblemPages.problems,
        "Open problems: sentence, culprit, beginning, and the command that helps.",
        schemas.PROBLEMS,
        (
            Parameter("group", "The group to examine; default: all."),
            Parameter("kind", "Kind of the problems.", tuple(kind.value for kind in Kind)),
        ),
        (404,),
    ),
)
