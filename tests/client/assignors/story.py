"""Short descriptions of groups, and sequences of rebalances."""

from collections.abc import Iterable, Mapping, Sequence

from membership.assignors import NO_RACKS, Assignment, Racks, Subscriber, by_name
from membership.topic_partition import TopicPartition


def parts(shown: str) -> tuple[TopicPartition, ...]:
    """`"t-0 t-3"` -> partitions."""
    return tuple(
        TopicPartition(topic, int(number)) for topic, number in (each.rsplit("-", 1) for each in shown.split())
    )


def shown(assignment: Mapping[str, Sequence[TopicPartition]]) -> dict[str, str]:
    return {name: " ".join(map(str, partitions)) for name, partitions in assignment.items()}


def member(name: str, topics: str = "t", owned: str = "", generation: int = -1, rack: str | None = None) -> Subscriber:
    """Return a member for both sticky assignors: its former partitions are in its user data and in its subscription."""
    return said("sticky", name, topics.split(), parts(owned), generation, rack)


def said(
    assignor: str, name: str, topics: Iterable[str], owned: Sequence[TopicPartition], generation: int, rack: str | None
) -> Subscriber:
    data = by_name(assignor).user_data(owned, generation)
    return Subscriber(name, tuple(topics), None, tuple(owned), generation, data, rack)


class Group:
    """Members that keep their assignments from rebalance to rebalance."""

    def __init__(self, assignor: str, counts: dict[str, int], racks: Racks = NO_RACKS) -> None:
        self.assignor = assignor
        self.counts = counts
        self.racks = racks
        self.generation = 0
        self.members: dict[str, tuple[tuple[str, ...], str | None]] = {}
        self.owned: dict[str, tuple[TopicPartition, ...]] = {}
        self.joined: dict[str, int] = {}

    def join(self, name: str, topics: Iterable[str], rack: str | None = None) -> None:
        self.members[name] = tuple(topics), rack
        self.owned.setdefault(name, ())

    def leave(self, name: str) -> None:
        del self.members[name], self.owned[name]
        self.joined.pop(name, None)

    def subscribers(self) -> list[Subscriber]:
        return [
            said(self.assignor, name, topics, self._kept(name), self.joined.get(name, -1), rack)
            for name, (topics, rack) in self.members.items()
        ]

    def _kept(self, name: str) -> tuple[TopicPartition, ...]:
        """Return the partitions without those of dropped topics, which are released before the join
        (docs/spec/consumer-client.md#A7)."""
        return tuple(one for one in self.owned[name] if one.topic in self.members[name][0])

    def rebalance(self) -> Assignment:
        assignment = by_name(self.assignor).assign(self.counts, self.subscribers(), self.racks)
        self.generation += 1
        self.owned = {name: tuple(assignment[name]) for name in self.members}
        self.joined = dict.fromkeys(self.members, self.generation)
        return assignment

    def every(self) -> list[TopicPartition]:
        """Return all partitions of subscribed topics."""
        wanted = {topic for topics, _ in self.members.values() for topic in topics}
        return sorted(TopicPartition(t, n) for t, count in self.counts.items() if t in wanted for n in range(count))
