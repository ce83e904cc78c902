"""What a scrape shows, gathered within a bound: a cluster may be huge, a page may not."""

from coordinator.http.lag import End, Key, lags
from coordinator.http.metrics import Measured, MeasuredGroup
from coordinator.http.queries import GROUPS_A_QUESTION, Problem, Questions, partitions_of
from protocol.messages.node import DescribeNodeReply

_BROKERS_BESIDE = "upstream_brokers"
"""Those that clients are told of, where this node stands beside some."""


async def measure(questions: Questions, most_series: int) -> Measured:
    """At most `most_series` partitions of groups and as many of topics; groups and topics by name, whole or not at
    all. While groups cannot be listed (the node still loads) its own numbers are shown alone."""
    node = await questions.node()
    try:
        return await _with_groups(questions, node, most_series)
    except Problem:
        return Measured(node)


async def _with_groups(questions: Questions, node: DescribeNodeReply, most_series: int) -> Measured:
    topology = await questions.topology(topics=True)
    counts = dict(sorted(partitions_of(topology.topics).items()))
    shown, left_out = _fitting(counts, most_series)
    ends = await questions.ends((topic, partition) for topic in shown for partition in range(counts[topic]))
    groups, missed = await _groups(questions, ends, most_series)
    return Measured(
        node,
        groups,
        partition_counts={topic: counts[topic] for topic in shown},
        ends={key: end.offset for key, end in ends.items() if end.offset is not None},
        left_out=left_out + missed,
        nodes=node.gauges.get(_BROKERS_BESIDE, len(topology.brokers)) or 1,
    )


def _fitting(counts: dict[str, int], most: int) -> tuple[list[str], int]:
    shown: list[str] = []
    for topic, count in counts.items():
        if count <= most:
            most -= count
            shown.append(topic)
    return shown, len(counts) - len(shown)


async def _groups(questions: Questions, ends: dict[Key, End], most: int) -> tuple[tuple[MeasuredGroup, ...], int]:
    names = [group.group_id for group in await questions.groups()]
    known = dict(ends)
    measured: list[MeasuredGroup] = []
    left_out = 0
    for start in range(0, len(names), GROUPS_A_QUESTION):
        if most <= 0:
            return tuple(measured), left_out + len(names) - start
        described = await questions.describe(names[start : start + GROUPS_A_QUESTION])
        committed = await questions.committed([group.group_id for group in described])
        for group in described:
            offsets = committed.get(group.group_id, {})
            cost = max(1, len(offsets))
            if cost > most:
                left_out += 1
                continue
            most -= cost
            known |= await questions.ends(key for key in offsets if key not in known)
            measured.append(MeasuredGroup(group.group_id, len(group.members), tuple(lags(group, offsets, known))))
    return tuple(measured), left_out
