"""Computation of a group's target assignment (docs/spec/consumer-group-protocol.md#3.2 to #3.4): within the heartbeat
that asks for it if the group is small, else in slices, one computation at a time."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from coordinator.clock import Moment
from coordinator.groups.consumer.delayed import DelayedTarget
from coordinator.groups.consumer.events import (
    ComputeTarget,
    ConsumerGroupHeld,
    TargetAnnounced,
    TargetBehind,
    TargetComputed,
    TargetsMoved,
)
from coordinator.groups.consumer.freed import news
from coordinator.groups.consumer.notes import ConsumerCause, note
from coordinator.groups.consumer.record_builders import target_record
from coordinator.groups.consumer.state import Computing, ConsumerGroup, Target, size_of
from coordinator.groups.consumer.subscriptions import (
    Change,
    SubscriptionCounts,
    existing_topics,
    is_homogeneous,
    subscribed_names,
)
from coordinator.groups.consumer.topics import TopicOfGroup
from coordinator.groups.hold import act_of, begun, described, left_of
from coordinator.groups.notes import NoteFacts
from coordinator.groups.outcome import Outcome, Steps
from coordinator.records.consumer_records import ConsumerMemberRecord, TargetRecord
from membership.pace import Pace, chunks
from membership.server_assignors.registry import ASSIGNORS
from membership.server_assignors.spec import Computation, SubscribedMember, run
from protocol.messages.groups import HoldGroupReply
from protocol.words import counted

AT_ONCE_US = 10_000
"""Estimated work up to which a target is computed within one heartbeat."""
_MEMBER_US, _SUBSCRIPTION_US, _TOPIC_US, _PARTITION_US, _WRITE_US = 8, 1, 20, 2, 20
"""Costs of an assignor, in the worst case, and of the record of a member's target."""
_MEMBERS_A_PIECE = 50


_ASKED = 10
"""Number of members that are asked for a heartbeat when a target is due. In a larger group some heartbeat always
arrives soon."""


def is_due(group: ConsumerGroup, moment: Moment) -> bool:
    """Return true if a target may be computed now."""
    return not _wait_ms(group, moment)


def _wait_ms(group: ConsumerGroup, moment: Moment) -> int:
    """Return the time until a target may be computed: at most once an interval, and not while the group is held. A
    computation that lies in the future counts as none: the clock was set back."""
    last_ms, interval_ms = group.target_timestamp_ms, group.settings.assignment_interval_ms
    is_recent = last_ms != 0 and last_ms <= moment.wall_ms < last_ms + interval_ms
    rest_ms = last_ms + interval_ms - moment.wall_ms if is_recent else 0
    return max(rest_ms, left_of(group.hold, moment.monotonic_ms))


def ask_for_heartbeats(group: ConsumerGroup, event: TargetBehind, out: Outcome) -> None:
    """Ask some members for a heartbeat once a target is due: the first heartbeat computes it. As in Kafka no timer
    computes it: clients that cannot be notified would have to wait for the next target more often."""
    if group.target_epoch >= group.epoch or group.computing is not None:
        return
    if wait_ms := _wait_ms(group, out.moment):
        out.watch(DelayedTarget(group, out.moment.monotonic_ms + wait_ms))
        return
    members = (one for one in group.members.values() if one.connection >= 0 and not one.is_classic)
    out.pushes += [(one.connection, news(group, one, group.epoch)) for one in islice(members, _ASKED)]


def hold(group: ConsumerGroup, event: ConsumerGroupHeld, out: Outcome) -> None:
    """Hold the group, or release it: no target is computed while it is held, so members keep what they have."""
    now_ms, request = out.moment.monotonic_ms, event.request
    before, group.hold = group.hold, begun(request, now_ms)
    if group.hold is not None or left_of(before, now_ms):
        detail = described(request, event.sender)
        note(group, out, ConsumerCause.HELD, "", detail, kind="admin", origin=event.sender, act=act_of(request))
    out.follow_ups.append(TargetBehind(group.group_id))
    out.reply_at_once(event.ref, HoldGroupReply(left_ms=left_of(group.hold, now_ms)))


def note_came(group: ConsumerGroup, member_id: str, out: Outcome) -> None:
    """Count a member that joined while the group is held. The last of the expected members ends the hold."""
    if group.hold is None or not group.hold.left_ms(out.moment.monotonic_ms):
        return
    group.hold.came.add(member_id)
    if group.hold.is_enough(len(group.hold.came & group.members.keys())):
        group.hold = None
        out.follow_ups.append(TargetBehind(group.group_id))


