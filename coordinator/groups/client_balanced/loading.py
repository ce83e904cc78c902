"""Where records meet a group: `apply` is the only mutator of hard state, live and at load alike. Also a group's
arrival, its departure, and what to do when the log refuses."""

from coordinator.groups.client_balanced.delayed import DelayedLease, lease_key
from coordinator.groups.client_balanced.events import AppendFailed, LeaseOverdue, Loaded, MetaMade, Unloaded
from coordinator.groups.client_balanced.members import watch_lease
from coordinator.groups.client_balanced.state import BalancedGroup, GroupState, Member, bytes_of, bytes_of_member
from coordinator.groups.outcome import Outcome
from coordinator.records.records import BalancedMember, BalancedMetadata
from protocol.messages.groups import CoordinatorMoved

_TRY_AGAIN_MS = 1_000


def apply(group: BalancedGroup, record: BalancedMetadata) -> None:
    """Make the group what the record says: Online with members, Empty without. Members it had already keep what is
    soft."""
    known = group.members
    group.stored = record
    group.state = GroupState.ONLINE if record.members else GroupState.EMPTY
    group.members = {}
    for line in record.members:
        group.members[line.consumer_id] = _member(known.get(line.consumer_id), line)
    group.metadata_bytes = bytes_of(record.topics, record.filters) + sum(map(bytes_of_member, record.members))
    if not record.members:
        group.readings.clear()


def _member(known: Member | None, line: BalancedMember) -> Member:
    if known is None:
        return Member(
            line.consumer_id,
            line.instance_id,
            line.client_id,
            line.client_host,
            line.node_id,
            line.consume_position,
            line.session_timeout_ms,
            line.epoch,
            line.mark,
            line.attempt,
        )
    known.instance_id, known.node_id, known.consume_position = line.instance_id, line.node_id, line.consume_position
    known.client_id, known.client_host = line.client_id, line.client_host
    known.session_timeout_ms, known.epoch, known.mark = line.session_timeout_ms, line.epoch, line.mark
    known.attempt = line.attempt
    return known


def loaded(group: BalancedGroup, event: Loaded, out: Outcome) -> None:
    """Everyone has a full lease from now on, so that nobody's partitions are another's before it was time
    (docs/spec/client-balanced-groups.md#15.5)."""
    for member in group.members.values():
        watch_lease(group, member, out)


def unload(group: BalancedGroup, event: Unloaded, out: Outcome) -> None:
    """Another node serves the group from now on."""
    for member in group.members.values():
        out.cancel(lease_key(group.group_id, member.consumer_id))
        if member.connection >= 0:
            out.pushes.append((member.connection, CoordinatorMoved(group.group_id, -1, "", -1)))
    group.members, group.readings = {}, {}
    group.become(GroupState.DEAD)


def undo(group: BalancedGroup, event: AppendFailed, out: Outcome) -> None:
    """Nothing of it happened: who asked is told, a lease is looked at again soon, and so are the topics."""
    failed = event.event
    if isinstance(failed, LeaseOverdue):
        member = group.members[failed.consumer_id]
        member.deadline_ms = out.moment.monotonic_ms + _TRY_AGAIN_MS
        member.lease = DelayedLease(group, member)
        out.watch(member.lease)
    elif isinstance(failed, MetaMade):
        group.meta_as_of = -1
    else:
        refused = getattr(failed, "refused", None)
        assert refused is not None, f"{type(failed).__name__} yields no records"
        out.reply_at_once(failed.ref, refused(event.error_code))  # type: ignore[union-attr]
