"""Sticky assignment to members that all read the same topics (docs/spec/group-protocol.md#6.5)."""

from collections import deque
from collections.abc import Mapping, Sequence

from membership.assignors.model import Assignment
from membership.assignors.racks import Nearness
from membership.topic_partition import TopicPartition


def share_equally(
    partition_counts: Mapping[str, int],
    nearness: Nearness,
    held: Mapping[str, Sequence[TopicPartition]],
    must_revoke: bool,  # without effect, since all members subscribe alike
) -> Assignment:
    """Give each member the floor or the ceiling of the mean; a member keeps held partitions up to that. `held` has
    every member, in order.
    """
    sharing = _Sharing(sum(partition_counts.values()), tuple(held))
    for member_id, partitions in held.items():
        sharing.keep(member_id, partitions)
    kept = {one for partitions in sharing.shares.values() for one in partitions}
    every = (TopicPartition(topic, number) for topic in sorted(partition_counts)
             for number in range(partition_counts[topic]))  # fmt: skip
    left = [one for one in every if one not in kept]
    if nearness.matters:
        left = sharing.deal_near(nearness.scarcest_first(left), nearness)
    sharing.deal(left)
    return sharing.shares


class _Sharing:
    """Quotas, and the members that have not reached them: a member is below the lower quota, at the lower quota and may
    get one more, or done.
    """

    __slots__ = ("shares", "_lower", "_upper", "_extra", "_below", "_at_lower")

    def __init__(self, total: int, members: Sequence[str]) -> None:
        self.shares: Assignment = {member_id: [] for member_id in members}
        self._lower, self._extra = divmod(total, len(members))
        self._upper = self._lower + (self._extra > 0)
        self._below: list[str] = []
        self._at_lower: list[str] = []

    def keep(self, member_id: str, partitions: Sequence[TopicPartition]) -> None:
        """Keep held partitions, lowest numbers first; early members may reach the upper quota."""
        held = sorted(partitions, key=lambda one: (one.partition, one.topic))
        if len(held) < self._lower:
            self._below.append(member_id)
        elif len(held) >= self._upper and self._extra:
            del held[self._upper :]
            self._use_extra()
        else:
            del held[self._lower :]
            if self._extra:
                self._at_lower.append(member_id)
        self.shares[member_id] = held

    def deal_near(self, partitions: Sequence[TopicPartition], nearness: Nearness) -> list[TopicPartition]:
        """Deal in a circle over the members near each partition; return partitions without a near member below its
        quota."""
        left = []
        place = 0
        hopeless: set[frozenset[str]] = set()  # racks without a member below its quota; such members only get fewer
        for one in partitions:
            racks = nearness.racks_of(one)
            found = None if racks in hopeless else self._find_near(self._below, place, one, nearness)
            if found is not None:
                place = self._fill(found, one)
                continue
            hopeless.add(racks)
            found = self._find_near(self._at_lower, 0, one, nearness)
            if found is not None:
                self.shares[self._at_lower.pop(found)].append(one)
                self._use_extra()
            else:
                left.append(one)
        return left

    def deal(self, partitions: Sequence[TopicPartition]) -> None:
        """Deal in a circle over the members below the lower quota; then one to each at it."""
        below, at_lower = deque(self._below), deque(self._at_lower)
        for one in partitions:
            member_id = below.popleft() if below else at_lower.popleft()
            share = self.shares[member_id]
            share.append(one)
            if len(share) < self._lower:
                below.append(member_id)
            elif len(share) == self._lower:
                at_lower.append(member_id)

    def _fill(self, place: int, one: TopicPartition) -> int:
        """Give the partition to the member below its quota at `place`, and return the next place."""
        member_id = self._below[place]
        self.shares[member_id].append(one)
        if len(self.shares[member_id]) < self._lower:
            place += 1
        else:
            del self._below[place]
            if self._extra:
                self._at_lower.append(member_id)
        return place % len(self._below) if self._below else 0

    def _use_extra(self) -> None:
        self._extra -= 1
        if not self._extra:
            self._at_lower.clear()

    @staticmethod
    def _find_near(members: Sequence[str], start: int, one: TopicPartition, nearness: Nearness) -> int | None:
        for step in range(len(members)):
            place = (start + step) % len(members)
            if nearness.shares_rack(members[place], one):
                return place
        return None
