"""Actions of heartbeats: joining and staying (docs/spec/consumer-group-protocol.md#2.4)."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.groups.consumer.delayed import end_first_sync, end_rejoin, keep_alive, restart_session
from coordinator.groups.consumer.events import ConsumerBeat, ConsumerJoin, MemberAdmitted, MemberRequest
from coordinator.groups.consumer.guards import holder_of, is_current_epoch, is_member, is_own_instance
from coordinator.groups.consumer.members import known_member, new_member, replacement, update
from coordinator.groups.consumer.reconciliation import Owned
from coordinator.groups.consumer.state import Assigned, ConsumerGroup
from coordinator.groups.consumer.subscriptions import Change
from coordinator.groups.consumer.target import note_came
from coordinator.groups.outcome import Outcome
from coordinator.records.consumer_records import ConsumerMemberRecord, ReconciliationState
from protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    MemberAssignment,
    TopicIdPartitions,
)

_UNCHANGED_MS = -1
_STABLE: Final = ReconciliationState.STABLE


def join(group: ConsumerGroup, event: ConsumerJoin, out: Outcome) -> None:
    """Add the member, replace the previous member of its instance, or let a member join again."""
    holder = holder_of(group, event.instance_id)
    member = group.members.get(event.member_id)
    if holder is not None:
        change = replacement(group, holder, _line(event, holder.subscription), event)
    elif member is not None:
        change = known_member(group, member, _line(event, member.subscription), event.sender)
    else:
        change = new_member(_line(event, None), event.sender)
    _beat(group, event, change, out)


def stay(group: ConsumerGroup, event: ConsumerBeat, out: Outcome) -> None:
    """Extend the member's session, apply the changes in its request, and let it take its next step."""
    sender = event.ref.connection, event.client_id, event.client_host
    if (idle := answer_idle(group, event.request, *sender, now_ms=out.moment.monotonic_ms)) is not None:
        out.reply(event.ref, idle)
        return
    member = group.members[event.member_id]
    _beat(group, event, known_member(group, member, _line(event, member.subscription), event.sender), out)


def extend_refused(group: ConsumerGroup, event: ConsumerBeat, now_ms: int) -> None:
    """Extend the session of a member whose heartbeat the node cannot serve now: a slow disk, or a broker, must not make
    members look dead. Heartbeats of no member, or of a wrong epoch, keep nobody alive."""
    if not (is_own_instance(group, event) or is_member(group, event) or is_current_epoch(group, event)):
        keep_alive(group, group.members[event.member_id], now_ms)


def answer_idle(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeat,
    connection: int,
    client_id: str,
    client_host: str,
    now_ms: int,
) -> ConsumerGroupHeartbeatReply | None:
    """Extend the session and return the reply if the heartbeat says no more than that its member lives, and no step
    would change anything, as nearly always. Else return None, with nothing done."""
    member = group.members.get(request.member_id)
    if member is None or member.session is None:
        return None
    current, line, epoch = member.current, member.subscription, group.target_epoch
    deadline_ms = now_ms + group.settings.session_timeout_ms
    if (
        request.member_epoch != epoch
        or current.epoch != epoch
        or current.state is not _STABLE
        or group.epoch != epoch
        or request.topic_partitions is not None
        or request.subscribed_topic_names is not None
        or request.rebalance_timeout_ms != _UNCHANGED_MS
        or request.subscribed_topic_regex is not None
        or request.server_assignor is not None
        or request.rack_id is not None
        or (request.instance_id is not None and request.instance_id != line.instance_id)
        or group.regexes
        or group.topics_version != group.topics.version
        or not group.topics.is_known
        or connection != member.connection
        or client_id != line.client_id
        or client_host != line.client_host
        or line.classic is not None
        or deadline_ms < member.deadline_ms
    ):
        return None
    member.deadline_ms = deadline_ms
    reply, interval_ms = member.idle_reply, group.settings.heartbeat_interval_ms
    if reply is None or reply.member_epoch != epoch or reply.heartbeat_interval_ms != interval_ms:
        reply = member.idle_reply = ConsumerGroupHeartbeatReply(
            member_id=member.member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms
        )
    return reply


