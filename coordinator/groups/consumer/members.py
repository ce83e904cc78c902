"""The steps from a member's new subscription to its new assignment: records of the member, the group epoch, the target,
the reconciliation (docs/spec/consumer-group-protocol.md#2.4 steps 5 to 9)."""

from msgspec.structs import replace

from coordinator.groups.consumer.delayed import cancel_timers, heard_ms, time_revocation
from coordinator.groups.consumer.events import (
    ClassicJoin,
    ComputeTarget,
    MemberRequest,
    ResolveRegexes,
    TargetBehind,
    TopicFilter,
    sees_all,
)
from coordinator.groups.consumer.freed import note_freed
from coordinator.groups.consumer.notes import ConsumerCause, note, note_revocation, origin_of
from coordinator.groups.consumer.reconciliation import Goal, Owned, reconcile
from coordinator.groups.consumer.record_builders import (
    assignment_record,
    epoch_records,
    member_tombstones,
    target_record,
)
from coordinator.groups.consumer.regexes import needs_resolution
from coordinator.groups.consumer.state import NEW, ConsumerGroup, ConsumerMember, Current, Target
from coordinator.groups.consumer.subscriptions import (
    Change,
    SubscriptionCounts,
    hash_of,
    subscribes,
    subscriptions_after,
    subscriptions_of,
)
from coordinator.groups.consumer.target import compute_at_once, is_due, is_small
from coordinator.groups.notes import taken_over
from coordinator.groups.outcome import Outcome
from coordinator.records.consumer_records import (
    ConsumerKey,
    ConsumerMemberRecord,
    ConsumerTombstone,
)
from protocol.client_text import client_text
from protocol.messages.consumer_groups import JOINING
from protocol.messages.groups import Origin, PreviousHolder

_NAMES_A_NOTE = 5


def known_member(
    group: ConsumerGroup, member: ConsumerMember, line: ConsumerMemberRecord, sender: Origin | None = None
) -> Change:
    """Build the change of a member of the group."""
    target = group.targets.get(member.member_id)
    return Change(line, member.subscription, member.current, target, sender=sender or member.sender)


def new_member(line: ConsumerMemberRecord, sender: Origin | None = None) -> Change:
    """Build the change that adds a member."""
    return Change(line, None, NEW, None, sender=sender)


def replacement(
    group: ConsumerGroup, replaced: ConsumerMember, line: ConsumerMemberRecord, event: MemberRequest | ClassicJoin
) -> Change:
    """Build the change that replaces the member with the same instance id: the new member gets its state, except that
    the epochs start again (docs/spec/consumer-group-protocol.md#7.2)."""
    before = replace(replaced.subscription, member_id=line.member_id)
    current = replaced.current._replace(epoch=JOINING, previous_epoch=JOINING)
    target = group.targets.get(replaced.member_id)
    return Change(line, before, current, target, replaced, event.sender, event.is_fencing)


def update(
    group: ConsumerGroup, change: Change, owned: Owned | None, out: Outcome, sees: TopicFilter | None = sees_all
) -> Current:
    """Write the records of the changed member and its group; return the member's new current assignment. Without
    `sees` no regular expression is resolved."""
    if change.replaced is not None:
        write_replacement(group, change, out)
        time_revocation(group, change.member_id, change.current, change.line.rebalance_timeout_ms, out)
    if change.line != change.before:
        out.records.append(change.line)
    after = subscriptions_after(group, change)
    _drop_regex(group, change, after, out)
    epoch = _bump(group, change, after, out)
    goal_epoch, target = _target(group, change, after, epoch, out)
    others = {change.member_id, change.replaced.member_id if change.replaced is not None else change.member_id}

    def is_free(topic_id: bytes, number: int) -> bool:
        holder = group.holders.get(topic_id, {}).get(number)
        return holder is None or holder in others

    goal = Goal(goal_epoch, target, subscribes(group, change.line), is_free)
    is_forced = change.names_changed or change.regex_changed
    current = reconcile(change.current, goal, owned, is_forced=is_forced)
    if current != change.current:
        out.records.append(assignment_record(group.group_id, change.member_id, current))
        note_revocation(group, change, current, goal_epoch, out)
        time_revocation(group, change.member_id, current, change.line.rebalance_timeout_ms, out)
        note_freed(group, change.current, current, out)
    if sees is not None and needs_resolution(group, after.regexes, out.moment):
        out.follow_ups.append(ResolveRegexes(group.group_id, sees))
    return current


