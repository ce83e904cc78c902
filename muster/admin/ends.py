"""Begins and ends of partitions, as far as they are known, with their age."""

from collections.abc import Iterable
from itertools import groupby, islice
from typing import Final, NamedTuple

from membership.topic_partition import TopicPartition
from muster.admin.asking import topology
from muster.blocking.cluster import ClusterClient, expect
from protocol.messages.offsets import ListOffsets, ListOffsetsPartition, ListOffsetsReply, ListOffsetsTopic

_AS_GOOD_AS_NOW_MS: Final = 1_000
_PARTITIONS_A_QUESTION: Final = 1_000


class KnownEnd(NamedTuple):
    """`age_ms`: the offset was right so long ago, at most; None where it is as of now."""

    offset: int
    age_ms: int | None = None


def is_beside(cluster: ClusterClient) -> bool:
    """Tell whether partitions are those of brokers that musterd stands beside."""
    return any(broker.speaks for broker in topology(cluster, topics=False).brokers)


def ends_of(
    cluster: ClusterClient, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, KnownEnd]:
    """Beside brokers musterd is asked, which knows what it last heard of those that do not answer; what it never heard
    of is left out. Else every partition's node, as `ClusterClient.offsets`."""
    wanted = sorted(set(partitions))
    if not wanted or not is_beside(cluster):
        return {one: KnownEnd(offset) for one, offset in cluster.offsets(wanted, timestamp).items()}
    found: dict[TopicPartition, KnownEnd] = {}
    rest = iter(wanted)
    while some := list(islice(rest, _PARTITIONS_A_QUESTION)):
        found |= _told(cluster, some, timestamp)
    return found


def _told(cluster: ClusterClient, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, KnownEnd]:
    topics = tuple(
        ListOffsetsTopic(name, tuple(ListOffsetsPartition(one.partition, timestamp) for one in ones))
        for name, ones in groupby(partitions, key=lambda one: one.topic)
    )
    reply = expect(ListOffsetsReply, cluster.ask(ListOffsets(topics, max_age_ms=_AS_GOOD_AS_NOW_MS)))
    return {
        TopicPartition(topic.name, part.partition_index): KnownEnd(
            part.offset, part.age_ms if part.age_ms >= 0 else None
        )
        for topic in reply.topics
        for part in topic.partitions
        if not part.error_code and part.offset >= 0
    }