def _beat(group: ConsumerGroup, event: MemberRequest, change: Change, out: Outcome) -> None:
    """Let the member take its next step. It is told its assignment if that has changed, if it asks for it, or if it was
    told on another connection: the heartbeat that was answered there may have come late, and its reply is lost. A
    heartbeat on a connection older than the member's present one has come late: the partitions that it reports are
    those of then, and acknowledge no revocation."""
    member = group.members.get(event.member_id)
    owned = None if member is not None and event.ref.connection < member.connection else _owned(event.request)
    current = update(group, change, owned, out, event.sees)
    is_told = (
        event.request.member_epoch == 0
        or _is_full(event.request)
        or (
            current.assigned is not change.current.assigned
            and _partitions(current.assigned) != _partitions(change.current.assigned)
        )
        or (member is not None and member.told_connection not in {-1, event.ref.connection})
    )
    if change.replaced is None and member is not None and not member.is_classic:
        member.connection, member.sender = event.ref.connection, event.sender
        restart_session(group, member, out)
        if is_told:
            member.told_connection = event.ref.connection
    else:
        admission = MemberAdmitted(group.group_id, change.member_id, event.ref.connection, event.sender)
        out.follow_ups.append(admission)
    reply = ConsumerGroupHeartbeatReply(
        member_id=change.member_id,
        member_epoch=current.epoch,
        heartbeat_interval_ms=group.settings.heartbeat_interval_ms,
        assignment=_assignment(current.assigned) if is_told else None,
    )
    out.reply(event.ref, reply)


def admitted(group: ConsumerGroup, event: MemberAdmitted, out: Outcome) -> None:
    """Start the session of a member whose record was applied. A former classic member need not join again."""
    member = group.members[event.member_id]
    member.connection, member.sender = event.connection, event.sender
    member.told_connection = event.connection
    restart_session(group, member, out)
    end_rejoin(group, member, out)
    end_first_sync(group, member, out)
    note_came(group, event.member_id, out)


def _line(event: MemberRequest, before: ConsumerMemberRecord | None) -> ConsumerMemberRecord:
    """Build the member's record: fields missing in the request stay unchanged. A consumer heartbeat ends the use of the
    classic protocol."""
    request = event.request
    if before is None:
        before = ConsumerMemberRecord(request.group_id, request.member_id)
    said: dict[str, Any] = {
        "member_id": request.member_id,
        "client_id": event.client_id,
        "client_host": event.client_host,
        "classic": None,
    }
    for field in ("instance_id", "rack_id", "subscribed_topic_regex", "server_assignor"):
        if (value := getattr(request, field)) is not None:
            said[field] = value
    if request.subscribed_topic_names is not None:
        said["subscribed_topic_names"] = tuple(sorted(set(request.subscribed_topic_names)))
    if request.rebalance_timeout_ms != _UNCHANGED_MS:
        said["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    return replace(before, **said)


def _owned(request: ConsumerGroupHeartbeat) -> Owned | None:
    if request.topic_partitions is None:
        return None
    owned: dict[bytes, set[int]] = {}
    for one in request.topic_partitions:
        owned.setdefault(one.topic_id, set()).update(one.partitions)
    return owned


def _is_full(request: ConsumerGroupHeartbeat) -> bool:
    is_subscribing = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != _UNCHANGED_MS and is_subscribing and request.topic_partitions is not None


def _partitions(assigned: Assigned) -> Mapping[bytes, frozenset[int]]:
    return {topic_id: frozenset(epochs) for topic_id, epochs in assigned.items()}


def _assignment(assigned: Assigned) -> MemberAssignment:
    return MemberAssignment(
        tuple([TopicIdPartitions(topic_id, tuple(sorted(ones))) for topic_id, ones in assigned.items()])
    )
