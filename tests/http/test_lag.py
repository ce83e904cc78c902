"""Sums of a group's lag, against the lines that they are sums of."""

import random

from coordinator.http.lag.partitions import GroupPartitions, KnownEnds, PartitionEnd, keys_of, lags, oldest_ms
from coordinator.http.lag.totals import GroupTotal, TopicEnds, group_total
from protocol.messages.groups import DescribedGroup
from protocol.messages.offsets import GroupOffsets


def test_totals_are_the_sums_of_the_lines() -> None:
    chance = random.Random(7)
    unknown = 0
    for _ in range(500):
        share = chance.choice((0.6, 1.0))
        topics = {
            topic: {index: chance.randrange(90) for index in range(6) if chance.random() < share}
            for topic in ("orders", "payments")[: chance.randrange(3)]
        }
        of_topics = {topic: _ends(chance) for topic in topics}
        committed = {(topic, index): offset for topic in topics for index, offset in topics[topic].items()}
        keys = keys_of(topics, {topic: one.count for topic, one in of_topics.items()}, committed)
        known = KnownEnds(
            ends={(topic, index): end for topic, one in of_topics.items() for index, end in one.ends.items()},
            begins={(topic, index): end for topic, one in of_topics.items() for index, end in one.begins.items()},
        )
        lines = list(lags(DescribedGroup("g"), GroupPartitions(keys, committed), known))
        counted = [line.lag for line in lines if line.lag is not None]
        lag = sum(counted) if counted or not lines else None

        total = group_total(GroupOffsets("g", 3, topics), of_topics)

        assert total == GroupTotal(3, len(lines), lag, oldest_ms(lines))
        unknown += lag is None
    assert 0 < unknown < 500


def _ends(chance: random.Random) -> TopicEnds:
    """Make the ends of six partitions; those that the topic does not have may have commits of other groups. In each
    second topic all ends are known and current."""
    begins = {index: _end(chance) for index in range(6) if chance.random() < 0.7}
    found = TopicEnds(chance.randrange(7), {}, begins, {})
    is_current = chance.random() < 0.5
    for index in range(6):
        found.learn({index: PartitionEnd(60) if is_current else _end(chance)})
    return found


def _end(chance: random.Random) -> PartitionEnd | None:
    return chance.choice((None, PartitionEnd(None), PartitionEnd(60), PartitionEnd(120, chance.randrange(2_000))))
