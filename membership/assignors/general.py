"""Sticky assignment to members that read different topics (docs/spec/group-protocol.md#6.5)."""

from collections.abc import Iterable, Mapping, Sequence

from membership.assignors.model import Assignment
from membership.assignors.racks import Nearness
from membership.topic_partition import TopicPartition


def share_generally(
    partition_counts: Mapping[str, int],
    nearness: Nearness,
    topics_of: Mapping[str, Sequence[str]],
    earlier: Mapping[TopicPartition, str],
    held: Mapping[str, Sequence[TopicPartition]],
    must_revoke: bool,
) -> Assignment:
    """Keep held partitions, give the others to the members with the fewest, then move single partitions to members with
    at least two fewer until none can move. `topics_of`: each member, in order, with its subscribed topics that have
    partitions. Each move lowers the sum of the differences between all pairs of members, so the loop ends.
    """
    balance = _Balance(topics_of, earlier, nearness)
    for member_id, partitions in held.items():
        for one in partitions:
            balance.keep(one, member_id)
    every = [
        TopicPartition(topic, number)
        for topic in sorted(balance.eligible, key=lambda topic: (len(balance.eligible[topic]), topic))
        for number in range(partition_counts[topic])
    ]
    free = [one for one in every if one not in balance.holder]
    balance.place(free)
    if not must_revoke:
        balance.even_out(free)  # new partitions move first, so that fewer held ones must
    balance.even_out(every)
    return balance.shares()


def balance_score(sizes: Iterable[int]) -> int:
    """Return the sum of the differences between all pairs; 0 is perfect."""
    ordered = sorted(sizes)
    return sum(size * (2 * place - len(ordered) + 1) for place, size in enumerate(ordered))


class _Balance:
    """Partitions of each member. Members are represented by their indexes in the order of ids, so that the first among
    equals has the smallest index.
    """

    __slots__ = (
        "eligible", "holder", "_members", "_place_of", "_sizes", "_earlier", "_nearness", "_home", "_away", "_least",
    )  # fmt: skip

    def __init__(
        self, topics_of: Mapping[str, Sequence[str]], earlier: Mapping[TopicPartition, str], nearness: Nearness
    ) -> None:
        self._members = tuple(topics_of)
        self._sizes = [0] * len(self._members)
        self.eligible: dict[str, list[int]] = {}
        for place, topics in enumerate(topics_of.values()):
            for topic in topics:
                self.eligible.setdefault(topic, []).append(place)
        self._place_of = {member_id: place for place, member_id in enumerate(self._members)}
        self._earlier = {
            one: self._place_of[member_id] for one, member_id in earlier.items() if one.topic in topics_of[member_id]
        }
        self._nearness = nearness
        self.holder: dict[TopicPartition, int] = {}
        self._home: dict[TopicPartition, int] = {}  # the holder of a partition before any move
        self._away: dict[tuple[str, int, int], set[int]] = {}  # (topic, home, holder) -> numbers
        self._least: dict[str, int] = {}  # of topics checked since the last change

    def keep(self, one: TopicPartition, member_id: str) -> None:
        self._put(one, self._place_of[member_id])

    def place(self, free: Sequence[TopicPartition]) -> None:
        """Give each partition to the member with the fewest; near members first if racks matter."""
        left = []
        for one in free:
            near = self.eligible[one.topic]
            if self._nearness.matters:
                near = [place for place in near if self._nearness.is_near(self._members[place], one)]
            if near:
                self._put(one, min(near, key=self._sizes.__getitem__))
            else:
                left.append(one)
        for one in left:
            self._put(one, self._least_of(one.topic))

    def even_out(self, partitions: Sequence[TopicPartition]) -> None:
        """Move partitions until none can move to a member with at least two fewer."""
        movable = [one for one in partitions if len(self.eligible[one.topic]) > 1]
        moved = True
        while moved:
            moved = False
            for one in movable:
                place = self._better(one)
                if place is not None:
                    self._move(one, place)
                    moved = True

    def shares(self) -> Assignment:
        shares: Assignment = {member_id: [] for member_id in self._members}
        for one, place in self.holder.items():
            shares[self._members[place]].append(one)
        return shares

    def _better(self, one: TopicPartition) -> int | None:
        """Return the member that should get the partition from its holder: the member that had it before, else a near
        one, else the one with the fewest.
        """
        most = self._sizes[self.holder[one]] - 2
        least = self._least_of(one.topic)
        if self._sizes[least] > most:
            return None
        before = self._earlier.get(one)
        if before is not None and self._sizes[before] <= most:
            return before
        if self._nearness.shares_rack(self._members[self.holder[one]], one):
            near = [
                place for place in self.eligible[one.topic] if self._nearness.shares_rack(self._members[place], one)
            ]
            nearest = min(near, key=self._sizes.__getitem__)
            if self._sizes[nearest] <= most:
                return nearest
        return least

    def _least_of(self, topic: str) -> int:
        place = self._least.get(topic)
        if place is None:
            place = self._least[topic] = min(self.eligible[topic], key=self._sizes.__getitem__)
        return place

    def _move(self, one: TopicPartition, to: int) -> None:
        """Move the partition to `to`, or instead another partition of the topic that `to` held before."""
        if back := self._away.get((one.topic, to, self.holder[one])):
            one = TopicPartition(one.topic, min(back))
        self._put(one, to)

    def _put(self, one: TopicPartition, place: int) -> None:
        topic, number = one
        source = self.holder.get(one)
        home = self._home.setdefault(one, place)
        if source is not None:
            self._sizes[source] -= 1
            if source != home:
                self._away[topic, home, source].discard(number)
        if place != home:
            self._away.setdefault((topic, home, place), set()).add(number)
        self.holder[one] = place
        self._sizes[place] += 1
        self._least.clear()
