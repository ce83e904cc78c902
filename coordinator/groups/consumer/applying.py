"""Records applied to a group, live and at load alike: `apply`, called only by `Shard.apply`, changes hard state. Also
load, unload, and the recovery from a failed append (docs/spec/consumer-group-protocol.md#14.3).

At load the records may be in any order that compaction leaves; a later record always overrides.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from coordinator.groups.consumer.delayed import (
    DelayedSession,
    cancel_timers,
    restart_session,
    time_revocation,
    time_step,
    undo_time_rejoin,
)
from coordinator.groups.consumer.events import (
    ClassicBeat,
    ClassicRejoinOverdue,
    ClassicSyncOverdue,
    ConsumerAppendFailed,
    ConsumerLoaded,
    ConsumerUnloaded,
    RegexesResolved,
    RevocationOverdue,
    SessionExpired,
    TargetComputed,
    TargetsMoved,
)
from coordinator.groups.consumer.state import (
    NEW,
    NONE_ASSIGNED,
    Assigned,
    ConsumerGroup,
    ConsumerMember,
    Current,
    ResolvedRegex,
    Target,
    bytes_of,
    size_of,
)
from coordinator.groups.outcome import Outcome
from coordinator.keys import NextTargetKey
from coordinator.records.consumer_records import (
    AssignedTopic,
    AssignmentRecord,
    ConsumerGroupRecord,
    ConsumerKey,
    ConsumerMemberRecord,
    ConsumerRecord,
    ConsumerTombstone,
    ConsumerTopicsRecord,
    MemberTargetRecord,
    ReconciliationState,
    RegexRecord,
    TargetRecord,
)
from protocol.messages.consumer_groups import LEAVING
from protocol.messages.groups import CoordinatorMoved

_RETRY_MS = 1_000


def apply(group: ConsumerGroup, record: ConsumerRecord) -> None:
    """Set the group to the state in the record. The shard applies the tombstone of the group itself."""
    _APPLY[type(record)](group, record)


def _group(group: ConsumerGroup, record: ConsumerGroupRecord) -> None:
    group.epoch, group.metadata_hash = record.epoch, record.metadata_hash
    group.must_rebalance = False


def _partition_metadata(group: ConsumerGroup, record: ConsumerTopicsRecord) -> None:
    group.has_partition_metadata = True


def _member(group: ConsumerGroup, record: ConsumerMemberRecord) -> None:
    member = group.members.get(record.member_id)
    if member is None:
        member = group.members[record.member_id] = ConsumerMember(record.member_id, record)
        group.settled[member.current.epoch] += 1
    else:
        _count(group, member.subscription, -1)
        _drop_instance(group, member)
        if record.instance_id != member.subscription.instance_id:
            group.computing = None  # it finds members by their instances; the next heartbeat begins another
        member.subscription = record
    _count(group, record, 1)
    if record.instance_id is not None:
        group.static_members[record.instance_id] = record.member_id


def _count(group: ConsumerGroup, line: ConsumerMemberRecord, by: int) -> None:
    for name in line.subscribed_topic_names:
        _add(group.names, name, by)
    if line.subscribed_topic_regex:
        _add(group.regexes, line.subscribed_topic_regex, by)
    if line.server_assignor:
        _add(group.assignors, line.server_assignor, by)
    if line.classic is not None:
        group.classic_members += by
        for name in dict(line.classic.protocols):
            _add(group.offers, name, by)
    group.metadata_bytes += by * bytes_of(line)


def _add(counter: Counter[Any], key: Any, by: int) -> None:
    counter[key] += by
    if not counter[key]:
        del counter[key]


def _drop_instance(group: ConsumerGroup, member: ConsumerMember) -> None:
    instance_id = member.subscription.instance_id
    if instance_id is not None and group.static_members.get(instance_id) == member.member_id:
        del group.static_members[instance_id]


def _target(group: ConsumerGroup, record: TargetRecord) -> None:
    group.target_epoch, group.target_timestamp_ms = record.epoch, record.timestamp_ms
    group.shared = group.targeted


def _member_target(group: ConsumerGroup, record: MemberTargetRecord) -> None:
    target = {topic_id: frozenset(numbers) for topic_id, numbers in record.topics if numbers}
    _aim(group, record.member_id, target)


def _aim(group: ConsumerGroup, member_id: str, target: Target | None) -> None:
    """Give the member its target, or none, and note the partitions that it waits for."""
    member = group.members.get(member_id)
    if member is not None:
        _end_waiting(group, member)
    group.targeted -= size_of(group.targets.get(member_id, {}))
    if target is None:
        group.targets.pop(member_id, None)
    else:
        group.targets[member_id] = target
        group.targeted += size_of(target)
    if member is not None:
        _wait(group, member)


def _wait(group: ConsumerGroup, member: ConsumerMember) -> None:
    for topic_id, number in group.awaited_by(member):
        group.waiting.setdefault(topic_id, {})[number] = member.member_id


def _end_waiting(group: ConsumerGroup, member: ConsumerMember) -> None:
    for topic_id, number in group.awaited_by(member):
        _release(group.waiting, topic_id, number, member.member_id)


def _release(members: dict[bytes, dict[int, str]], topic_id: bytes, number: int, member_id: str) -> None:
    """Remove the member from the partition, unless a later record has given the partition to another."""
    numbers = members.get(topic_id)
    if numbers is not None and numbers.get(number) == member_id:
        del numbers[number]
        if not numbers:
            del members[topic_id]


def _assignment(group: ConsumerGroup, record: AssignmentRecord) -> None:
    member = group.members.get(record.member_id)
    if member is None:
        _member(group, ConsumerMemberRecord(group.group_id, record.member_id))
        member = group.members[record.member_id]
    assigned, pending = _epochs(record.assigned), _epochs(record.pending)
    _become(group, member, Current(record.epoch, record.previous_epoch, record.state, assigned, pending))


def _epochs(topics: tuple[AssignedTopic, ...]) -> Assigned:
    return {one.topic_id: dict(zip(one.partitions, one.epochs, strict=True)) for one in topics if one.partitions}


def _become(group: ConsumerGroup, member: ConsumerMember, current: Current) -> None:
    """Give the member its current assignment, and update the holder of each partition and the waiting members."""
    member_id, holders = member.member_id, group.holders
    _end_waiting(group, member)
    for topic_id, number, _ in member.current.held:
        _release(holders, topic_id, number, member_id)
    if member.current.state == ReconciliationState.STABLE:
        _add(group.settled, member.current.epoch, -1)
    member.current = current
    for topic_id, number, _ in current.held:
        holders.setdefault(topic_id, {})[number] = member_id
    _wait(group, member)
    if current.state == ReconciliationState.STABLE:
        _add(group.settled, current.epoch, 1)


def _regex(group: ConsumerGroup, record: RegexRecord) -> None:
    group.resolved[record.pattern] = ResolvedRegex(record, frozenset(record.topics))
    group.regexes_resolved_ms = max(group.regexes_resolved_ms, record.timestamp_ms)


def _tombstone(group: ConsumerGroup, record: ConsumerTombstone) -> None:
    kind, name = record.key, record.name
    if kind is ConsumerKey.ASSIGNMENT and name in group.members:
        _become(
            group,
            group.members[name],
            Current(LEAVING, LEAVING, ReconciliationState.STABLE, NONE_ASSIGNED, NONE_ASSIGNED),
        )
    elif kind is ConsumerKey.MEMBER_TARGET:
        _aim(group, name, None)
    elif kind is ConsumerKey.MEMBER and name in group.members:
        _remove(group, group.members[name])
    elif kind is ConsumerKey.REGEX:
        group.resolved.pop(name, None)
    elif kind is ConsumerKey.TARGET:
        group.target_epoch, group.target_timestamp_ms = -1, 0
    elif kind is ConsumerKey.TOPICS:
        group.has_partition_metadata = False


def _remove(group: ConsumerGroup, member: ConsumerMember) -> None:
    _become(group, member, NEW)
    _add(group.settled, NEW.epoch, -1)
    _count(group, member.subscription, -1)
    _drop_instance(group, member)
    group.targeted -= size_of(group.targets.pop(member.member_id, {}))
    del group.members[member.member_id]
    if not group.members:
        group.shared = 0


_APPLY: dict[type, Callable[[ConsumerGroup, Any], None]] = {
    ConsumerGroupRecord: _group,
    ConsumerTopicsRecord: _partition_metadata,
    ConsumerMemberRecord: _member,
    TargetRecord: _target,
    MemberTargetRecord: _member_target,
    AssignmentRecord: _assignment,
    RegexRecord: _regex,
    ConsumerTombstone: _tombstone,
}


def loaded(group: ConsumerGroup, event: ConsumerLoaded, out: Outcome) -> None:
    """Give every member a full session, and those that have partitions to revoke their full time."""
    group.shared = max(group.shared, group.targeted)  # records may be in another order than they were written
    for member in group.members.values():
        restart_session(group, member, out)
        if member.current.state is ReconciliationState.UNREVOKED_PARTITIONS:
            member.revoking = out.moment.monotonic_ms, group.target_epoch
        time_revocation(group, member.member_id, member.current, member.subscription.rebalance_timeout_ms, out)


def unload(group: ConsumerGroup, event: ConsumerUnloaded, out: Outcome) -> None:
    """Stop all timers: the node stops serving the group, and clients look for its coordinator again."""
    out.cancel(NextTargetKey(group.group_id))
    for member in group.members.values():
        cancel_timers(group, member.member_id, out)
        if member.connection >= 0:
            out.pushes.append((member.connection, CoordinatorMoved(group.group_id, -1, "", -1)))
    group.is_dead = True  # hard state stays: a snapshot may be written of it


def undo(group: ConsumerGroup, event: ConsumerAppendFailed, out: Outcome) -> None:
    """Answer the event with the error: its records were not appended. A fence is retried soon, and topics are checked
    again."""
    failed = event.event
    group.topics_version = group.regexes_version = -1
    if isinstance(failed, SessionExpired):
        member = group.members[failed.member_id]
        member.deadline_ms = out.moment.monotonic_ms + _RETRY_MS
        member.session = DelayedSession(group, member)
        out.watch(member.session)
    elif isinstance(failed, ClassicRejoinOverdue | ClassicSyncOverdue):
        member = group.members[failed.member_id]
        time_step(group, member, failed, out.moment.monotonic_ms + _RETRY_MS, out)
    elif isinstance(failed, RevocationOverdue):
        time_revocation(group, failed.member_id, group.members[failed.member_id].current, _RETRY_MS, out)
    elif isinstance(failed, TargetsMoved | TargetComputed):
        group.computing = None  # the next heartbeat begins another
    elif isinstance(failed, ClassicBeat) and (beating := group.members.get(failed.member_id)) is not None:
        undo_time_rejoin(beating, out)
        out.reply_at_once(failed.ref, failed.refused(event.error_code))
    elif isinstance(failed, RegexesResolved):
        group.regexes_failed_ms = out.moment.wall_ms  # a heartbeat resolves them again, after a while
    else:
        refused = getattr(failed, "refused", None)
        assert refused is not None, f"{type(failed).__name__} yields no records"
        out.reply_at_once(failed.ref, refused(event.error_code))  # type: ignore[union-attr]
