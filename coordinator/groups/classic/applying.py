"""Records applied to a group, live and at load alike: `apply` and `replace_member`, called by `Shard.apply` alone,
change hard state. Also load, unload, and the recovery from a failed append."""

import msgspec

from coordinator.groups.classic.events import (
    AppendFailed,
    Claim,
    Client,
    Deleted,
    DeleteOffsets,
    InitialDelayOver,
    JoinAgain,
    JoinPhaseOver,
    Leave,
    Loaded,
    OwnershipEnded,
    Release,
    ReplaceStatic,
    RetentionDue,
    Sync,
    Unloaded,
)
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.notes import Cause, note
from coordinator.groups.classic.owning import drop_leases, resume_leases, retry_end_of_ownership
from coordinator.groups.classic.rebalance import begin_rebalance, fail_assignment, park, restart_session
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.conversions import ClassicAgain, Superseded
from coordinator.groups.outcome import Outcome
from coordinator.keys import MemberKey
from coordinator.records.records import (
    HOLDS_MORE_MS,
    REBALANCE_AFTER_LOAD_MS,
    GroupMetadata,
    MemberRecord,
    MemberReplaced,
)
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    CoordinatorMoved,
    JoinGroupReply,
    JoinProtocol,
    RebalanceStarted,
    SyncGroupReply,
)


def apply(group: ClassicGroup, record: GroupMetadata, *, live: bool) -> None:
    """Set the group to the record: Stable with members, else Empty (docs/spec/group-protocol.md#5.3). Applied live,
    members already in the group keep their parked requests and full lists of protocols. New members, and at load all
    members, are built from the record and offer only the chosen protocol."""
    known = group.members if live else {}
    group.stored = record
    group.generation_id = record.generation_id
    group.protocol_type = record.protocol_type or None
    group.protocol_name = record.protocol
    group.state = GroupState.STABLE if record.members else GroupState.EMPTY
    group.state_since_ms = record.state_timestamp_ms
    group.forget_members()
    group.awaiting_join = group.awaiting_sync = 0
    group.leader = record.leader
    for line in record.members:
        member = known.get(line.member_id) or _member(line, record.protocol)
        member.assignment = line.assignment
        group.add(member)
    for member_id in [member_id for member_id in group.pending_sync if member_id not in group.members]:
        group.synced(member_id)


def replace_member(group: ClassicGroup, record: MemberReplaced) -> None:
    """Give the instance's member another id, in the same place and with the same assignment. A record of another
    generation, or of an instance that the group does not have, is obsolete: compaction keeps the last record of each
    instance, however old."""
    stored, old_id = group.stored, group.static_members.get(record.instance_id)
    if stored is None or stored.generation_id != record.generation_id or old_id is None:
        return
    old = group.members[old_id]
    line = MemberRecord(
        member_id=record.member_id,
        group_instance_id=record.instance_id,
        client_id=record.client_id,
        client_host=record.client_host,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        session_timeout_ms=record.session_timeout_ms,
        subscription=record.subscription,
        assignment=old.assignment,
    )
    member = _member(line, stored.protocol)
    member.assignment = line.assignment
    leader = line.member_id if group.leader == old_id else group.leader
    place = [one.member_id for one in stored.members].index(old_id)
    lines = (*stored.members[:place], line, *stored.members[place + 1 :])
    group.stored = msgspec.structs.replace(stored, leader=leader, members=lines)
    group.replace(old, member)
    group.leader = leader


def _member(line: MemberRecord, protocol: str | None) -> Member:
    return Member(
        member_id=line.member_id,
        group_instance_id=line.group_instance_id,
        client_id=line.client_id,
        client_host=line.client_host,
        session_timeout_ms=line.session_timeout_ms,
        rebalance_timeout_ms=line.rebalance_timeout_ms,
        protocols=(JoinProtocol(protocol or "", line.subscription),),
        is_new=False,
    )


def loaded(group: ClassicGroup, event: Loaded, out: Outcome) -> None:
    """Start a full session for every member; a group above the limit rebalances so that it shrinks
    (docs/spec/group-protocol.md#5.3, #2.1.7)."""
    for member in group.members.values():
        restart_session(group, member, out)
    resume_leases(group, out)
    if group.members and group.state_since_ms in (REBALANCE_AFTER_LOAD_MS, HOLDS_MORE_MS):
        begin_rebalance(
            group, out, Cause.DOWNGRADED, group.leader or "", "the node started before they had joined again"
        )
    if len(group.members) > group.settings.max_size:
        detail = f"{len(group.members)} members, {group.settings.max_size} allowed"
        begin_rebalance(group, out, Cause.GROUP_TOO_LARGE, "", detail)


