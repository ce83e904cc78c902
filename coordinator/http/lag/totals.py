"""Sums of lag of many groups, computed for each page, since cached sums would be out of date."""

from collections.abc import Iterable, Mapping, Sequence
from operator import eq, sub
from typing import Final

import msgspec

from coordinator.http.lag.partitions import PartitionEnd
from coordinator.http.queries import Queries, ends_of
from coordinator.http.watch import Rest
from diagnosis.assignments import Key
from protocol.messages.offsets import GroupOffsets

_GROUPS_A_REQUEST: Final = 10
"""Groups whose offsets are requested at once: a heartbeat waits for one such request."""
_OFFSETS_A_GO: Final = 5_000
"""Offsets summed before the loop serves others."""

Committed = Mapping[str, Mapping[int, int]]
"""Committed offsets of a group by topic and partition."""


class TopicEnds(msgspec.Struct, frozen=True):
    """Answers about the partitions of a topic that has `count` of them. Partitions that do not exist are None.
    `current`: the ends that are known and current; `in_order`: those of partitions 0, 1, 2 and so on, if these are all
    of them."""

    count: int = 0
    ends: dict[int, PartitionEnd | None] = {}
    begins: dict[int, PartitionEnd | None] = {}
    current: dict[int, int] = {}
    in_order: list[int] = []

    def learn(self, ends: Mapping[int, PartitionEnd | None]) -> None:
        """Keep answers about the ends of partitions."""
        self.ends.update(ends)
        self.current.update(
            {
                index: end.offset
                for index, end in ends.items()
                if end is not None and end.offset is not None and end.age_ms is None
            }
        )
        is_in_order = all(map(eq, self.current, range(len(self.current))))
        self.in_order[:] = self.current.values() if is_in_order else ()

    def behind(self, committed: Mapping[int, int]) -> list[int] | None:
        """Return the lag of each commit, in C alone; None if not all ends of the topic are current, or a partition has
        no commit."""
        current = self.current
        if not committed or len(committed) != len(current) or len(current) != len(self.ends):
            return None
        try:
            return _not_negative(list(map(sub, current.values(), map(committed.__getitem__, current))))
        except KeyError:
            return None

    def behind_in_order(self, committed: Sequence[int]) -> list[int] | None:
        """Return the same for commits of partitions 0, 1, 2 and so on."""
        if not committed or not len(committed) == len(self.in_order) == len(self.ends):
            return None
        return _not_negative(list(map(sub, self.in_order, committed)))


def _not_negative(found: list[int]) -> list[int]:
    return found if min(found) >= 0 else [max(one, 0) for one in found]


class GroupTotal(msgspec.Struct, frozen=True):
    """Members of a group, and sums over its partitions. `lag` is None if no end of them is known."""

    members: int = 0
    partitions: int = 0
    lag: int | None = 0
    end_age_ms: int | None = None


class _Pace:
    """Lets the loop serve other requests after each `_OFFSETS_A_GO` offsets."""

    def __init__(self, rest: Rest) -> None:
        self._rest, self._summed = rest, 0

    async def summed(self, offsets: int) -> None:
        self._summed += offsets
        if self._summed >= _OFFSETS_A_GO:
            self._summed = 0
            await self._rest()


async def group_totals(queries: Queries, group_ids: Sequence[str], rest: Rest) -> dict[str, GroupTotal]:
    """Return the totals of the groups that still exist, by id. `rest` lets the loop serve other requests."""
    totals: dict[str, GroupTotal] = {}
    known: dict[str, TopicEnds] = {}
    pace = _Pace(rest)
    for start in range(0, len(group_ids), _GROUPS_A_REQUEST):
        others: list[tuple[GroupOffsets, Committed]] = []
        for one in await queries.group_offsets(group_ids[start : start + _GROUPS_A_REQUEST]):
            total = _total_if_current(one, known)
            if total is None:
                others.append((one, _by_partition(one)))
            else:
                totals[one.group_id] = total
                await pace.summed(total.partitions)
        await _complete(queries, known, [committed for _, committed in others])
        for one, committed in others:
            total = totals[one.group_id] = group_total(one.members, committed, known)
            await pace.summed(total.partitions)
    return totals


async def _complete(queries: Queries, known: dict[str, TopicEnds], groups: Iterable[Committed]) -> None:
    """Request the unknown ends of the partitions of the groups' topics, and the starts of those without a commit."""
    named = [one for group in groups for one in group.items()]
    new = {topic for topic, _committed in named if topic not in known}
    counts = await queries.partition_counts(new)
    known |= {topic: TopicEnds(counts.get(topic, 0)) for topic in new}
    ends = {topic: set(range(known[topic].count)) for topic in new}
    begins: set[Key] = set()
    for topic, committed in named:
        if more := committed.keys() - known[topic].ends.keys():
            ends.setdefault(topic, set()).update(more)
    for topic, indexes in ends.items():
        known[topic].learn(dict.fromkeys(indexes) | await ends_of(queries, topic, sorted(indexes)))
    for topic, committed in named:
        its = known[topic]
        if committed.keys() == its.ends.keys():
            continue
        begins |= {(topic, index) for index in its.ends.keys() - committed.keys() - its.begins.keys()}
    for (topic, index), begin in (dict.fromkeys(begins) | await queries.begins(begins)).items():
        known[topic].begins[index] = begin


def _total_if_current(group: GroupOffsets, known: Mapping[str, TopicEnds]) -> GroupTotal | None:
    """Return the sums of a group if all ends of its topics are known and current, and each partition has a commit."""
    partitions = lag = 0
    for topic in (*group.in_order, *group.topics):
        if (its := known.get(topic)) is None:
            return None
        in_order = group.in_order.get(topic)
        behind = its.behind(group.topics[topic]) if in_order is None else its.behind_in_order(in_order)
        if behind is None:
            return None
        partitions, lag = partitions + len(behind), lag + sum(behind)
    return GroupTotal(group.members, partitions, lag)


def _by_partition(group: GroupOffsets) -> Committed:
    return group.topics | {topic: dict(enumerate(offsets)) for topic, offsets in group.in_order.items()}


def group_total(members: int, group: Committed, known: Mapping[str, TopicEnds]) -> GroupTotal:
    """Return the sums of the lines of `lags`, for a twentieth of their cost."""
    partitions, lag, age_ms, is_known = 0, 0, -1, False
    for topic, committed in group.items():
        of_topic = known[topic]
        if (behind := of_topic.behind(committed)) is not None:
            partitions, lag, is_known = partitions + len(behind), lag + sum(behind), True
            continue
        for index, end in of_topic.ends.items():
            start = committed.get(index)
            # Partitions that the topic does not have are known here only by another group's commit.
            if end is None or (start is None and index >= of_topic.count):
                continue
            if start is None and (begin := of_topic.begins.get(index)) is not None:
                start = begin.offset
            partitions += 1
            if end.age_ms is not None and end.age_ms > age_ms:
                age_ms = end.age_ms
            if end.offset is not None and start is not None:
                lag, is_known = lag + max(0, end.offset - start), True
    shown = lag if is_known or not partitions else None
    return GroupTotal(members, partitions, shown, age_ms if age_ms >= 0 else None)
