"""Nearness of members and partitions by racks (KIP-881)."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from membership.assignors.model import Racks, Subscriber
from membership.topic_partition import TopicPartition

_NOWHERE: frozenset[str] = frozenset()


def are_racks_worth_it(member_racks: AbstractSet[str], partition_racks: Sequence[AbstractSet[str]]) -> bool:
    """Return true if racks matter: some member is near a replica, and not all partitions have the same racks."""
    everywhere = _NOWHERE.union(*partition_racks)
    return not member_racks.isdisjoint(everywhere) and any(racks != everywhere for racks in partition_racks)


def racks_of_members(subscribers: Iterable[Subscriber]) -> dict[str, str]:
    """Return the racks of members that have one."""
    return {one.member_id: one.rack_id for one in subscribers if one.rack_id}


def racks_of_partitions(racks: Racks, topic: str, count: int) -> list[frozenset[str]]:
    """Return the racks of each partition, by number; none if unknown."""
    known = [frozenset(ones) for ones in racks.get(topic, ())[:count]]
    return known + [_NOWHERE] * (count - len(known))


class Nearness:
    """Racks of a group and its topics; if they do not matter, every member is near every partition."""

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
        """True if racks matter to the assignment."""

    def racks_of(self, one: TopicPartition) -> frozenset[str]:
        """Return the racks of the partition's replicas; called only if racks matter."""
        return self._partitions[one.topic][one.partition]

    def is_near(self, member_id: str, one: TopicPartition) -> bool:
        """Return true if the member is near the partition, or has no rack."""
        rack = self._members.get(member_id) if self.matters else None
        return rack is None or rack in self._partitions[one.topic][one.partition]

    def shares_rack(self, member_id: str, one: TopicPartition) -> bool:
        """Return true if the member has a rack, and the partition a replica there."""
        rack = self._members.get(member_id) if self.matters else None
        return rack is not None and rack in self._partitions[one.topic][one.partition]

    def scarcest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions sorted by the number of near members, fewest first."""
        if not self.matters:
            return partitions
        sizes: dict[str, int] = {}
        for rack in self._members.values():
            sizes[rack] = sizes.get(rack, 0) + 1
        return sorted(
            partitions, key=lambda one: sum(sizes.get(rack, 0) for rack in self._partitions[one.topic][one.partition])
        )
