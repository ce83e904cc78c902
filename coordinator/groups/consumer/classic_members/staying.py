"""Actions of SyncGroup, Heartbeat and LeaveGroup, and of classic members that do not take their next step in time
(docs/spec/consumer-group-protocol.md#12.2 to #12.4)."""

from coordinator.groups.consumer.classic_members.protocols import encoded, first_protocol, metadata_for
from coordinator.groups.consumer.delayed import end_first_sync, restart_session, time_rejoin
from coordinator.groups.consumer.events import (
    ClassicBeat,
    ClassicLeave,
    ClassicMembersTaken,
    ClassicRejoinOverdue,
    ClassicSync,
    ClassicSyncOverdue,
)
from coordinator.groups.consumer.freed import has_all_free
from coordinator.groups.consumer.members import refresh
from coordinator.groups.consumer.notes import ConsumerCause, note
from coordinator.groups.consumer.removal import described, remove
from coordinator.groups.consumer.state import ConsumerGroup, ConsumerMember
from coordinator.groups.outcome import Outcome
from coordinator.records.consumer_records import ReconciliationState
from protocol.client_text import client_text
from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    LONGEST_REASON,
    Heartbeat,
    HeartbeatReply,
    LeaveGroupReply,
    LeavingMember,
    LeftMember,
    Origin,
    SyncGroupReply,
)

_REVOKING = ReconciliationState.UNREVOKED_PARTITIONS
_WAITING = ReconciliationState.UNRELEASED_PARTITIONS


def sync(group: ConsumerGroup, event: ClassicSync, out: Outcome) -> None:
    """Answer with the partitions that the member may read now, or with the error to join again for a newer target."""
    member = group.members[event.member_id]
    member.connection = event.ref.connection
    if not group.topics.is_known:  # the assignment cannot be encoded yet
        out.reply_at_once(event.ref, SyncGroupReply(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return
    if member.current.epoch < group.target_epoch and member.current.state is not _REVOKING:
        time_rejoin(group, member, out)
        out.reply_at_once(event.ref, SyncGroupReply(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return
    end_first_sync(group, member, out)
    restart_session(group, member, out)
    name = first_protocol(member.subscription)
    reply = SyncGroupReply(
        protocol_type=PROTOCOL_TYPE,
        protocol_name=name,
        assignment=encoded(member.current.assigned, group.topics, like=metadata_for(member.subscription, name or "")),
    )
    out.reply(event.ref, reply)


def is_sign_of_life(group: ConsumerGroup, message: Heartbeat, now_ms: int) -> bool:
    """Extend the session and return true if the Heartbeat needs nothing more, as nearly all do."""
    member = group.members.get(message.member_id)
    if member is None or message.generation_id != member.current.epoch or member.session is None:
        return False
    line = member.subscription
    if (
        line.classic is None
        or message.group_instance_id not in (None, line.instance_id)
        or group.epoch != group.target_epoch
        or not group.is_reconciled(member)
        or group.topics_version != group.topics.version
        or group.regexes
    ):
        return False
    member.deadline_ms = max(member.deadline_ms, now_ms + line.classic.session_timeout_ms)
    return True


def beat(group: ConsumerGroup, event: ClassicBeat, out: Outcome) -> None:
    """Extend the member's session, and have it join again if its partitions would change. Compute the target if it is
    due: there may be no other member to do so (docs/spec/consumer-group-protocol.md#3.2)."""
    member = group.members[event.member_id]
    member.connection = event.ref.connection
    restart_session(group, member, out)
    target_epoch = refresh(group, member, out) if group.topics.is_known else group.target_epoch
    if not _must_rejoin(group, member, target_epoch):
        out.reply_at_once(event.ref, HeartbeatReply())
        return
    time_rejoin(group, member, out)
    out.reply_at_once(event.ref, HeartbeatReply(ErrorCode.REBALANCE_IN_PROGRESS))


def _must_rejoin(group: ConsumerGroup, member: ConsumerMember, target_epoch: int) -> bool:
    current = member.current
    if current.epoch < target_epoch or current.state is _REVOKING:
        return True
    return current.state is _WAITING and has_all_free(group, member)


def leave(group: ConsumerGroup, event: ClassicLeave, out: Outcome) -> None:
    """Remove the named members, of either protocol, in one batch."""
    found = [_find(group, one) for one in event.request.members]
    leavers = {one.member_id: one for one, _ in found if one is not None}
    replies = tuple(
        LeftMember(entry.member_id, entry.group_instance_id, error)
        for entry, (_, error) in zip(event.request.members, found, strict=True)
    )
    if leavers:
        for one in leavers.values():
            if one.connection == event.ref.connection:
                one.connection = -1  # the leaving client gets the reply
        first = next(iter(leavers.values()))
        reason = next((one.reason[:LONGEST_REASON] for one in event.request.members if one.reason), "no reason given")
        line = first.subscription
        is_other = (event.sender.client_id, event.sender.client_host) != (line.client_id, line.client_host)
        by = f" removed by {_named(event.sender)}" if is_other else ""
        detail = f"{described(first)}{by}: {reason}"
        origin, act = (event.sender, "evict") if is_other else (None, "")
        remove(group, list(leavers.values()), ConsumerCause.LEFT, detail, out, origin=origin, act=act)
    out.reply(event.ref, LeaveGroupReply(members=replies))


def _named(sender: Origin) -> str:
    return client_text(sender.client_id, sender.client_host)


def _find(group: ConsumerGroup, entry: LeavingMember) -> tuple[ConsumerMember | None, ErrorCode]:
    """Return the member that an entry names, or the error. An administrator names an instance without a member id."""
    member_id, instance_id = entry.member_id, entry.group_instance_id
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is None:
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        if member_id and holder != member_id:
            return None, ErrorCode.FENCED_INSTANCE_ID
        member_id = holder
    member = group.members.get(member_id)
    return member, ErrorCode.NONE if member is not None else ErrorCode.UNKNOWN_MEMBER_ID


def fence_absent(group: ConsumerGroup, event: ClassicRejoinOverdue, out: Outcome) -> None:
    """Remove the classic member that did not join again in its rebalance timeout."""
    member = group.members.get(event.member_id)
    if member is not None and member.rejoin_until_ms >= 0:
        timeout_ms = member.subscription.rebalance_timeout_ms
        detail = f"did not join again in {timeout_ms} ms: {described(member)}"
        remove(group, [member], ConsumerCause.NOT_REJOINED, detail, out)


def fence_unsynced(group: ConsumerGroup, event: ClassicSyncOverdue, out: Outcome) -> None:
    """Remove the classic member that did not sync in its rebalance timeout."""
    member = group.members.get(event.member_id)
    if member is not None and member.sync_until_ms >= 0:
        timeout_ms = member.subscription.rebalance_timeout_ms
        remove(group, [member], ConsumerCause.NOT_SYNCED, f"no SyncGroup in {timeout_ms} ms: {described(member)}", out)


def members_taken(group: ConsumerGroup, event: ClassicMembersTaken, out: Outcome) -> None:
    """Start the sessions of the members that the group had as a classic one; they notice the change at their next
    request."""
    for member_id, connection, principal in event.members:
        member = group.members.get(member_id)
        if member is not None and member.session is None:
            if principal is not None:
                member.sender = Origin("", "", principal=principal)
            member.connection = connection
            restart_session(group, member, out)
    note(group, out, ConsumerCause.UPGRADED, event.member_id, event.detail, kind="converted")
