"""Invariants of groups and shards, for all rigs."""

from collections import Counter
from collections.abc import Generator
from typing import Any

from coordinator.core.core import Core
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.client_balanced.state import BalancedGroup, BalancedState
from coordinator.groups.consumer.state import ConsumerGroup
from coordinator.keys import BalancedLeaseKey, ConsumerSessionKey, LeaseKey, MemberKey, RevocationKey
from coordinator.records.consumer_records import ReconciliationState
from coordinator.records.records import BalancedMetadata, Ownership
from coordinator.runtime.expiry_rules import KeepReason, expires_ms, rule_of
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.group_counts import GroupCounts
from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.runtime.shard import Shard
from purgatory.purgatory import DelayedOperationPurgatory

_AT_REST = (GroupState.EMPTY, GroupState.STABLE, GroupState.DEAD)


class CountingIds:
    """Ids made of a prefix and a counter for it: `a-1`, `a-2`, `b-1`."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def member_id(self, prefix: str) -> str:
        self._given[prefix] = self._given.get(prefix, 0) + 1
        return f"{prefix}-{self._given[prefix]}"

    def topic_id(self) -> bytes:
        return self.member_id("topic").encode().rjust(16, b"-")

    def producer_id(self) -> int:
        return int(self.member_id("producer").removeprefix("producer-"))


def check_group(group: ClassicGroup, purgatory: DelayedOperationPurgatory[Any]) -> None:
    """Check the group's own invariants, and that nothing can be stuck: an unsettled group waits for something, and so
    does every member that is not itself being waited for."""
    group.check()
    if group.state not in _AT_REST:
        assert group.phase is not None and group.phase.key in purgatory, f"{group.group_id} waits for nothing"
    if group.state is GroupState.DEAD:
        return
    instances = [member.group_instance_id for member in group.members.values() if member.group_instance_id is not None]
    assert len(instances) == len(group.static_members), f"two members of {group.group_id} are of one instance"
    offered = Counter(protocol.name for member in group.members.values() for protocol in member.protocols)
    assert group.supported == offered, "what members offer is miscounted"
    for member in group.members.values():
        parked = not member.is_new and (member.join_ref is not None or member.sync_ref is not None)
        session = purgatory.get(MemberKey(group.group_id, member.member_id))
        assert parked or session is not None, f"{member.member_id} never expires"
        assert session is None or session.filed_deadline_ms <= member.deadline_ms, f"{member.member_id} expires late"
    for member_id in group.owners.members if group.owners is not None else ():
        leases = [kind(group.group_id, member_id) in purgatory for kind in (LeaseKey, BalancedLeaseKey)]
        lives = member_id in group.members or any(leases)
        assert lives, f"{member_id} is gone and owns for ever"
    for member_id in group.pending:
        assert MemberKey(group.group_id, member_id) in purgatory, f"pending {member_id} never expires"


def check_balanced(group: BalancedGroup, purgatory: DelayedOperationPurgatory[Any]) -> None:
    """Check the same of a client-balanced group: every member has a lease that expires."""
    group.check()
    if group.state is BalancedState.DEAD:
        return
    for member in group.members.values():
        lease = purgatory.get(BalancedLeaseKey(group.group_id, member.consumer_id))
        assert lease is not None, f"{member.consumer_id} never expires"
        assert lease.filed_deadline_ms <= member.deadline_ms, f"{member.consumer_id} expires late"


def check_kinds(group: Group, purgatory: DelayedOperationPurgatory[Any]) -> None:
    """Check the state of every kind, and that the group is of the kind of its members."""
    check_group(group.classic, purgatory)
    balanced = group.balanced
    if balanced is not None:
        check_balanced(balanced, purgatory)
        assert balanced.state is BalancedState.DEAD or group.classic.state is GroupState.EMPTY or not balanced.members
    if group.consumer is not None:
        check_consumer(group, purgatory)
        return
    is_balanced = balanced is not None and bool(balanced.members)
    is_dead = balanced is not None and balanced.state is BalancedState.DEAD
    assert is_dead or (group.kind is GroupKind.CLIENT_BALANCED) == is_balanced, f"{group.group_id} is {group.kind}"
    listed = [kind for kind, groups in group.shard.of_kind.items() if groups.get(group.group_id) is group]
    assert listed == ([] if group.kind is GroupKind.CLASSIC else [group.kind]), f"{group.group_id}: listed as {listed}"


def check_consumer(group: Group, purgatory: DelayedOperationPurgatory[Any]) -> None:
    """Check the server-driven state: every member expires, and one that has partitions to revoke is timed."""
    consumer = group.consumer
    assert consumer is not None and (group.kind is GroupKind.CONSUMER or consumer.is_dead)
    assert group.classic.stored is None and group.classic.state in (GroupState.EMPTY, GroupState.DEAD)
    consumer.check()
    if consumer.is_dead:
        return
    for member in consumer.members.values():
        session = purgatory.get(ConsumerSessionKey(group.group_id, member.member_id))
        assert session is not None, f"{member.member_id} never expires"
        assert session.filed_deadline_ms <= member.deadline_ms, f"{member.member_id} expires late"
        if member.current.state is ReconciliationState.UNREVOKED_PARTITIONS and not member.is_away:
            assert RevocationKey(group.group_id, member.member_id) in purgatory, f"{member.member_id} may never revoke"


def recorded(shard: Shard, group_id: str) -> dict[str, dict[int, OffsetAndMetadata]]:
    """Return the group's offsets as its log has them, by topic and partition."""
    topics = shard.offsets.topics(group_id)
    return {topic: {index: one.recorded() for index, one in partitions.items()} for topic, partitions in topics.items()}


