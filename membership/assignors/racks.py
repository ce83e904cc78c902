"""Nearness by racks: when racks are looked at, and whether a member is near a partition (KIP-881)."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from membership.assignors.model import Racks, Subscriber
from membership.topic_partition import TopicPartition

_NOWHERE: frozenset[str] = frozenset()


def are_racks_worth_it(member_racks: AbstractSet[str], partition_racks: Sequence[AbstractSet[str]]) -> bool:
    """Tell whether somebody is near a replica, and not all partitions lie on the same racks."""
    everywhere = _NOWHERE.union(*partition_racks)
    return not member_racks.isdisjoint(everywhere) and any(racks != everywhere for racks in partition_racks)


def racks_of_members(subscribers: Iterable[Subscriber]) -> dict[str, str]:
    """Member id -> rack, of those that name one."""
    return {one.member_id: one.rack_id for one in subscribers if one.rack_id}


def racks_of_partitions(racks: Racks, topic: str, count: int) -> list[frozenset[str]]:
    """Return the racks of each partition, by number; nowhere where nothing is known."""
    known = [frozenset(ones) for ones in racks.get(topic, ())[:count]]
    return known + [_NOWHERE] * (count - len(known))


class Nearness:
    """The racks of a whole group and its topics; if they are not worth it, everybody is near everything."""

    __slots__ = ("matters", "_members", "_partitions")

    def __init__(self, partition_counts: Mapping[str, int], subscribers: Iterable[Subscriber], racks: Racks) -> None:
        self._members = racks_of_members(subscribers)
        self._partitions = (
            {topic: racks_of_partitions(racks, topic, count) for topic, count in partition_counts.items()}
            if self._members
            else {}
        )
        everywhere = [each for ones in self._partitions.values() for each in ones]
        self.matters = are_racks_worth_it(frozenset(self._members.values()), everywhere)
        """True if racks are looked at at all."""

    def racks_of(self, one: TopicPartition) -> frozenset[str]:
        """Return the racks of the partition's replicas; nobody asks where racks do not matter."""
        return self._partitions[one.topic][one.partition]

    def is_near(self, member_id: str, one: TopicPartition) -> bool:
        """True also for a member that names no rack."""
        rack = self._members.get(member_id) if self.matters else None
        return rack is None or rack in self._partitions[one.topic][one.partition]

    def shares_rack(self, member_id: str, one: TopicPartition) -> bool:
        """Tell whether the member names a rack, and the partition has a replica there."""
        rack = self._members.get(member_id) if self.matters else None
        return rack is not None and rack in self._partitions[one.topic][one.partition]

    def scarcest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """By the number of members near each, so that those with few to choose from choose first."""
        if not self.matters:
            return partitions
        sizes: dict[str, int] = {}
        for rack in self._members.values():
            sizes[rack] = sizes.get(rack, 0) + 1
        return sorted(
            partitions, key=lambda one: sum(sizes.get(rack, 0) for rack in self._partitions[one.topic][one.partition])
        )
