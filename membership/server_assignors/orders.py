"""Orders in which Kafka's assignors visit members and topics (docs/spec/consumer-group-protocol.md#5.1)."""

from collections.abc import Collection, Generator, Mapping, Sequence

from membership.pace import Pace, chunks, sort
from membership.server_assignors.hash_order import (
    bucket,
    buckets_grown_to,
    buckets_of_list,
    hash_of_id,
    hash_of_text,
)
from membership.server_assignors.spec import SubscribedMember, SubscribedTopic

_CHUNK_US = 200


def in_member_order(members: Sequence[SubscribedMember], pace: Pace) -> Generator[int, object, list[SubscribedMember]]:
    """Sort members by bucket, and in one bucket by id."""
    buckets = buckets_grown_to(len(members))

    def place(member: SubscribedMember) -> tuple[int, str]:
        return bucket(hash_of_text(member.member_id), buckets), member.member_id

    ordered = yield from sort(members, place, pace)
    return ordered


def in_topic_order(
    topic_ids: Collection[bytes], topics: Mapping[bytes, SubscribedTopic], pace: Pace
) -> Generator[int, object, list[bytes]]:
    """Sort topics by bucket of the id, in one bucket by bucket of the name, then by name."""
    buckets = buckets_of_list(len(topic_ids))

    def place(topic_id: bytes) -> tuple[int, int, str]:
        name = topics[topic_id].name
        return bucket(hash_of_id(topic_id), buckets), bucket(hash_of_text(name), buckets), name

    ordered = yield from sort(topic_ids, place, pace)
    return ordered


def in_target_order(topic_ids: Collection[bytes], pace: Pace) -> Generator[int, object, list[bytes]]:
    """Sort the topics of a member's previous target, given in the order of its record."""
    buckets = buckets_grown_to(len(topic_ids))
    ordered = yield from sort(topic_ids, lambda topic_id: bucket(hash_of_id(topic_id), buckets), pace)
    return ordered


def in_set_order(partitions: frozenset[int], pace: Pace) -> Generator[int, object, list[int]]:
    """Sort partitions in the order of a set made from their list. At least one."""
    buckets = buckets_of_list(len(partitions))
    ordered = sorted(partitions)
    if ordered[-1] < min(buckets, 1 << 16):
        return ordered  # each partition has a bucket of its own
    held: dict[int, list[int]] = {}
    for chunk in chunks(ordered):
        for partition in chunk:
            held.setdefault(bucket(partition, buckets), []).append(partition)
        if pace.add(_CHUNK_US):
            yield pace.take()
    ordered.clear()
    for chunk in chunks(sorted(held)):
        ordered += [partition for number in chunk for partition in held.pop(number)]
        if pace.add(_CHUNK_US):
            yield pace.take()
    return ordered