def refresh(group: ConsumerGroup, member: ConsumerMember, out: Outcome) -> int:
    """Check the topics, and compute the target if it is due, for a member that takes no step itself; return the target
    epoch."""
    change, now = known_member(group, member, member.subscription), subscriptions_of(group)
    epoch = _bump(group, change, now, out)
    return _target(group, change, now, epoch, out)[0]


def write_replacement(group: ConsumerGroup, change: Change, out: Outcome) -> None:
    replaced, before = change.replaced, change.before
    assert replaced is not None and before is not None
    out.records += member_tombstones(group.group_id, replaced.member_id)
    out.records.append(before)
    if change.target is not None:
        out.records.append(target_record(group.group_id, change.member_id, change.target))
    out.records.append(assignment_record(group.group_id, change.member_id, change.current))
    cancel_timers(group, replaced.member_id, out)
    was = replaced.subscription
    heard_ago_ms = -1 if replaced.connection < 0 else max(0, out.moment.monotonic_ms - heard_ms(group, replaced))
    holder = PreviousHolder(replaced.member_id, was.client_id, was.client_host, heard_ago_ms)
    detail = f"instance {before.instance_id}: {replaced.member_id} is replaced"
    detail, facts = taken_over(before.instance_id, holder, detail, is_fencing=change.is_fencing)
    facts["origin"] = origin_of(change.line, change.sender)
    note(group, out, ConsumerCause.REPLACED, change.member_id, detail, kind="member", **facts)


def _drop_regex(group: ConsumerGroup, change: Change, after: SubscriptionCounts, out: Outcome) -> None:
    regex = change.regex_before
    if regex and regex in group.resolved and regex not in after.regexes:
        out.records.append(ConsumerTombstone(group.group_id, ConsumerKey.REGEX, regex))


def _bump(group: ConsumerGroup, change: Change, after: SubscriptionCounts, out: Outcome) -> int:
    """Return the group epoch after the change: one more if the members' subscriptions have changed
    (docs/spec/consumer-group-protocol.md#3.1)."""
    cause = _cause(group, change)
    if cause is None and group.must_rebalance:
        cause = ConsumerCause.UPGRADED
    if cause is None and group.topics_version == group.topics.version:
        return group.epoch
    group.topics_version = group.topics.version
    digest = hash_of(group, after)
    if cause is None:
        had = group.metadata_hash
        if digest == had or hash_of(group, subscriptions_of(group)) == had:
            return group.epoch  # a pattern changes nothing until it is resolved
        cause = ConsumerCause.TOPICS
    out.records += epoch_records(group, digest)
    known = change.before is not None
    detail = f"group epoch {group.epoch + 1}: {_described(change)}"
    members, origin = len(group.members) + (not known), origin_of(change.line, change.sender)
    note(group, out, cause, change.member_id, detail, epoch=group.epoch + 1, members=members, origin=origin)
    return group.epoch + 1


def _cause(group: ConsumerGroup, change: Change) -> ConsumerCause | None:
    cause = ConsumerCause.JOINED if change.before is None else ConsumerCause.SUBSCRIPTION
    if change.names_changed:
        return cause
    is_resolved = not change.line.subscribed_topic_regex or change.line.subscribed_topic_regex in group.resolved
    return cause if change.regex_changed and is_resolved else None


def _described(change: Change) -> str:
    line = change.line
    names, regex = line.subscribed_topic_names, line.subscribed_topic_regex
    wanted = [*names[:_NAMES_A_NOTE], *(("…",) if len(names) > _NAMES_A_NOTE else ())]
    if regex:
        wanted.append(f"/{regex}/")
    return f"{client_text(line.client_id, line.client_host)} reads {', '.join(wanted) or 'nothing'}"


def _target(
    group: ConsumerGroup, change: Change, after: SubscriptionCounts, epoch: int, out: Outcome
) -> tuple[int, Target]:
    """Return target epoch and target of the member, recomputed if they are behind and the interval has passed. A large
    group keeps the old ones until its computation has ended."""
    if group.target_epoch >= epoch or group.computing is not None:
        return group.target_epoch, change.target or {}
    if not is_due(group, out.moment):
        if group.epoch < epoch:
            out.follow_ups.append(TargetBehind(group.group_id))
        return group.target_epoch, change.target or {}
    if is_small(group, after):
        return epoch, compute_at_once(group, change, after, epoch, out)
    out.follow_ups.append(ComputeTarget(group.group_id, change.member_id))
    return group.target_epoch, change.target or {}
