"""`range` (docs/spec/consumer-group-protocol.md#5.4): consecutive partitions of each topic, in member order. Previous
targets are ignored."""

from collections.abc import Mapping, Sequence

from membership.pace import Pace, sort
from membership.server_assignors.spec import Computation, SubscribedMember, SubscribedTopic, Targets
from membership.server_assignors.subscribers import subscribers

_TOPIC_US, _PARTITION_US = 1.0, 0.05


def assign_range(
    members: Sequence[SubscribedMember], topics: Mapping[bytes, SubscribedTopic], is_homogeneous: bool, /
) -> Computation:
    """Assign consecutive partitions; the first `partitions mod subscribers` members get one more."""
    pace = Pace()
    ordered = yield from sort(members, _place, pace)
    targets: Targets = {member.member_id: {} for member in ordered}
    of_topic = yield from subscribers(ordered, pace)
    for topic_id, numbers in of_topic.items():
        count = topics[topic_id].partitions
        share, extra = divmod(count, len(numbers))
        first = 0
        for place in range(min(len(numbers), count)):
            end = first + share + (place < extra)
            targets[ordered[numbers[place]].member_id][topic_id] = frozenset(range(first, end))
            if pace.add(_TOPIC_US + _PARTITION_US * (end - first)):
                yield pace.take()
            first = end
    return targets


def _place(member: SubscribedMember) -> tuple[bool, bytes]:
    """Sort members with an instance id first, by it; then the others, by member id."""
    instance_id = member.instance_id
    text = member.member_id if instance_id is None else instance_id
    return instance_id is None, text.encode("utf-16-be", "surrogatepass")
