"""Rebalances that begin in the processes of a world, counted where state changes and not where notes are written."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.consumer import applying
from coordinator.groups.consumer.state import NEW, ConsumerGroup
from coordinator.records.consumer_records import ConsumerGroupRecord
from tests.simulation.process import Process

AnyGroup = ClassicGroup | ConsumerGroup


@contextmanager
def counting_begun(process_of: Callable[[AnyGroup], Process]) -> Iterator[None]:
    """Count in `begun` of the group's process, for as long as this lasts."""
    become, move_on = ClassicGroup.become, applying._APPLY[ConsumerGroupRecord]

    def watched_become(group: ClassicGroup, state: GroupState, wall_ms: int) -> None:
        process = process_of(group)
        live = None if process.node is None else process.node.core.directory.get(group.group_id)
        if state is GroupState.PREPARING and (live is None or live.classic is group):  # not one of a replay
            process.begun += 1
        become(group, state, wall_ms)

    def watched_epoch(group: ConsumerGroup, record: ConsumerGroupRecord) -> None:
        process = process_of(group)
        if _is_live(process, group) and not _is_behind(group):
            process.begun += 1
        move_on(group, record)

    with (
        patch.object(ClassicGroup, "become", watched_become),
        patch.dict(applying._APPLY, {ConsumerGroupRecord: watched_epoch}),
    ):
        yield


def _is_live(process: Process, group: ConsumerGroup) -> bool:
    """Return true if the record is not one of a load or a replay."""
    if process.node is None:
        return False
    core = process.node.core
    live = core.directory.get(group.group_id)
    return live is not None and live.consumer is group and not core.shard_of(group.group_id).is_replaying


def _is_behind(group: ConsumerGroup) -> bool:
    """Return true if a rebalance is in progress already: the target epoch is behind the group epoch, and the group had
    members. A member that joins by this batch has no session yet, nor an assignment unless it replaces another; the
    last of those that leave by it has left."""
    members = group.members.values()
    had_members = not members or any(one.session is not None or one.current is not NEW for one in members)
    return had_members and group.epoch > group.target_epoch
