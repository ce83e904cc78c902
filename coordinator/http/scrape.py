"""What a scrape shows. Sums tell of everything; partitions have series of their own within a bound: a cluster may be
huge, a page may not."""

from collections.abc import Awaitable, Callable, Iterable

from coordinator.http.lag import End, Key, PartitionLag, keys_of, lags, topics_of
from coordinator.http.metrics import GroupLine, Measured, MeasuredGroup, TopicSum
from coordinator.http.queries import GROUPS_A_QUESTION, Problem, Questions, partitions_of
from protocol.messages.groups import DescribedGroup
from protocol.messages.node import DescribeNodeReply

_BROKERS_BESIDE = "upstream_brokers"
"""Those that clients are told of, where this node stands beside some."""
_LINES_A_GO = 2_000
"""Partitions that are counted before others have their turn."""

Rest = Callable[[], Awaitable[None]]


async def _no_rest() -> None:
    pass


async def measure(questions: Questions, most_series: int, rest: Rest = _no_rest) -> Measured:
    """At most `most_series` partitions of groups, those with the largest lag, and as many of topics, of small topics
    first. `rest` lets others have their turn. While groups cannot be listed (the node still loads) its own numbers are
    shown alone."""
    node = await questions.node()
    try:
        return await _Scrape(questions, most_series, rest).measure(node)
    except Problem:
        return Measured(node)


class _Scrape:
    """Offsets that were asked for once, and what was seen of groups so far."""

    def __init__(self, questions: Questions, most_series: int, rest: Rest) -> None:
        self._questions = questions
        self._most = most_series
        self._rest = rest
        self._counts: dict[str, int] = {}
        self._ends: dict[Key, End] = {}
        self._begins: dict[Key, End] = {}
        self._lines = _Largest(most_series)

    async def measure(self, node: DescribeNodeReply) -> Measured:
        topology = await self._questions.topology(topics=True)
        self._counts = dict(sorted(partitions_of(topology.topics).items()))
        shown = _fitting(self._counts, self._most)
        self._ends = await self._questions.ends(shown)
        groups = await self._groups()
        lines = self._lines.found()
        return Measured(
            node,
            groups,
            lines,
            partition_counts=self._counts,
            ends={key: end.offset for key in shown if (end := self._ends.get(key)) and end.offset is not None},
            left_out=sum(self._counts.values()) - len(shown) + self._lines.seen - len(lines),
            nodes=node.gauges.get(_BROKERS_BESIDE, len(topology.brokers)) or 1,
        )

    async def _groups(self) -> tuple[MeasuredGroup, ...]:
        questions = self._questions
        listed = await questions.groups()
        balanced = await questions.balanced(listed)
        own_topics = {view.group_id: view.topics for view in balanced}
        names = [group.group_id for group in listed]
        measured: list[MeasuredGroup] = []
        for start in range(0, len(names), GROUPS_A_QUESTION):
            described = await questions.describe(names[start : start + GROUPS_A_QUESTION])
            committed = await questions.committed([group.group_id for group in described])
            for group in described:
                offsets = committed.get(group.group_id, {})
                measured.append(await self._group(group, offsets, own_topics.get(group.group_id, ())))
                await self._rest()
        return tuple(measured)

    async def _group(self, group: DescribedGroup, committed: dict[Key, int], more: Iterable[str]) -> MeasuredGroup:
        keys = keys_of(topics_of(group, committed, more), self._counts, committed)
        unknown = [key for key in keys if key not in self._ends]
        self._ends |= await self._questions.ends(unknown)
        unknown = [key for key in keys if key not in committed and key not in self._begins]
        self._begins |= await self._questions.begins(unknown)
        sums: dict[str, TopicSum] = {}
        oldest_ms: int | None = None
        for number, line in enumerate(lags(group, keys, committed, self._ends, self._begins), 1):
            sums[line.topic] = sums.get(line.topic, TopicSum()).plus(line)
            if line.end_age_ms is not None:
                oldest_ms = max(line.end_age_ms, oldest_ms or 0)
            self._lines.add(group.group_id, line)
            if number % _LINES_A_GO == 0:
                await self._rest()
        return MeasuredGroup(group.group_id, len(group.members), sums, oldest_ms)


class _Largest:
    """The lines with the largest lag, of any number that was seen."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[GroupLine] = []
        self.seen = 0

    def add(self, group_id: str, line: PartitionLag) -> None:
        self.seen += 1
        self._kept.append(GroupLine(group_id, line))
        if len(self._kept) > 2 * self._most:
            self._cut()

    def _cut(self) -> None:
        self._kept.sort(key=GroupLine.order)
        del self._kept[self._most :]

    def found(self) -> tuple[GroupLine, ...]:
        """By group, topic and partition."""
        self._cut()
        return tuple(sorted(self._kept, key=lambda one: (one.group_id, one.line.topic, one.line.partition)))


def _fitting(counts: dict[str, int], most: int) -> list[Key]:
    """Partitions of small topics first: a large one takes no room from others."""
    shown: list[Key] = []
    for topic, count in sorted(counts.items(), key=lambda one: one[1]):
        shown += [(topic, part) for part in range(min(count, most - len(shown)))]
    return sorted(shown)
