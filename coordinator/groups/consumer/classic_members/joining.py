"""Actions of a JoinGroup: a classic member joins a consumer group, or joins again. There is no leader, and no join is
parked (docs/spec/consumer-group-protocol.md#12.1)."""

from msgspec.structs import replace

from coordinator.groups.consumer.classic_members.downgrade import downgrade_by_replacement, may_downgrade
from coordinator.groups.consumer.classic_members.protocols import owned_partitions
from coordinator.groups.consumer.delayed import end_rejoin, keep_alive, restart_session, time_first_sync
from coordinator.groups.consumer.events import ClassicJoin, ClassicMemberAdmitted
from coordinator.groups.consumer.guards import holder_of
from coordinator.groups.consumer.members import known_member, new_member, replacement, update
from coordinator.groups.consumer.state import ConsumerGroup, Current
from coordinator.groups.consumer.target import note_came
from coordinator.groups.outcome import Outcome
from coordinator.records.consumer_records import ClassicMetadata, ConsumerMemberRecord
from protocol.consumer_protocol import PROTOCOL_TYPE, Subscription, decode_subscription
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroupReply


def hand_out_id(group: ConsumerGroup, event: ClassicJoin, out: Outcome) -> None:
    """Return to a new member the id for its next JoinGroup. The id is not stored: any id is accepted then."""
    member_id = out.ids.member_id(event.client_id)
    out.reply_at_once(event.ref, JoinGroupReply(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))


def join(group: ConsumerGroup, event: ClassicJoin, out: Outcome) -> None:
    """Add the member, replace the previous member of its instance, or let a member of either protocol join again. A
    JoinGroup on an older connection than the member's last one has come late: it does not tell what the member owns."""
    request = event.request
    holder = holder_of(group, request.group_instance_id) if not request.member_id else None
    member = group.members.get(request.member_id)
    member_id = request.member_id or out.ids.member_id(request.group_instance_id or event.client_id)
    subscription = decode_subscription(request.protocols[0].metadata)
    if holder is not None:
        line = _line(event, member_id, subscription, holder.subscription)
        change = replacement(group, holder, line, event)
        if may_downgrade(group, [holder], is_replaced=True):
            downgrade_by_replacement(group, change, event, out)
            return
    elif member is not None:
        change = known_member(group, member, _line(event, member_id, subscription, member.subscription), event.sender)
    else:
        change = new_member(_line(event, member_id, subscription, None), event.sender)
    is_late = member is not None and event.ref.connection < member.joined_connection
    owned = None if is_late else owned_partitions(subscription, group.topics)
    current = update(group, change, owned, out, event.sees)
    must_sync = member is None or not member.is_classic or not _is_told(member.current, current)
    admission = ClassicMemberAdmitted(group.group_id, member_id, event.ref.connection, must_sync, event.sender)
    out.follow_ups.append(admission)
    reply = JoinGroupReply(
        generation_id=current.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
        member_id=member_id,
    )
    out.reply(event.ref, reply)


def admitted(group: ConsumerGroup, event: ClassicMemberAdmitted, out: Outcome) -> None:
    """Start the session of a member whose record was applied, and the time in which it must sync. A JoinGroup after
    which SyncGroup answers as before starts none: it may have come late, and its member has synced since."""
    member = group.members[event.member_id]
    member.connection = member.joined_connection = event.connection
    member.sender = event.sender
    restart_session(group, member, out)
    end_rejoin(group, member, out)
    if event.must_sync or member.sync_until_ms >= 0:
        time_first_sync(group, member, out)
    note_came(group, event.member_id, out)


def extend_refused_join(group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    """Extend the session of a member whose JoinGroup the node cannot serve now: it sends no Heartbeat until it has
    joined."""
    if (member := group.members.get(member_id)) is not None:
        keep_alive(group, member, now_ms)


def _is_told(before: Current, current: Current) -> bool:
    """Return true if SyncGroup answers as before: the previous epoch alone may have caught up."""
    return before._replace(previous_epoch=current.previous_epoch) == current


def _line(
    event: ClassicJoin, member_id: str, subscription: Subscription, before: ConsumerMemberRecord | None
) -> ConsumerMemberRecord:
    """Build the member's record. It keeps its server-side assignor, and loses its regular expression."""
    request = event.request
    line = before or ConsumerMemberRecord(request.group_id, member_id)
    timeout_ms = request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
    return replace(
        line,
        member_id=member_id,
        instance_id=line.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=line.rack_id if subscription.rack_id is None else subscription.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=timeout_ms,
        classic=ClassicMetadata(
            request.session_timeout_ms, tuple((one.name, one.metadata) for one in request.protocols)
        ),
    )
