"""`range` (docs/spec/group-protocol.md#6.3): consecutive partitions, topic by topic; near ones first if racks
matter."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice

from membership.assignors.model import (
    NO_RACKS,
    Assignment,
    Racks,
    Subscriber,
    in_member_order,
    nothing,
    places_by_topic,
)
from membership.assignors.racks import are_racks_worth_it, racks_of_members, racks_of_partitions
from membership.topic_partition import TopicPartition


def assign_range(
    partition_counts: Mapping[str, int], subscribers: Sequence[Subscriber], racks: Racks = NO_RACKS, /
) -> Assignment:
    """Assign consecutive partitions of each topic in member order; the first `partitions mod members` members get one
    more. If racks matter, members get near partitions first, and topics with the same members and size keep equal
    numbers together.
    """
    assignment = nothing(subscribers)
    members = in_member_order(subscribers)
    places = places_by_topic(partition_counts, members)
    topics = [_Topic(name, partition_counts[name], [members[place].member_id for place in places[name]], assignment)
              for name in places]  # fmt: skip
    _deal_near(topics, racks_of_members(members), racks)
    for topic in topics:
        topic.deal()
    for partitions in assignment.values():
        partitions.sort()
    return assignment


class _Topic:
    """Unassigned partitions of one topic, and the number that each member may still get."""

    __slots__ = ("name", "count", "members", "_assignment", "_share", "_extra", "_given", "_taken")

    def __init__(self, name: str, count: int, members: list[str], assignment: Assignment) -> None:
        self.name = name
        self.count = count
        self.members = members
        self._assignment = assignment
        self._share, self._extra = divmod(count, len(members))
        self._given = dict.fromkeys(members, 0)
        self._taken = [False] * count

    def room(self, member_id: str) -> int:
        """Return the number that the member may still get. It only decreases: once enough members have one more, the
        others get the smaller share."""
        return max(0, self._share + (self._extra > 0) - self._given[member_id])

    def give(self, member_id: str, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._taken[number] = True
        self._assignment[member_id].extend(TopicPartition(self.name, number) for number in numbers)
        self._given[member_id] += len(numbers)
        if numbers and self._given[member_id] > self._share:
            self._extra -= 1

    def deal(self) -> None:
        """Give the remaining partitions to members with room, in member order."""
        left = iter(range(self.count))
        for member_id in self.members:
            self.give(member_id, self._next(left, self.room(member_id)))

    def deal_near(self, member_racks: Mapping[str, str], racks: Sequence[AbstractSet[str]]) -> None:
        """Give each member, in order, as many near partitions as it has room for."""
        near = {rack: _numbers_on(rack, racks) for rack in dict.fromkeys(map(member_racks.get, self.members))}
        for member_id in self.members:
            self.give(member_id, self._next(near[member_racks.get(member_id)], self.room(member_id)))

    def _next(self, numbers: Iterator[int], limit: int) -> list[int]:
        return list(islice((number for number in numbers if not self._taken[number]), limit))


def _deal_near(topics: list[_Topic], member_racks: Mapping[str, str], racks: Racks) -> None:
    if not member_racks:
        return
    alike: dict[tuple[int, tuple[str, ...]], list[tuple[_Topic, list[frozenset[str]]]]] = {}
    worth = {}
    for topic in topics:
        lie = racks_of_partitions(racks, topic.name, topic.count)
        named = frozenset(member_racks[one] for one in topic.members if one in member_racks)
        worth[topic.name] = are_racks_worth_it(named, lie)
        if named:
            alike.setdefault((topic.count, tuple(topic.members)), []).append((topic, lie))
    if not any(worth.values()):
        return
    for ones in alike.values():
        if len(ones) > 1:
            _deal_near_together([topic for topic, _ in ones], member_racks, [lie for _, lie in ones])
        elif worth[ones[0][0].name]:
            ones[0][0].deal_near(member_racks, ones[0][1])


def _deal_near_together(
    topics: list[_Topic], member_racks: Mapping[str, str], racks: list[list[frozenset[str]]]
) -> None:
    """Give each number of all topics to the first member with room that is near all of them. Members have the same room
    in all topics."""
    first = topics[0]
    waiting: dict[str | None, list[int]] = {}
    for place in reversed(range(len(first.members))):
        waiting.setdefault(member_racks.get(first.members[place]), []).append(place)
    for number in range(first.count):
        common = frozenset.intersection(*(lie[number] for lie in racks))
        found = _first_with_room(first, [waiting[rack] for rack in waiting if rack is None or rack in common])
        if found is not None:
            for topic in topics:
                topic.give(first.members[found], [number])


def _first_with_room(topic: _Topic, queues: list[list[int]]) -> int | None:
    """Return the first member with room. Queues have their first members at the end; full members are dropped, since
    they stay full."""
    for queue in queues:
        while queue and not topic.room(topic.members[queue[-1]]):
            queue.pop()
    return min((queue[-1] for queue in queues if queue), default=None)


def _numbers_on(rack: str | None, racks: Sequence[AbstractSet[str]]) -> Iterator[int]:
    return (number for number, ones in enumerate(racks) if rack is None or rack in ones)