def unload(group: ClassicGroup, event: Unloaded, out: Outcome) -> None:
    """Answer every parked request: the node stops serving the group, and clients look for its coordinator again
    (docs/spec/group-protocol.md#5.4)."""
    drop_leases(group, out)
    _end(group, out, ErrorCode.NOT_COORDINATOR, CoordinatorMoved(group.group_id, -1, "", -1))


def supersede(group: ClassicGroup, event: Superseded, out: Outcome) -> None:
    """Answer the parked requests with REBALANCE_IN_PROGRESS, so that the members join again: the group became a
    consumer group, which has their state (docs/spec/consumer-group-protocol.md#13.2)."""
    cause, timeout_ms = "group upgraded", group.rebalance_timeout_ms
    news = RebalanceStarted(group.group_id, group.generation_id, cause, "", timeout_ms)
    _end(group, out, ErrorCode.REBALANCE_IN_PROGRESS, news)


def _end(group: ClassicGroup, out: Outcome, error_code: ErrorCode, push: Message) -> None:
    """Answer the parked requests, and cancel the delayed operations."""
    for member in group.members.values():
        ref = group.take_join(member)
        if ref is not None:
            refused = JoinGroupReply(error_code=error_code, member_id=member.member_id)
            out.reply_at_once(ref, refused)
        ref = group.take_sync(member)
        if ref is not None:
            out.reply_at_once(ref, SyncGroupReply(error_code=error_code))
        if member.session is not None:
            out.cancel(member.session.key)
        if member.connection >= 0:
            out.pushes.append((member.connection, push))
    for member_id in group.pending:
        out.cancel(MemberKey(group.group_id, member_id))
    if group.phase is not None:
        out.cancel(group.phase.key)
        group.phase = None
    group.forget_members()
    group.pending.clear()
    group.pending_sync.clear()
    group.leader = None
    group.become(GroupState.DEAD, out.moment.wall_ms)


def begin_again(group: ClassicGroup, event: ClassicAgain, out: Outcome) -> None:
    """Take over the members that the group had as a consumer group, and rebalance unless the assignment is complete
    (docs/spec/consumer-group-protocol.md#13.3)."""
    for one in event.members:
        member = group.members[one.member_id]
        group.offer(member, tuple([JoinProtocol(name, metadata) for name, metadata in one.protocols]))
        member.connection = one.connection
        if one.principal is not None:
            member.client = Client(member.client_id, member.client_host, principal=one.principal)
        restart_session(group, member, out)
    if event.is_settled:
        note(group, out, "converted", Cause.DOWNGRADED, event.initiator, event.detail)
        return
    if event.joining is not None:
        joining = event.joining
        client = Client(joining.client_id, joining.client_host, principal=joining.principal)
        park(group, group.members[event.initiator], JoinAgain(joining.ref, joining.request, client), out)
    begin_rebalance(group, out, Cause.DOWNGRADED, event.initiator, event.detail)


def undo(group: ClassicGroup, event: AppendFailed, out: Outcome) -> None:
    """Answer the event with the error and repair the soft state that its action touched
    (docs/spec/group-protocol.md#0.5): its records were not appended."""
    failed = event.event
    if isinstance(failed, Sync):
        fail_assignment(group, out, event.error_code)
    elif isinstance(failed, ReplaceStatic):
        reply = JoinGroupReply(
            error_code=event.error_code,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader or "",
        )
        out.reply_at_once(failed.ref, reply)
    elif isinstance(failed, DeleteOffsets | Deleted | Leave | Claim | Release):
        out.reply_at_once(failed.ref, failed.refused(event.error_code))
        resume_leases(group, out)  # the members left in any case
    elif isinstance(failed, JoinPhaseOver | InitialDelayOver):
        # The Empty record was not stored, yet the group is empty: after a crash the old members are loaded, and expire.
        group.protocol_name = None
        group.become(GroupState.EMPTY, out.moment.wall_ms)
        resume_leases(group, out)
    elif isinstance(failed, OwnershipEnded):
        retry_end_of_ownership(group, failed, out)
    elif isinstance(failed, RetentionDue):
        pass  # the next run finds the same offsets and deletes them
    else:
        raise AssertionError(f"{type(failed).__name__} yields no records")