def preferred_assignor(group: ConsumerGroup, change: Change | None = None) -> str:
    """Return the assignor that most members request; members without one do not vote. A tie is decided by the order in
    the configuration."""
    votes = group.assignors
    if change is not None and (change.before is None or change.before.server_assignor != change.line.server_assignor):
        votes = votes.copy()
        if change.before is not None and change.before.server_assignor:
            votes[change.before.server_assignor] -= 1
        if change.line.server_assignor:
            votes[change.line.server_assignor] += 1
    return _most_votes(group.settings.assignors, votes)


def _most_votes(assignors: tuple[str, ...], votes: Counter[str]) -> str:
    return max(assignors, key=lambda name: votes[name])


def is_small(group: ConsumerGroup, now: SubscriptionCounts) -> bool:
    """Return true if the targets can be computed and written within one heartbeat."""
    members, topics = len(group.members) + 1, len(now.names)
    subscriptions = now.names.total()
    for regex, count in now.regexes.items():
        matched = len(group.topics_of(regex))
        topics, subscriptions = topics + matched, subscriptions + count * matched
    cost_us = members * (_MEMBER_US + _WRITE_US) + topics * _TOPIC_US + subscriptions * _SUBSCRIPTION_US
    if cost_us > AT_ONCE_US:
        return False  # before any topic is checked
    partitions = sum([topic.partitions for topic in existing_topics(group, now).values()])
    return cost_us + partitions * _PARTITION_US <= AT_ONCE_US


def compute_targets(group: ConsumerGroup, change: Change, after: SubscriptionCounts) -> Mapping[str, Target]:
    """Compute the targets of all members after the change, in one step."""
    targets = {**group.targets, change.member_id: change.target or {}}
    return run(_computation(group, _lines_after(group, change), targets, after, preferred_assignor(group, change)))


def begin(group: ConsumerGroup, event: ComputeTarget, out: Outcome) -> None:
    """Begin to compute the targets in slices, for the group's present state. After later changes the target epoch is
    behind again: the next computation includes them."""
    if group.computing is None and group.target_epoch < group.epoch:
        group.computing = Computing(group.epoch, event.member_id)
        out.work.append(_steps(group, group.computing))


def _steps(group: ConsumerGroup, computing: Computing) -> Steps:
    """Compute, write, announce. Losses are written before gains, so targets are disjoint after each record, and after a
    crash the next computation can start from them. Between the two, a target has only the partitions that are kept."""
    computing.epoch = group.epoch
    now = SubscriptionCounts(group.names.copy(), group.regexes.copy())
    lines = [member.subscription for member in group.members.values()]
    instances = {member_id: instance_id for instance_id, member_id in group.static_members.items()}
    assignor = preferred_assignor(group)
    targets = yield from _computation(group, lines, dict(group.targets), now, assignor)
    if group.computing is not computing:
        return  # a member has another instance id
    moved: dict[str, None] = {}
    kept = 0
    for next_target in (_without_gains, _whole):
        ids = iter(targets)
        while chunk := list(islice(ids, _MEMBERS_A_PIECE)):
            part: dict[str, Target] = {}
            for member_id in chunk:
                present = _present(group, member_id, instances.get(member_id))
                before = None if present is None else group.targets.get(present)
                after = next_target(before, targets[member_id])
                if present is not None and after != before:
                    part[present] = after or {}
            if part:
                moved |= dict.fromkeys(part)
                yield TargetsMoved(group.group_id, tuple(part.items()))
            yield len(chunk) + len(part) * _WRITE_US
            if group.computing is not computing:
                return  # a member has another instance id, or the part could not be appended
        if next_target is _without_gains:
            kept = group.targeted
    yield TargetComputed(group.group_id, computing.epoch, computing.member_id, assignor, len(moved), kept)
    ids = iter(moved)
    while chunk := list(islice(ids, _MEMBERS_A_PIECE)):
        yield TargetAnnounced(group.group_id, computing.epoch, tuple(chunk))
        yield len(chunk) * _WRITE_US


def _present(group: ConsumerGroup, member_id: str, instance_id: str | None) -> str | None:
    """Return the present id of a member from the beginning of the computation: a static member may have been replaced
    since. No member has changed its instance id since: that ends the computation."""
    if instance_id in group.static_members:
        return group.static_members[instance_id]
    return member_id if member_id in group.members else None


def _without_gains(before: Target | None, after: Target) -> Target | None:
    if before is None:
        return None
    kept = {topic_id: numbers & after.get(topic_id, frozenset()) for topic_id, numbers in before.items()}
    return {topic_id: numbers for topic_id, numbers in kept.items() if numbers}


def _whole(_before: Target | None, after: Target) -> Target | None:
    return after


def move(group: ConsumerGroup, event: TargetsMoved, out: Outcome) -> None:
    """Write targets of members."""
    out.records += [target_record(group.group_id, *one) for one in event.targets if one[0] in group.members]
    out.is_splittable = True


