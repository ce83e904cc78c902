"""Counts of a shard's groups by state, and of their members. They are kept as groups change, so that a health check of
a node with a hundred thousand groups reads none of them."""

from collections import Counter
from typing import NamedTuple

from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.tallies import GroupTallies
from coordinator.runtime.group import Group


class Counted(NamedTuple):
    """State of a group when it was last counted."""

    state: str
    members: int = 0
    pending_ids: int = 0
    balanced_members: int = 0
    metadata_bytes: int = 0


_EMPTY = Counted(GroupState.EMPTY.title)
"""The counted state of simple groups, shared by all of them: most groups of a node may be simple consumers'."""


class GroupCounts:
    """Sums over the groups of a shard; `count` must be called after each change of a group."""

    def __init__(self, tallies: GroupTallies) -> None:
        """Begin with no groups counted. `tallies`: those of the node, by group."""
        self.tallies = tallies
        self.states: Counter[str] = Counter()
        self.members = self.pending_ids = self.balanced_groups = self.balanced_members = 0
        self.metadata_bytes = 0
        """Size of the metadata of all members' offers."""

    def count(self, group: Group) -> None:
        """Count the group of the shard as it is now."""
        known, classic = group.counted, group.classic
        if (
            known is not None
            and known.members == len(classic.members)
            and known.state == classic.state.title
            and known.metadata_bytes == classic.metadata_bytes
            and known.pending_ids == len(classic.pending)
            and group.balanced is None
            and group.consumer is None
        ):
            return  # most events of a rebalance change none of these counts
        now = _line(group)
        if now != group.counted:
            self._add(group.counted, -1)
            self._add(now, 1)
            group.counted = _EMPTY if now == _EMPTY else now

    def drop(self, group: Group) -> None:
        """Stop counting the group: it has left the shard."""
        self._add(group.counted, -1)
        group.counted = None

    def _add(self, counted: Counted | None, by: int) -> None:
        if counted is None:
            return
        self.states[counted.state] += by
        self.members += by * counted.members
        self.pending_ids += by * counted.pending_ids
        self.balanced_members += by * counted.balanced_members
        self.balanced_groups += by * (counted.balanced_members > 0)
        self.metadata_bytes += by * counted.metadata_bytes


def _line(group: Group) -> Counted:
    classic, balanced = group.classic, group.balanced
    if group.consumer is not None:
        consumer = group.consumer
        metadata_bytes = classic.metadata_bytes + consumer.metadata_bytes
        return Counted(consumer.state.title, len(consumer.members), 0, 0, metadata_bytes)
    members, pending = len(classic.members), len(classic.pending)
    if balanced is None:
        return Counted(classic.state.title, members, pending, 0, classic.metadata_bytes)
    metadata_bytes = classic.metadata_bytes + balanced.metadata_bytes
    state = balanced.state.title if balanced.members else classic.state.title
    return Counted(state, members, pending, len(balanced.members), metadata_bytes)
