"""Checks that replaying the log gives the live durable state."""

from typing import Any

from coordinator.clock import Moment
from coordinator.groups.classic.group_states import GroupSettings, GroupState
from coordinator.node.node import AnyNode
from coordinator.runtime.group import Group
from coordinator.runtime.journal import Journal
from coordinator.runtime.loader import load
from coordinator.runtime.outbox import Outbox
from coordinator.runtime.shard import Shard, ShardState, ShardTools
from partition_log.store.log_store import LogStore
from purgatory.purgatory import DelayedOperationPurgatory
from tests.groups.checks import balanced, consumers, members, pending, recorded


def compare_with_replay(node: AnyNode) -> int:
    """Load each shard of the node a second time, from its log as it stands, and compare records and offsets. Return the
    number of records."""
    core, records = node.core, 0
    nowhere: Any = _Nowhere()
    for live in core.shards:
        if live.state is not ShardState.ACTIVE:
            continue
        tools = ShardTools(
            purgatory=DelayedOperationPurgatory(0),
            journal=Journal(1),
            notes_log=nowhere,
            outbox=Outbox(0),
            ids=_NoIds(),
            settings=GroupSettings(),
            max_batch_bytes=1 << 24,
            directory={},
        )
        replayed = Shard(live.index, live.log, tools)
        for _ in load(replayed, Moment(0, 0)):
            pass
        assert replayed.state is ShardState.ACTIVE, replayed.failure
        assert _hard(replayed.groups) == _hard(live.groups), f"shard {live.index}: replay differs from the live groups"
        assert balanced(replayed) == balanced(live), f"shard {live.index}: other client-balanced groups are on record"
        assert consumers(replayed) == consumers(live), f"shard {live.index}: other consumer groups are on record"
        for group_id, group in live.groups.items():
            if group.classic.state is GroupState.STABLE:
                again = members(replayed.groups[group_id].classic)
                assert again == members(group.classic), f"{group_id}: other members are on record"
        for group_id in live.offsets.groups():
            assert recorded(replayed, group_id) == recorded(live, group_id), f"{group_id}: offsets differ"
        for group_id in [*live.groups, *replayed.groups]:
            assert pending(replayed, group_id) == pending(live, group_id), f"{group_id}: pending offsets differ"
        assert replayed.offsets.count == live.offsets.count
        records += replayed.loaded_records
    _close_files(core.store)
    return records


def _close_files(store: LogStore) -> None:
    """Close the files of the store: the simulated system drops the page cache only of files that are not open."""
    files = store._files
    while files._handles:
        files._close_oldest()


def _hard(groups: dict[str, Group]) -> dict[str, object]:
    # A group without a record is there for its offsets alone, which are compared by themselves.
    return {group_id: stored for group_id, group in groups.items() if (stored := group.classic.stored) is not None}


class _Nowhere:
    """A log for the notes of loaded groups, which are dropped."""

    def append(self, batch: bytes) -> None:
        """Drop the batch."""


class _NoIds:
    def member_id(self, prefix: str) -> str:
        raise AssertionError("loading hands out no ids")
