"""Answer DescribeBalanced: the ownership table at one instant, beside the members' reports and their lag
(docs/spec/client-balanced-groups.md#13, #14)."""

from itertools import chain

from coordinator.clock import Moment
from coordinator.core.admission import admit
from coordinator.core.core import Core
from coordinator.groups.client_balanced.events import PartitionOffsets
from coordinator.groups.client_balanced.reporting import mismatches
from coordinator.groups.client_balanced.state import BalancedGroup, BalancedGroupMember
from coordinator.handlers.client_balanced import refreshed
from coordinator.handlers.client_balanced_topics import place_of
from coordinator.records.records import Ownership
from coordinator.runtime.group import GroupKind
from coordinator.runtime.outbox import Awaited
from coordinator.runtime.shard import Shard, ShardState
from protocol.errors import ErrorCode
from protocol.messages.balanced import (
    BalancedGroupView,
    BalancedMemberView,
    BalancedPartition,
    DescribeBalanced,
    DescribeBalancedReply,
    PartitionState,
)
from protocol.session import RequestRef


def describe_balanced(core: Core, ref: RequestRef, message: DescribeBalanced, moment: Moment) -> None:
    """Describe members, grants and lag, of unowned partitions too; waits for the last record of each group."""
    wanted = message.groups
    if wanted is None:
        here = [shard for shard in core.shards if shard.state is not ShardState.UNLOADED]
        wanted = tuple(sorted(chain(*[shard.of_kind[GroupKind.CLIENT_BALANCED] for shard in here])))
    views, awaited = [], Awaited()
    listed, most = 0, core.config.max_entries_per_request
    for group_id in wanted:
        refused = admit(core, group_id, may_be_empty=True)
        if not refused and listed >= most:
            refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED  # a client with many large groups asks again for the rest
        if refused:
            views.append(BalancedGroupView(group_id, refused))
            continue
        view = _view(core, group_id, moment, with_lag=message.with_lag)
        views.append(view)
        listed += 1 + len(view.members) + len(view.partitions)
        awaited.add_group(core.shard_of(group_id).outbox, group_id)
    awaited.hold(core.outbox, ref, DescribeBalancedReply(tuple(views)))


def _view(core: Core, group_id: str, moment: Moment, *, with_lag: bool) -> BalancedGroupView:
    shard, kept = core.find(group_id)
    if kept is None or kept.balanced is None:
        return BalancedGroupView(group_id, ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    group = refreshed(core, kept, moment)
    stored = group.on_record
    partitions = [_partition(core, shard, group, state, with_lag=with_lag) for state in group.meta.values()]
    return BalancedGroupView(
        group_id,
        state=group.state.title,
        topics=stored.topics,
        filters=dict(stored.filters),
        source_count=stored.source_count,
        meta_version=stored.meta_version,
        members=tuple([_member(group, member, moment) for member in group.members.values()]),
        partitions=tuple(partitions) if group.members else (),
        mode=stored.mode,
    )


def _member(group: BalancedGroup, member: BalancedGroupMember, moment: Moment) -> BalancedMemberView:
    return BalancedMemberView(
        consumer_id=member.consumer_id,
        instance_id=member.instance_id,
        host=member.client_host,
        node_id=member.node_id,
        source_count=group.on_record.source_count,
        member_epoch=member.epoch,
        session_timeout_ms=member.session_timeout_ms,
        last_heartbeat_ms_ago=max(moment.monotonic_ms - member.heard_ms, 0),
        keys=tuple([group.key_of(entry) for entry in group.owners.of(member.consumer_id)]),
        reported=member.reported,
        claimed_mismatch=tuple([one.key for one in mismatches(group, member.consumer_id, member.reported or ())]),
    )


def _partition(
    core: Core, shard: Shard, group: BalancedGroup, state: PartitionState, *, with_lag: bool
) -> BalancedPartition:
    key = group.place_of(state.key)
    assert key is not None
    entry, owner = group.owners.get(key), group.owner(key)
    place = place_of(core, shard, group.group_id, *key) if with_lag else None
    committed = shard.offsets.get(group.group_id, *key)
    return BalancedPartition(
        key=state.key,
        subscribable=state.subscribable,
        reason=state.reason,
        owner=None if owner is None else owner.consumer_id,
        node_id=None if owner is None else owner.node_id,
        reg_epoch=group.owners.epoch(key) or -1,
        since_ms=-1 if entry is None or entry.owner is None else entry.owner.since_ms,
        committed=-1 if committed is None else committed.offset,
        in_flight=_in_flight(group, entry, -1 if committed is None else committed.offset),
        end=-1 if place is None else place.end,
        lag=_lag(place),
    )


def _in_flight(group: BalancedGroup, entry: Ownership | None, committed: int) -> int:
    """Return the end of the batch that was sent and not confirmed; -1 if there is none."""
    in_flight = None if entry is None else group.reading(entry, committed).in_flight
    return -1 if in_flight is None else in_flight


def _lag(place: PartitionOffsets | None) -> int | None:
    """Return the lag; counted from the log's start where nothing is committed."""
    if place is None:
        return None
    return max(0, place.end - (place.begin if place.committed < 0 else place.committed))