def check_same(live: Shard, loaded: Shard) -> None:
    """Check the state that must survive a crash: groups with their records, the members in these, and offsets."""
    for group_id, group in live.groups.items():
        one = group.classic
        again = loaded.groups.get(group_id)
        if again is None:
            assert one.stored is None and not live.offsets.holds(group_id), f"{group_id} is not on record"
            assert not one.owners, f"{group_id}: its grants are not on record"
            continue
        other = again.classic
        assert group.kind is again.kind, f"{group_id}: kinds differ"
        assert grants(one) == grants(other), f"{group_id}: grants differ"
        assert one.stored == other.stored, f"{group_id}: {one.stored} lives, {other.stored} is on record"
        assert recorded(live, group_id) == recorded(loaded, group_id), f"{group_id}: offsets differ"
        assert pending(live, group_id) == pending(loaded, group_id), f"{group_id}: pending offsets differ"
        if one.state is GroupState.STABLE:
            assert members(one) == members(other), f"{group_id}: members differ"
    assert loaded.groups.keys() <= live.groups.keys()
    assert balanced(live) == balanced(loaded), "client-balanced groups differ"
    assert consumers(live) == consumers(loaded), "consumer groups differ"
    assert live.offsets.count == loaded.offsets.count


def consumers(shard: Shard) -> dict[str, Any]:
    """Return all that must survive a crash of server-driven groups, by group id."""
    found = {group_id: one.consumer for group_id, one in shard.groups.items()}
    return {group_id: consumer_state(one) for group_id, one in found.items() if one is not None}


def consumer_state(group: ConsumerGroup) -> Any:
    """Return all that must survive a crash of a server-driven group."""
    members = {one.member_id: (one.subscription, one.current) for one in group.members.values()}
    numbers = group.epoch, group.target_epoch, group.target_timestamp_ms, group.metadata_hash, group.state
    resolved = {regex: one.record for regex, one in group.resolved.items()}
    return numbers, members, group.static_members, group.targets, group.holders, resolved


def pending(shard: Shard, group_id: str) -> dict[Any, list[Any]]:
    """Return the group's pending transactional offsets as recorded, by partition, with producers in their order of
    precedence."""
    return {
        place: [(producer_id, None if kept is None else kept.recorded()) for producer_id, kept in producers.items()]
        for place, producers in shard.offsets.pending.of(group_id).items()
    }


def members(group: ClassicGroup) -> list[Any]:
    """Return the members of a Stable group as in its record."""
    return [
        (
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata_for(group.protocol_name),
            member.assignment,
        )
        for member in group.members.values()
    ]


def balanced(shard: Shard) -> dict[str, BalancedMetadata | None]:
    """Return the records of client-balanced groups."""
    return {group_id: group.stored for group_id, group in balanced_groups(shard).items()}


def balanced_groups(shard: Shard) -> dict[str, BalancedGroup]:
    """Return the states of groups that are, or were, client-balanced."""
    return {group_id: one.balanced for group_id, one in shard.groups.items() if one.balanced is not None}


def balanced_of(core: Core, group_id: str = "g") -> BalancedGroup:
    """Return the state of the client-balanced group."""
    balanced = core.directory[group_id].balanced
    assert balanced is not None
    return balanced


def grants(group: ClassicGroup) -> dict[tuple[str, int], Ownership]:
    """Return the grants of the ownership registry, by partition."""
    return {} if group.owners is None else {(one.topic, one.partition): one for one in group.owners.entries}


def returned(pieces: Generator[Any, Any, Any]) -> Any:
    """Run the generator to its end, and return its value."""
    try:
        while True:
            next(pieces)
    except StopIteration as done:
        return done.value


def check_expirations(shard: Shard, visited: str | None = None) -> None:
    """No group expires before the schedule says so. Each is then scheduled at its exact time, as after a visit, so that
    the next check finds every event that brings an expiry forward unnoticed."""
    scheduled = {*shard.expirations._changed, *shard.expirations._due_ms}
    assert scheduled <= shard.groups.keys(), "the schedule has groups that are gone"
    for group_id, group in shard.groups.items():
        if group_id == visited:
            continue
        exact_ms, known_ms = _first_expiry_ms(shard, group), shard.expirations.get(group_id)
        if exact_ms is not None:
            assert known_ms is not None, f"{group_id} is never visited, and is due at {exact_ms}"
            assert known_ms <= exact_ms, f"{group_id} is visited at {known_ms}, and is due at {exact_ms}"
        shard.expirations.remove(group_id)
        if exact_ms is not None:
            shard.expirations.bring_forward(group_id, exact_ms)


def _first_expiry_ms(shard: Shard, group: Group) -> int | None:
    """Return when the first of the group's offsets expires, or the group if it has none; None: never."""
    rule = rule_of(group)
    if isinstance(rule, KeepReason):
        return None
    pending = shard.offsets.pending.of(group.group_id)
    times = [
        expires_ms(rule, (topic, partition), committed, pending, shard._tools.offsets_retention_ms)
        for topic, partitions in shard.offsets.topics(group.group_id).items()
        for partition, committed in partitions.items()
    ]
    if not times and group.is_empty and not pending:
        return 0
    return min([at_ms for at_ms in times if not isinstance(at_ms, KeepReason)], default=None)


def check_counts(shard: Shard) -> None:
    """Check that the kept counts of groups equal a new count."""
    counts, anew = shard.counts, GroupCounts(shard.counts.tallies)
    for group in shard.groups.values():
        kept, group.counted = group.counted, None
        anew.count(group)
        group.counted = kept
    for name in ("members", "pending_ids", "balanced_members", "balanced_groups", "metadata_bytes"):
        assert getattr(counts, name) == getattr(anew, name), f"{name}: {getattr(counts, name)} kept"
    assert +counts.states == +anew.states, "states are miscounted"
