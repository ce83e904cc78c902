"""`uniform` for members that all subscribe alike (docs/spec/consumer-group-protocol.md#5.2).

Sizes differ by at most one, and members keep their partitions as far as possible.
"""

from collections.abc import Generator, Mapping, Sequence

from membership.pace import Pace, chunks
from membership.server_assignors.orders import in_member_order, in_set_order, in_target_order, in_topic_order
from membership.server_assignors.spec import Computation, SubscribedMember, SubscribedTopic, Targets

_MEMBER_US, _TOPIC_US, _PARTITION_US = 4.0, 1.5, 0.15

Free = list[tuple[bytes, int]]


def assign_homogeneous(members: Sequence[SubscribedMember], topics: Mapping[bytes, SubscribedTopic]) -> Computation:
    """Assign evenly. Every member subscribes to the topics of the first."""
    pace = Pace()
    ordered = yield from in_member_order(members, pace)
    targets: Targets = {member.member_id: {} for member in ordered}
    common = yield from in_topic_order(members[0].topics if members else (), topics, pace)
    counts: dict[bytes, int] = {}
    for chunk in chunks(common):
        counts.update((topic_id, topics[topic_id].partitions) for topic_id in chunk)
        if pace.add(_TOPIC_US * len(chunk)):
            yield pace.take()
    free = yield from _unowned(ordered, counts, pace)
    unfilled = yield from _keep(ordered, counts, free, targets, pace)
    at = 0
    for member_id, quota in unfilled:
        yield from _give(targets[member_id], free[at : at + quota], pace)
        at += quota
        if pace.add(_MEMBER_US):
            yield pace.take()
    return targets


def _unowned(
    ordered: Sequence[SubscribedMember], counts: Mapping[bytes, int], pace: Pace
) -> Generator[int, object, Free]:
    """List the partitions that are in no previous target, in topic order."""
    owned = dict[bytes, bytearray]()
    for member in ordered:
        for topic_id, partitions in member.target.items():
            count = counts.get(topic_id, 0)
            if topic_id not in owned:
                owned[topic_id] = bytearray(count)
            flags = owned[topic_id]
            for partition in partitions:
                if partition < count:
                    flags[partition] = True
            if pace.add(_TOPIC_US + _PARTITION_US * len(partitions)):
                yield pace.take()
    free: Free = []
    for topic_id, count in counts.items():
        flags = owned.get(topic_id) or bytearray(count)
        for chunk in chunks(range(count)):
            free += [(topic_id, partition) for partition in chunk if not flags[partition]]
            if pace.add(_TOPIC_US + _PARTITION_US * len(chunk)):
                yield pace.take()
    return free


def _keep(
    ordered: Sequence[SubscribedMember], counts: Mapping[bytes, int], free: Free, targets: Targets, pace: Pace
) -> Generator[int, object, list[tuple[str, int]]]:
    """Let members keep partitions up to their quotas, and add the rest to the free list. Return the members with room,
    and the size of it."""
    least, extra = divmod(sum(counts.values()), max(len(ordered), 1))
    unfilled = []
    for place, member in enumerate(ordered):
        may_have_extra = extra > 0
        quota, target = least + may_have_extra, targets[member.member_id]
        order = yield from in_target_order(member.target, pace)
        for topic_id in order:
            if topic_id not in counts:
                continue
            partitions = _existing(member.target[topic_id], counts[topic_id])
            if len(partitions) > quota:
                numbers = yield from in_set_order(partitions, pace)
                yield from _add(free, topic_id, numbers[quota:], pace)
                partitions = frozenset(numbers[:quota])
            if partitions:
                target[topic_id] = partitions
                quota -= len(partitions)
            if pace.add(_TOPIC_US + _PARTITION_US * len(partitions)):
                yield pace.take()
        if quota and may_have_extra and len(ordered) - place > extra:
            # A later member may use the extra partition without a move, but this one could not.
            quota, may_have_extra = quota - 1, False
        if quota:
            unfilled.append((member.member_id, quota))
        extra -= may_have_extra
        if pace.add(_MEMBER_US):
            yield pace.take()
    return unfilled


def _existing(partitions: frozenset[int], count: int) -> frozenset[int]:
    if not partitions or max(partitions) < count:
        return partitions
    return frozenset(partition for partition in partitions if partition < count)


def _add(free: Free, topic_id: bytes, partitions: Sequence[int], pace: Pace) -> Generator[int, object, None]:
    for chunk in chunks(partitions):
        free += [(topic_id, partition) for partition in chunk]
        if pace.add(_PARTITION_US * len(chunk)):
            yield pace.take()


def _give(target: dict[bytes, frozenset[int]], partitions: Free, pace: Pace) -> Generator[int, object, None]:
    """Add the partitions to the target."""
    by_topic: dict[bytes, list[int]] = {}
    for chunk in chunks(partitions):
        for topic_id, partition in chunk:
            by_topic.setdefault(topic_id, []).append(partition)
        if pace.add(_PARTITION_US * len(chunk)):
            yield pace.take()
    for topic_id, numbers in by_topic.items():
        target[topic_id] = target.get(topic_id, frozenset()).union(numbers)
        if pace.add(_TOPIC_US + _PARTITION_US * len(numbers)):
            yield pace.take()
