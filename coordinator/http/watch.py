"""The doctor's checks of all groups: those that changed, have a problem or are due, some at a time.

A check of one group takes about 0.3 ms. The cost of a round must depend on the number of changed groups, not of all
groups: so the node keeps changed groups in memory for `ListSuspects`, and `diagnosis.schedule` says when the others are
due."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import Final, NamedTuple, Protocol

from coordinator.http.queries import PARTITIONS_A_REQUEST, Queries, partitions_of
from diagnosis import gathering
from diagnosis.assignments import Key
from diagnosis.backlog import Backlog, backlogs
from diagnosis.growth import PartitionCounts
from diagnosis.problem import Evidence, GroupProblem, continued, identity
from diagnosis.schedule import next_look_ms
from protocol.messages.groups import DescribedGroup, ListedNote, ListSuspectsReply

Rest = Callable[[], Awaitable[None]]
FirstRecords = dict[tuple[Key, int, int | None], gathering.WrittenRecord | None]
"""First record of a partition that was written at or after a wall time, None if there was none, by the time and the
start of the log: a log that lost its first records has another first one."""
OnProblem = Callable[[GroupProblem, bool], None]
"""Called with each problem when it opens (true) and when it closes (false)."""
GROUPS_A_ROUND: Final = 1_000
_SUSPECTS_A_ROUND: Final = 700
_GROUPS_A_GO: Final = 2
"""Groups examined before the loop serves other requests."""
_REST_MS: Final = 1_000
"""Least time between two checks of a group with a problem, however many clients ask: a silent member makes its group
due for as long as it is silent."""
RECENT_MS: Final = 1_000
"""Largest age of the problems in a list of groups while events are followed."""
_MOST_FIRST_RECORDS: Final = 20_000
_LIST_EVERY_MS: Final = 600_000
"""Interval of searches for groups that were created without a change of state, by a commit without a member."""


class _Seen(NamedTuple):
    """Problems found in a group, the time of the check, that of the next, and the partitions with unread records."""

    problems: tuple[GroupProblem, ...]
    at_ms: int
    due_ms: int
    backlogs: Mapping[Key, Backlog]


class OpenProblems(Protocol):
    """The open problems of groups."""

    async def shown_to(self, queries: Queries) -> list[GroupProblem]:
        """Return those of groups that the caller behind `queries` may see, by group."""

    async def listed_for(self, queries: Queries, group_ids: Collection[str], now_ms: int) -> list[GroupProblem]:
        """Return those of a list at the node's wall time `now_ms`, by group. `group_ids`: all groups that the caller
        behind `queries` may see."""

    def continued(self, found: Iterable[GroupProblem]) -> list[GroupProblem]:
        """Return the problems of a single look with what the rounds know of their beginning."""

    def remembered(self, known: gathering.Known) -> gathering.Known:
        """Return the facts for a single look with those that the rounds remember."""


class ProblemWatch:
    """The open problems of all groups, as of the last check of each."""

    def __init__(
        self,
        queries: Queries,
        rest: Rest,
        lock: AbstractAsyncContextManager[object],
        on_problem: OnProblem = lambda problem, is_open: None,
        groups_a_round: int = GROUPS_A_ROUND,
    ) -> None:
        """`queries` may see everything. `lock` allows one round at a time; `rest` lets the loop serve other
        requests."""
        self._ask, self._rest, self._lock, self._on_problem = queries, rest, lock, on_problem
        self._most = groups_a_round
        self._seen: dict[str, _Seen] = {}
        self._absent: list[GroupProblem] = []
        self._changed: dict[str, None] = {}
        self._since_ms = 0
        self._list_at_ms = -1
        self._open: dict[tuple[str, ...], GroupProblem] = {}
        self._last: list[GroupProblem] = []
        self._first: FirstRecords = {}
        self._partitions = PartitionCounts()
        self._followed_ms: int | None = None
        self.waiting = 0
        """Groups that were due in the last round and will be checked in the next ones."""

    @property
    def since_ms(self) -> int:
        """Wall time from which on the next round wants the changes."""
        return self._since_ms

    async def look(self, suspects: ListSuspectsReply | None = None) -> list[GroupProblem]:
        """Make a round, and return all open problems, by group. `suspects`: the groups that changed at `since_ms` or
        later, if the caller knows them."""
        async with self._lock:
            known = await self._known()
            await self._find_changed(known, suspects)
            chosen, asked = self._chosen(known.now_ms), _NodeEvidence(self._ask, self._first)
            for start in range(0, len(chosen), _GROUPS_A_GO):
                await self._examine(chosen[start : start + _GROUPS_A_GO], known, asked)
                await self._rest()
            self._absent = gathering.problems_of_absent(self._seen, known)
            found = self._found()
            self._notify(found)
            self._last = found
            if suspects is not None:
                self._followed_ms = known.now_ms
            return found

    async def shown_to(self, queries: Queries) -> list[GroupProblem]:
        """Make a round, and return the problems of groups that the caller behind `queries` may see."""
        found = await self.look()
        visible = {one.group_id for one in await queries.describe(sorted({one.group_id for one in found}))}
        visible |= {one.group_id for one in await queries.refusals(())}
        return [one for one in found if one.group_id in visible]

    async def listed_for(self, queries: Queries, group_ids: Collection[str], now_ms: int) -> list[GroupProblem]:
        """Return the problems in a list of the groups `group_ids`. While events are followed, there is a round each
        second, and the list makes none of its own."""
        is_recent = self._followed_ms is not None and 0 <= now_ms - self._followed_ms < RECENT_MS
        found = self._last if is_recent else await self.look()
        visible = {*group_ids, *(one.group_id for one in await queries.refusals(()))}
        return [one for one in found if one.group_id in visible]

    def continued(self, found: Iterable[GroupProblem]) -> list[GroupProblem]:
        """Return the problems of a single look with what the rounds know of their beginning."""
        return continued(found, self._last)

    def remembered(self, known: gathering.Known) -> gathering.Known:
        """Return the facts for a single look with those that the rounds remember. What the look sees is remembered."""
        self._partitions.see(known.counts, known.now_ms, is_all=False)
        return self._with_memory(known)

    def _with_memory(self, known: gathering.Known) -> gathering.Known:
        return known._replace(grown=self._partitions.grown, backlogs_of=self._backlogs_of)

    def _backlogs_of(self, group_id: str) -> Mapping[Key, Backlog] | None:
        seen = self._seen.get(group_id)
        return None if seen is None else seen.backlogs

    async def _known(self) -> gathering.Known:
        node = await self._ask.node()
        topology = await self._ask.topology(topics=True)
        counts = partitions_of(topology.topics)
        self._partitions.see(counts, node.wall_ms, is_all=True)
        return self._with_memory(gathering.Known(node.wall_ms, counts, await self._ask.refusals(())))

    async def _find_changed(self, known: gathering.Known, suspects: ListSuspectsReply | None) -> None:
        if known.now_ms >= self._list_at_ms:
            listed = [one.group_id for one in await self._ask.groups()]
            self._changed |= dict.fromkeys(one for one in listed if one not in self._seen)
            self._list_at_ms = known.now_ms + _LIST_EVERY_MS
        refused = (one.group_id for one in known.refusals if one.wall_ms >= self._since_ms)
        self._changed |= dict.fromkeys(one for one in refused if one in self._seen)
        found = suspects or await self._ask.suspects(self._since_ms)
        self._since_ms = found.wall_ms
        self._changed |= dict.fromkeys(found.groups)

    def _chosen(self, now_ms: int) -> list[str]:
        """Choose the groups of this round: changed groups first, in the order of their last checks."""
        changed = sorted((one for one in self._changed if not self._rests(one, now_ms)), key=self._last_look_ms)
        due = [one for one, seen in self._seen.items() if seen.due_ms <= now_ms and one not in self._changed]
        due.sort(key=self._last_look_ms)
        first = changed[: max(_SUSPECTS_A_ROUND * self._most // GROUPS_A_ROUND, self._most - len(due))]
        rest = due[: self._most - len(first)]
        self.waiting = len(changed) + len(due) - len(first) - len(rest)
        return first + rest

    def _last_look_ms(self, group_id: str) -> int:
        seen = self._seen.get(group_id)
        return -1 if seen is None else seen.at_ms

    def _rests(self, group_id: str, now_ms: int) -> bool:
        """Return whether the group's problems were found just now."""
        seen = self._seen.get(group_id)
        return seen is not None and bool(seen.problems) and 0 <= now_ms - seen.at_ms < _REST_MS

    async def _examine(self, group_ids: Sequence[str], known: gathering.Known, asked: "_NodeEvidence") -> None:
        evidence = await gathering.gather(asked, group_ids, known)
        before = {group_id: self._seen.pop(group_id, None) for group_id in group_ids}
        for group_id in group_ids:
            self._changed.pop(group_id, None)
        for one in evidence:
            self._seen[one.group.group_id] = _seen(one, before.get(one.group.group_id))

    def _found(self) -> list[GroupProblem]:
        found = [problem for seen in self._seen.values() for problem in seen.problems]
        return sorted([*found, *self._absent], key=lambda one: one.group_id)

    def _notify(self, found: Iterable[GroupProblem]) -> None:
        now = {identity(one): one for one in found}
        for key, problem in now.items():
            if key not in self._open:
                self._on_problem(problem, True)
        for key, problem in self._open.items():
            if key not in now:
                self._on_problem(problem, False)
        self._open = now


