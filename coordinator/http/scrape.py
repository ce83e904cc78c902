"""Gathers the numbers of one scrape. Sums count everything; the number of series by partition is bounded, since a page
of a huge cluster must not be."""

from collections.abc import Awaitable, Callable, Iterable

from coordinator.http.lag.end_history import EndHistory
from coordinator.http.lag.partitions import (
    GroupPartitions,
    KnownEnds,
    PartitionLag,
    keys_of,
    lags,
    longest_ms,
    topic_ids_of,
    topics_of,
)
from coordinator.http.lag.timed import LagClock
from coordinator.http.metrics import GroupLine, Measured, MeasuredGroup, TopicSum
from coordinator.http.queries import GROUPS_A_REQUEST, Problem, Queries, partitions_of
from coordinator.http.watch import ProblemWatch
from diagnosis.assignments import Key
from diagnosis.gathering import Commit
from protocol.messages.groups import DescribedGroup
from protocol.messages.node import DescribeNodeReply

_BROKERS_BESIDE = "upstream_brokers"
"""Gauge of the advertised brokers, if this node is in front of a cluster."""
_LINES_A_GO = 2_000
"""Partitions counted before the loop serves other requests."""

Rest = Callable[[], Awaitable[None]]


async def _no_rest() -> None:
    pass


async def measure(
    queries: Queries, most_series: int, watch: ProblemWatch, rest: Rest = _no_rest, history: EndHistory | None = None
) -> Measured:
    """Gather the numbers. At most `most_series` partitions of groups have series, by largest lag, and as many of
    topics, small topics first. `history` has ends that were seen earlier. `rest` lets the loop serve other requests.
    While groups cannot be listed, since the node is loading, only the node's own numbers are shown."""
    node = await queries.node()
    times = LagClock(EndHistory() if history is None else history, node.wall_ms)
    try:
        return await _Scrape(queries, most_series, watch, rest, times).measure(node)
    except Problem:
        return Measured(node)


class _Scrape:
    """State of one scrape: offsets, fetched once each, and the groups counted so far."""

    def __init__(self, queries: Queries, most_series: int, watch: ProblemWatch, rest: Rest, times: LagClock) -> None:
        self._times = times
        self._now_ms = 0
        self._queries = queries
        self._watch = watch
        self._most = most_series
        self._rest = rest
        self._known = KnownEnds()
        self._lines = _Largest(most_series)

    async def measure(self, node: DescribeNodeReply) -> Measured:
        self._now_ms = node.wall_ms
        topology = await self._queries.topology(topics=True)
        counts = dict(sorted(partitions_of(topology.topics).items()))
        self._known.counts, self._known.topic_ids = counts, topic_ids_of(topology.topics)
        shown = _fitting(counts, self._most)
        self._known.ends |= await self._queries.ends(shown)
        groups = await self._groups()
        problems = await self._watch.shown_to(self._queries)
        lines = self._lines.found()
        measured = await self._queries.measured(self._most)
        known = {group.group_id for group in groups}
        return Measured(
            node,
            groups,
            lines,
            partition_counts=counts,
            ends={key: end.offset for key in shown if (end := self._known.ends.get(key)) and end.offset is not None},
            problems=tuple((problem.group_id, problem.kind.value) for problem in problems),
            groups_to_look_at=self._watch.waiting,
            left_out=sum(counts.values()) - len(shown) + self._lines.seen - len(lines),
            tallies=tuple(one for one in measured.groups if one.group_id in known),
            durations=measured.durations,
            nodes=node.gauges.get(_BROKERS_BESIDE, len(topology.brokers)) or 1,
        )

    async def _groups(self) -> tuple[MeasuredGroup, ...]:
        queries = self._queries
        listed = await queries.groups()
        balanced = await queries.balanced(listed)
        own_topics = {view.group_id: view.topics for view in balanced}
        names = [group.group_id for group in listed]
        measured: list[MeasuredGroup] = []
        for start in range(0, len(names), GROUPS_A_REQUEST):
            described = await queries.describe(names[start : start + GROUPS_A_REQUEST])
            committed = await queries.commits([group.group_id for group in described], with_origins=False)
            for group in described:
                offsets = committed.get(group.group_id, {})
                measured.append(await self._group(group, offsets, own_topics.get(group.group_id, ())))
                await self._rest()
        return tuple(measured)

    async def _group(self, group: DescribedGroup, commits: dict[Key, Commit], more: Iterable[str]) -> MeasuredGroup:
        keys = keys_of(topics_of(group, commits, more), self._known.counts, commits)
        its = GroupPartitions(keys, commits)
        await self._queries.complete(self._known, (its,))
        sums: dict[str, TopicSum] = {}
        oldest_ms: int | None = None
        lags_ms: list[int | None] = []
        for number, line in enumerate(lags(group, its, self._known), 1):
            sums[line.topic] = sums.get(line.topic, TopicSum()).plus(line)
            lag_ms = self._times.lag_ms(line)
            lags_ms.append(lag_ms)
            if line.end_age_ms is not None:
                oldest_ms = max(line.end_age_ms, oldest_ms or 0)
            self._lines.add(group.group_id, line, lag_ms)
            if number % _LINES_A_GO == 0:
                await self._rest()
        times = [one.at_ms for one in commits.values() if one.at_ms is not None]
        age_ms = max(0, self._now_ms - max(times)) if times else None
        return MeasuredGroup(group.group_id, len(group.members), sums, oldest_ms, longest_ms(lags_ms), age_ms)


class _Largest:
    """The lines with the largest lag of all lines added."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[GroupLine] = []
        self.seen = 0

    def add(self, group_id: str, line: PartitionLag, lag_ms: int | None) -> None:
        self.seen += 1
        self._kept.append(GroupLine(group_id, line, lag_ms))
        if len(self._kept) > 2 * self._most:
            self._cut()

    def _cut(self) -> None:
        self._kept.sort(key=GroupLine.order)
        del self._kept[self._most :]

    def found(self) -> tuple[GroupLine, ...]:
        """Return the lines sorted by group, topic and partition."""
        self._cut()
        return tuple(sorted(self._kept, key=lambda one: (one.group_id, one.line.topic, one.line.partition)))


def _fitting(counts: dict[str, int], most: int) -> list[Key]:
    """Return at most `most` partitions, of small topics first, so that a large topic does not displace others."""
    shown: list[Key] = []
    for topic, count in sorted(counts.items(), key=lambda one: one[1]):
        shown += [(topic, part) for part in range(min(count, most - len(shown)))]
    return sorted(shown)
