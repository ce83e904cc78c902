"""Members that leave, permanently or temporarily, and members that are fenced
(docs/spec/consumer-group-protocol.md#2.3, #7.3, #8.2)."""

from collections.abc import Sequence

from coordinator.groups.consumer.classic_members.downgrade import downgrade, may_downgrade
from coordinator.groups.consumer.delayed import cancel_timers, restart_session, session_timeout_ms
from coordinator.groups.consumer.events import (
    ConsumerAway,
    ConsumerLeave,
    RevocationOverdue,
    SessionExpired,
    TargetBehind,
)
from coordinator.groups.consumer.freed import note_freed
from coordinator.groups.consumer.notes import ConsumerCause, note
from coordinator.groups.consumer.record_builders import assignment_record, epoch_records, member_tombstones
from coordinator.groups.consumer.state import NEW, NONE_ASSIGNED, ConsumerGroup, ConsumerMember, Current
from coordinator.groups.consumer.subscriptions import hash_of, subscriptions_of
from coordinator.groups.outcome import Outcome
from coordinator.records.consumer_records import ConsumerKey, ConsumerTombstone
from protocol.client_text import client_text
from protocol.messages.consumer_groups import LEAVING, LEAVING_FOR_NOW, ConsumerGroupHeartbeatReply
from protocol.messages.groups import MemberRemoved, Origin
from protocol.words import counted


def leave(group: ConsumerGroup, event: ConsumerLeave, out: Outcome) -> None:
    """Remove the member, regardless of its epoch."""
    member = group.members[event.member_id]
    remove(group, [member], ConsumerCause.LEFT, described(member), out)
    out.reply(event.ref, ConsumerGroupHeartbeatReply(member_id=event.member_id, member_epoch=LEAVING))


def leave_for_a_while(group: ConsumerGroup, event: ConsumerAway, out: Outcome) -> None:
    """Keep the static member's partitions for it until its session ends; partitions that it had to revoke are free at
    once. Its successor may commit with any epoch."""
    member = group.members[event.member_id]
    assigned = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.current.assigned.items()}
    current = Current(LEAVING_FOR_NOW, member.current.previous_epoch, member.current.state, assigned, NONE_ASSIGNED)
    out.records.append(assignment_record(group.group_id, member.member_id, current))
    note_freed(group, member.current, current, out)
    note(group, out, ConsumerCause.AWAY, member.member_id, described(member), kind="member")
    out.reply(event.ref, ConsumerGroupHeartbeatReply(member_id=event.member_id, member_epoch=LEAVING_FOR_NOW))


def fence_silent(group: ConsumerGroup, event: SessionExpired, out: Outcome) -> None:
    """Remove the member whose session has timed out. A member whose heartbeats may wait behind an unanswered request
    gets a new session, unless it has left for a while."""
    member = group.members.get(event.member_id)
    if member is None:
        return
    if event.is_kept_waiting and member.current.epoch != LEAVING_FOR_NOW:
        member.session = None  # the one that has ended
        restart_session(group, member, out)
    else:
        detail = f"no heartbeat for {session_timeout_ms(group, member)} ms: {described(member)}"
        remove(group, [member], ConsumerCause.SESSION_EXPIRED, detail, out)


def fence_unrevoked(group: ConsumerGroup, event: RevocationOverdue, out: Outcome) -> None:
    """Remove the member that did not revoke its partitions in its rebalance timeout, unless its epoch has moved."""
    member = group.members.get(event.member_id)
    if member is not None and member.current.epoch == event.epoch:
        timeout_ms = member.subscription.rebalance_timeout_ms
        count = sum(map(len, member.current.pending.values()))
        detail = f"{counted(count, 'partition')} not revoked in {timeout_ms} ms: {described(member)}"
        remove(group, [member], ConsumerCause.NOT_REVOKED, detail, out)


def remove(
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    cause: ConsumerCause,
    detail: str,
    out: Outcome,
    *,
    origin: Origin | None = None,
    act: str = "",
) -> None:
    """Remove the members in one batch; their partitions are free at once, and targets follow at the next heartbeat. If
    only classic members are left, the group becomes a classic one. `origin` and `act` as in a note."""
    for member in members:
        if member.is_classic and member.connection >= 0:
            out.pushes.append((member.connection, MemberRemoved(group.group_id, member.member_id, cause.value)))
    if may_downgrade(group, members):
        if act:
            ids = ", ".join(member.member_id for member in members)
            note(group, out, cause, ids, detail, kind="member", origin=origin, act=act)
        downgrade(group, members, cause.value, detail, out)
        return
    lines = [member.subscription for member in members]
    after = subscriptions_of(group).without(lines)
    for member in members:
        out.records += member_tombstones(group.group_id, member.member_id)
        cancel_timers(group, member.member_id, out)
        note_freed(group, member.current, NEW, out)
    unused = [regex for regex in group.resolved if regex not in after.regexes]
    out.records += [ConsumerTombstone(group.group_id, ConsumerKey.REGEX, regex) for regex in unused]
    out.records += epoch_records(group, hash_of(group, after))
    out.follow_ups.append(TargetBehind(group.group_id))
    note(
        group,
        out,
        cause,
        ", ".join(member.member_id for member in members),
        f"group epoch {group.epoch + 1}: {detail}",
        epoch=group.epoch + 1,
        members=len(group.members) - len(members),
        origin=origin,
        act=act,
    )


def described(member: ConsumerMember) -> str:
    """Name the member's client, and its instance."""
    line = member.subscription
    who = client_text(line.client_id, line.client_host)
    return who if line.instance_id is None else f"{who}, instance {line.instance_id}"