def _seen(evidence: Evidence, last: _Seen | None) -> _Seen:
    before = () if last is None else last.problems
    problems = tuple(continued(gathering.problems_of((evidence,)), before, evidence.now_ms))
    due_ms = evidence.now_ms + _REST_MS if problems else next_look_ms(evidence)
    return _Seen(problems, evidence.now_ms, due_ms, backlogs(evidence, {} if last is None else last.backlogs))


async def examine(
    queries: Queries,
    rest: Rest,
    group_ids: Sequence[str] | None = None,
    remembered: Callable[[gathering.Known], gathering.Known] = lambda known: known,
) -> list[GroupProblem]:
    """Return the open problems of these groups, of all groups if None. `rest` lets the loop serve other requests;
    `remembered` adds what earlier looks saw."""
    node = await queries.node()
    topology = await queries.topology(topics=True)
    refusals = await queries.refusals(group_ids or ())
    known = remembered(gathering.Known(node.wall_ms, partitions_of(topology.topics), refusals))
    wanted = [one.group_id for one in await queries.groups()] if group_ids is None else group_ids
    found: list[GroupProblem] = []
    there: set[str] = set()
    asked = _NodeEvidence(queries, {})
    for start in range(0, len(wanted), _GROUPS_A_GO):
        evidence = await gathering.gather(asked, wanted[start : start + _GROUPS_A_GO], known)
        there.update(one.group.group_id for one in evidence)
        found += gathering.problems_of(evidence)
        await rest()
    return found + gathering.problems_of_absent(there, known)


