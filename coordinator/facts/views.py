"""Views of groups and of the node: made when they are asked for, and frozen, so that no answer is torn."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from coordinator import __version__
from coordinator.core.core import Core
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.groups.consumer.state import ConsumerGroup, ConsumerMember
from coordinator.groups.consumer.target import preferred_assignor
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.shard import ShardState
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribedGroup, DescribedMember, ListedGroup
from protocol.messages.node import DescribeNodeReply, FailedShard

GROUP_OPERATIONS = 3400
"""Operations on a group that are allowed to all clients without an authorizer, as Kafka's bit field: read, delete,
describe, describe and alter configs."""


def describe_group(group_id: str, group: Group | None, shard: int, absent_is_error: bool) -> DescribedGroup:
    """Describe a group as DescribeGroups shows it (docs/spec/group-protocol.md#2.8); an absent one is Dead."""
    if group is not None and group.balanced is not None and group.kind is GroupKind.CLIENT_BALANCED:
        return _describe_balanced(group.balanced, group.classic, shard)
    if group is not None and (consumer := group.serving_consumer) is not None:
        return _describe_consumer(consumer, shard)
    if group is None or group.classic.state is GroupState.DEAD:
        error = ErrorCode.GROUP_ID_NOT_FOUND if absent_is_error else ErrorCode.NONE
        message = f"Group {group_id} not found." if absent_is_error else None
        return DescribedGroup(group_id, error_code=error, error_message=message, group_state="Dead")
    described = _describe_classic(group.classic, shard)
    if group.balanced is not None:
        since_ms = max(described.state_since_ms, group.balanced.on_record.state_timestamp_ms)
        described = replace(described, state_since_ms=since_ms)
    return described


def _describe_classic(group: ClassicGroup, shard: int) -> DescribedGroup:
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.title,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=tuple(_describe_member(group, member, stable) for member in group.members.values()),
        generation_id=group.generation_id,
        leader=group.leader or "",
        rebalance_timeout_ms=group.rebalance_timeout_ms,
        state_since_ms=group.state_since_ms,
        pending_members=len(group.pending),
        shard=shard,
    )


def _describe_member(group: ClassicGroup, member: Member, stable: bool) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata_for(group.protocol_name) if stable else b"",
        member_assignment=member.assignment,
    )


def _describe_balanced(group: BalancedGroup, classic: ClassicGroup, shard: int) -> DescribedGroup:
    # To tools it is Stable, and of a type of its own.
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.title,
        protocol_type=_type_of(group),
        members=tuple(
            DescribedMember(one.consumer_id, one.instance_id, one.client_id, one.client_host)
            for one in group.members.values()
        ),
        generation_id=classic.generation_id,
        state_since_ms=group.on_record.state_timestamp_ms,
        shard=shard,
    )


def _describe_consumer(group: ConsumerGroup, shard: int) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.title,
        protocol_type=PROTOCOL_TYPE,
        protocol_data=preferred_assignor(group),
        members=tuple([_describe_consumer_member(group, member) for member in group.members.values()]),
        generation_id=group.epoch,
        rebalance_timeout_ms=max([one.subscription.rebalance_timeout_ms for one in group.members.values()], default=0),
        state_since_ms=group.state_since_ms,
        shard=shard,
    )


def _describe_consumer_member(group: ConsumerGroup, member: ConsumerMember) -> DescribedMember:
    line = member.subscription
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=line.instance_id,
        client_id=line.client_id,
        client_host=line.client_host,
        member_metadata=encode_subscription(Subscription(group.subscribed_by(member))),
        member_assignment=encode_partitions(group, member.current.assigned),
    )


def encode_partitions(group: ConsumerGroup, assigned: Mapping[bytes, Iterable[int]]) -> bytes:
    """Encode partitions by topic id as classic members encode their assignment."""
    topics = [
        TopicPartitions(group.topics.name_of(topic_id) or topic_id.hex(), tuple(sorted(numbers)))
        for topic_id, numbers in assigned.items()
    ]
    return encode_assignment(Assignment(tuple(topics)))


def _type_of(group: BalancedGroup) -> str:
    return f"{group.on_record.mode}-balanced"


def list_group(group: Group) -> ListedGroup:
    """Describe a group as a line of ListGroups (docs/spec/group-protocol.md#2.9)."""
    if group.balanced is not None and group.kind is GroupKind.CLIENT_BALANCED:
        shown = _type_of(group.balanced)
        return ListedGroup(group.group_id, shown, group.balanced.state.title, shown)
    if (consumer := group.serving_consumer) is not None:
        return ListedGroup(group.group_id, PROTOCOL_TYPE, consumer.state.title, GroupKind.CONSUMER.value)
    return ListedGroup(group.group_id, group.classic.protocol_type or "", group.classic.state.title)


def describe_node(core: Core) -> DescribeNodeReply:
    """Describe the node's health in numbers."""
    shards = [shard for shard in core.shards if core.placement.is_mine(shard.index)]
    states = Counter({state.title: 0 for state in GroupState})
    for shard in shards:
        states.update(shard.counts.states)
    counts = [shard.counts for shard in shards]
    balanced_members = sum([one.balanced_members for one in counts])
    load = core.loads.progress()
    gauges = {
        "groups": core.count_groups(),
        "members": sum([one.members for one in counts]) + balanced_members,
        "client_balanced_groups": sum([one.balanced_groups for one in counts]),
        "client_balanced_members": balanced_members,
        "pending_ids": sum([one.pending_ids for one in counts]),
        "committed_offsets": sum([shard.offsets.count for shard in shards]),
        "connections": len(core.connections),
        "watched_operations": len(core.purgatory),
        "held_replies": core.outbox.held_replies,
        "topics": core.topics.topic_count,
        "notes": len(core.journal),
        "unflushed_bytes": max(core.store.position - core.store.flushed, 0),
        "wal_position_bytes": core.store.position,
        "damaged_logs": len(core.store.damaged),
        "disk_full": int(core.store.disk_full),
        "failed_shards": sum(shard.state is ShardState.FAILED for shard in shards),
        "unowned_shards": core.placement.unowned_shards,
        "loaded_records": load.records,
        "load_bytes": load.bytes_done,
        "load_bytes_wanted": load.bytes_total,
        "load_ms": load.elapsed_ms,
        "load_left_ms": load.left_ms,
        "load_snapshots": load.from_snapshots,
    }
    return DescribeNodeReply(
        node_id=core.placement.node_id,
        cluster_id=core.cluster_id,
        version=__version__,
        started_wall_ms=core.started.wall_ms,
        shards_total=len(shards),
        shards_loaded=sum(shard.state is ShardState.ACTIVE for shard in shards),
        addresses={kind: f"{host}:{port}" for kind, (host, port) in core.placement.addresses.items()},
        group_states=dict(states),
        rebalances_by_cause=dict(core.journal.rebalances),
        counters=core.counters
        | {
            "offsets_expired": core.expiry.offsets_expired,
            "groups_expired": core.expiry.groups_expired,
            "end_samples_refused": core.end_sampling.refused,
        },
        gauges=core.gauges | gauges,
        waiting=dict(core.purgatory.by_kind),
        loading=load,
        log_problems=core.log_problems,
        failed_shards=tuple(FailedShard(shard.index, shard.failure) for shard in shards if shard.failure),
    )
