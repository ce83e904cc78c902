"""`roundrobin` (docs/spec/group-protocol.md#6.4)."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from membership.assignors.model import (
    NO_RACKS,
    Assignment,
    Racks,
    Subscriber,
    in_member_order,
    nothing,
    places_by_topic,
)
from membership.topic_partition import TopicPartition


def assign_round_robin(
    partition_counts: Mapping[str, int], subscribers: Sequence[Subscriber], _racks: Racks = NO_RACKS, /
) -> Assignment:
    """Deal all partitions in order, in turn, skipping members that do not subscribe to the topic."""
    assignment = nothing(subscribers)
    members = in_member_order(subscribers)
    place = 0
    for topic, places in places_by_topic(partition_counts, members).items():
        at = bisect_left(places, place)
        for number in range(partition_counts[topic]):
            place = places[at % len(places)]
            assignment[members[place].member_id].append(TopicPartition(topic, number))
            at += 1
        place += 1
    return assignment