class _NodeEvidence:
    """The node as the source of evidence, for one round. Starts of logs are asked for once; ends again with each group,
    since its commits must not be compared with older ones. `first` keeps the first records since a time from round to
    round: a group that stands still must not have its logs searched each second."""

    def __init__(self, queries: Queries, first: FirstRecords) -> None:
        self._queries = queries
        self._first = first
        self._begins: dict[Key, int | None] = {}
        self.commits = queries.commits
        self.first_expiry = queries.first_expiry

    async def describe(self, group_ids: Sequence[str]) -> list[DescribedGroup]:
        return await self._queries.describe(group_ids, with_facts=True)

    async def offsets_at(self, keys: Sequence[Key], timestamp: int) -> dict[Key, int]:
        if timestamp != gathering.EARLIEST:
            return await self._queries.offsets_at(keys, timestamp)
        if new := [key for key in keys if key not in self._begins]:
            self._begins |= dict.fromkeys(new) | await self._queries.offsets_at(new, timestamp)
        return {key: begin for key in keys if (begin := self._begins[key]) is not None}

    async def first_records(self, since: Mapping[Key, int]) -> dict[Key, gathering.WrittenRecord]:
        first, places = self._first, {key: (key, at_ms, self._begins.get(key)) for key, at_ms in since.items()}
        known = {place: first[place] for place in places.values() if place in first}
        new = iter([(key, at_ms) for key, at_ms in since.items() if places[key] not in known])
        while some := dict(islice(new, PARTITIONS_A_REQUEST)):
            reply = await self._queries.list_offsets(gathering.first_records_request(some))
            # None is kept too: a record that is written later is not the one that a reader with a backlog waits at.
            known |= {places[key]: record for key, record in gathering.first_records_of(reply).items()}
        if len(first) + len(known) > _MOST_FIRST_RECORDS:
            first.clear()
        first |= known
        return {key: record for (key, _since_ms, _begin), record in known.items() if record is not None}

    async def notes(self, group_id: str) -> tuple[ListedNote, ...]:
        return (await self._queries.notes(group_id, -1, gathering.NOTES_A_GROUP)).notes