def finish(group: ConsumerGroup, event: TargetComputed, out: Outcome) -> None:
    """Write that all targets belong to the epoch: members may reconcile with them."""
    group.computing = None
    if group.epoch > event.epoch:
        out.follow_ups.append(TargetBehind(group.group_id))
    out.records.append(TargetRecord(group.group_id, event.epoch, out.moment.wall_ms))
    _note(group, event, len(group.members), out)


def announce(group: ConsumerGroup, event: TargetAnnounced, out: Outcome) -> None:
    """Notify members that can receive pushes."""
    for member in map(group.members.get, event.member_ids):
        if member is not None and member.connection >= 0:
            out.pushes.append((member.connection, news(group, member, event.epoch)))


def compute_at_once(
    group: ConsumerGroup, change: Change, after: SubscriptionCounts, epoch: int, out: Outcome
) -> Target:
    """Compute and write the targets of a small group in the same batch as the change; return the member's."""
    targets = compute_targets(group, change, after)
    moved = kept = 0
    for member_id, target in targets.items():
        known = change.target if member_id == change.member_id else group.targets.get(member_id)
        kept += size_of(_without_gains(known, target) or {})
        if known is None or known != target:
            out.records.append(target_record(group.group_id, member_id, target))
            moved += 1
            member = group.members.get(member_id)
            if member is not None and member.connection >= 0 and member_id != change.member_id:
                out.pushes.append((member.connection, news(group, member, epoch)))
    out.records.append(TargetRecord(group.group_id, epoch, out.moment.wall_ms))
    computed = TargetComputed(group.group_id, epoch, change.member_id, preferred_assignor(group, change), moved, kept)
    _note(group, computed, len(targets), out)
    return targets[change.member_id]


def _note(group: ConsumerGroup, event: TargetComputed, members: int, out: Outcome) -> None:
    """Append the note on a new target. It does not mention partitions if the previous target had none."""
    epoch, kept = event.epoch, event.kept_partitions
    of = counted(members, "member")
    detail = f"epoch {epoch} by {event.assignor}: another target for {event.moved_members} of {of}"
    facts = NoteFacts()
    if group.shared:
        moved = max(0, group.shared - kept)  # gains of a computation that never ended are kept now
        detail += f", {moved} of {counted(moved + kept, 'partition')} move"
        facts = NoteFacts(moved_partitions=moved, kept_partitions=kept)
    note(
        group, out, ConsumerCause.TARGET, event.member_id, detail, kind="target", epoch=epoch, members=members, **facts
    )


def _computation(
    group: ConsumerGroup,
    lines: list[ConsumerMemberRecord],
    targets: Mapping[str, Target],
    now: SubscriptionCounts,
    assignor: str,
) -> Computation:
    """Compute the targets of the members from their previous ones. The group is read before the first piece ends,
    except for topics: a change of these is found later, and moves the epoch."""
    resolved, pace = dict(group.resolved), Pace()
    existing: dict[bytes, TopicOfGroup] = {}
    known: set[str] = set()

    def topics_of(regex: str) -> frozenset[str]:
        return resolved[regex].topics if regex in resolved else frozenset()

    for names in chunks(subscribed_names(now, topics_of)):
        new = [name for name in names if name not in known]
        known.update(new)
        existing |= {topic.topic_id: topic for topic in map(group.topics.find, new) if topic is not None}
        if pace.add(_SUBSCRIPTION_US * len(names) + _TOPIC_US * len(new)):
            yield pace.take()
    ids = {topic.name: topic_id for topic_id, topic in existing.items()}
    wanted: dict[tuple[tuple[str, ...], str | None], frozenset[bytes]] = {}
    members = []
    for line in lines:
        key = line.subscribed_topic_names, line.subscribed_topic_regex
        if key not in wanted:
            found = topics_of(line.subscribed_topic_regex or "").union(line.subscribed_topic_names)
            wanted[key] = frozenset(ids[name] for name in found if name in ids)
            pace.add(_SUBSCRIPTION_US * len(found))
        members.append(
            SubscribedMember(line.member_id, line.instance_id, wanted[key], targets.get(line.member_id) or {})
        )
        if pace.add(_MEMBER_US):
            yield pace.take()
    return (yield from ASSIGNORS[assignor](members, existing, is_homogeneous(now, len(lines))))


def _lines_after(group: ConsumerGroup, change: Change) -> list[ConsumerMemberRecord]:
    """Return the records of all members, the changed one last if it is new."""
    gone = change.replaced.member_id if change.replaced is not None else None
    lines = {member_id: one.subscription for member_id, one in group.members.items() if member_id != gone}
    lines[change.member_id] = change.line
    return list(lines.values())
