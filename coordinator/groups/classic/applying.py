"""Records applied to a group, live and at load alike: `apply` and `replace_member`, called by `Shard.apply` alone,
change hard state. Also load, unload, and the recovery from a failed append."""

import msgspec

from coordinator.groups.classic.events import (
    AppendFailed,
    Claim,
    Deleted,
    DeleteOffsets,
    InitialDelayOver,
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
from coordinator.groups.classic.notes import Cause
from coordinator.groups.classic.owning import drop_leases, resume_leases, retry_end_of_ownership
from coordinator.groups.classic.rebalance import begin_rebalance, fail_assignment, restart_session
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.outcome import Outcome
from coordinator.keys import MemberKey
from coordinator.records.records import GroupMetadata, MemberRecord, MemberReplaced
from protocol.errors import ErrorCode
from protocol.messages.groups import CoordinatorMoved, JoinGroupReply, JoinProtocol, SyncGroupReply


def apply(group: ClassicGroup, record: GroupMetadata, *, live: bool) -> None:
    """Set the group to the record: Stable with members, else Empty (docs/spec/group-protocol.md#5.3). Applied live,
    members already in the group keep their parked requests and full lists of protocols. New members, and at load all
    members, are as recorded and offer the chosen protocol alone."""
    known = group.members if live else {}
    group.stored = record
    group.generation_id = record.generation_id
    group.protocol_type = record.protocol_type or None
    group.protocol_name = record.protocol
    group.state = GroupState.STABLE if record.members else GroupState.EMPTY
    group.state_since_ms = record.state_timestamp_ms
    group.members, group.static_members, group.supported = {}, {}, {}
    group.awaiting_join = group.awaiting_sync = group.metadata_bytes = 0
    group.leader = record.leader
    for line in record.members:
        member = known.get(line.member_id) or _member(line, record.protocol)
        member.assignment = line.assignment
        group.add(member)
    for member_id in [member_id for member_id in group.pending_sync if member_id not in group.members]:
        del group.pending_sync[member_id]


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
    if len(group.members) > group.settings.max_size:
        detail = f"{len(group.members)} members, {group.settings.max_size} allowed"
        begin_rebalance(group, out, Cause.GROUP_TOO_LARGE, "", detail)


def unload(group: ClassicGroup, event: Unloaded, out: Outcome) -> None:
    """Answer every parked request: the node stops serving the group, and clients look for its coordinator again
    (docs/spec/group-protocol.md#5.4)."""
    for member in group.members.values():
        ref = group.take_join(member)
        if ref is not None:
            refused = JoinGroupReply(error_code=ErrorCode.NOT_COORDINATOR, member_id=member.member_id)
            out.reply_at_once(ref, refused)
        ref = group.take_sync(member)
        if ref is not None:
            out.reply_at_once(ref, SyncGroupReply(error_code=ErrorCode.NOT_COORDINATOR))
        if member.session is not None:
            out.cancel(member.session.key)
        if member.connection >= 0:
            out.pushes.append((member.connection, CoordinatorMoved(group.group_id, -1, "", -1)))
    for member_id in group.pending:
        out.cancel(MemberKey(group.group_id, member_id))
    drop_leases(group, out)
    if group.phase is not None:
        out.cancel(group.phase.key)
        group.phase = None
    group.members.clear()
    group.static_members.clear()
    group.supported.clear()
    group.metadata_bytes = 0
    group.pending.clear()
    group.pending_sync.clear()
    group.leader = None
    group.become(GroupState.DEAD, out.moment.wall_ms)


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
        # The Empty record is lost, yet the group is empty: after a crash the old members load again, and they expire.
        group.protocol_name = None
        group.become(GroupState.EMPTY, out.moment.wall_ms)
        resume_leases(group, out)
    elif isinstance(failed, OwnershipEnded):
        retry_end_of_ownership(group, failed, out)
    elif isinstance(failed, RetentionDue):
        pass  # the next run finds the same offsets and deletes them
    else:
        raise AssertionError(f"{type(failed).__name__} yields no records")
