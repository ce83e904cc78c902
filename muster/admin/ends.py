"""Starts and ends of partitions, as far as they are known, with their ages."""

from collections.abc import Iterable, Mapping
from itertools import groupby, islice
from typing import Final, NamedTuple

from diagnosis.assignments import Key
from diagnosis.gathering import WrittenRecord, first_records_of, first_records_request
from membership.topic_partition import TopicPartition
from muster.admin.asking import topology
from muster.blocking.cluster import ClusterClient, expect
from protocol.messages.offsets import ListOffsets, ListOffsetsPartition, ListOffsetsReply, ListOffsetsTopic

_AS_GOOD_AS_NOW_MS: Final = 1_000
_PARTITIONS_A_QUESTION: Final = 1_000


class KnownEnd(NamedTuple):
    """The start or end of a partition. `age_ms`: its largest possible age; None if it is current."""

    offset: int
    age_ms: int | None = None


def is_beside(cluster: ClusterClient) -> bool:
    """Return whether partitions belong to brokers behind musterd."""
    return any(broker.speaks for broker in topology(cluster, topics=False).brokers)


def ends_of(
    cluster: ClusterClient, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, KnownEnd]:
    """Return the offsets for the timestamp. Beside brokers, musterd is asked, which has the last known offsets of
    brokers that do not answer; unknown ones are omitted. Else the partitions' nodes are asked, as by
    `ClusterClient.offsets`."""
    wanted = sorted(set(partitions))
    if not wanted or not is_beside(cluster):
        return {one: KnownEnd(offset) for one, offset in cluster.offsets(wanted, timestamp).items()}
    found: dict[TopicPartition, KnownEnd] = {}
    rest = iter(wanted)
    while some := list(islice(rest, _PARTITIONS_A_QUESTION)):
        found |= _ends_from_musterd(cluster, some, timestamp)
    return found


def first_records(cluster: ClusterClient, since: Mapping[Key, int]) -> dict[Key, WrittenRecord]:
    """Return the first record of each partition at or after its time, from musterd; unknown ones are omitted."""
    found: dict[Key, WrittenRecord] = {}
    rest = iter(since.items())
    while some := dict(islice(rest, _PARTITIONS_A_QUESTION)):
        request = ListOffsets(first_records_request(some), max_age_ms=_AS_GOOD_AS_NOW_MS)
        reply = first_records_of(expect(ListOffsetsReply, cluster.ask(request)))
        found |= {key: record for key, record in reply.items() if record is not None}
    return found


def _ends_from_musterd(
    cluster: ClusterClient, partitions: list[TopicPartition], timestamp: int
) -> dict[TopicPartition, KnownEnd]:
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
