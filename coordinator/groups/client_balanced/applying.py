"""Records applied to a group, live and at load alike: `apply`, called by `Shard.apply` alone, changes hard state. Also
load, unload, and the recovery from a failed append."""

from coordinator.groups.client_balanced.delayed import DelayedBalancedLease
from coordinator.groups.client_balanced.events import (
    BalancedAppendFailed,
    BalancedLoaded,
    BalancedUnloaded,
    LeaseOverdue,
    MetaMade,
)
from coordinator.groups.client_balanced.members import watch_lease
from coordinator.groups.client_balanced.state import (
    BalancedGroup,
    BalancedGroupMember,
    BalancedState,
    bytes_of,
    bytes_of_member,
)
from coordinator.groups.outcome import Outcome
from coordinator.keys import BalancedLeaseKey
from coordinator.records.records import BalancedMember, BalancedMetadata
from protocol.messages.groups import CoordinatorMoved

_TRY_AGAIN_MS = 1_000


def apply(group: BalancedGroup, record: BalancedMetadata) -> None:
    """Set the group to the record: Online with members, Empty without. Members already in the group keep their soft
    state."""
    known = group.members
    group.stored = record
    group.state = BalancedState.ONLINE if record.members else BalancedState.EMPTY
    group.members = {}
    for line in record.members:
        group.members[line.consumer_id] = _member(known.get(line.consumer_id), line)
    group.metadata_bytes = bytes_of(record.topics, record.filters) + sum(map(bytes_of_member, record.members))
    if not record.members:
        group.readings.clear()


def _member(known: BalancedGroupMember | None, line: BalancedMember) -> BalancedGroupMember:
    if known is None:
        return BalancedGroupMember(
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


def loaded(group: BalancedGroup, event: BalancedLoaded, out: Outcome) -> None:
    """Start a full lease for every member, so that no partition changes its owner too early
    (docs/spec/client-balanced-groups.md#15.5)."""
    for member in group.members.values():
        watch_lease(group, member, out)


def unload(group: BalancedGroup, event: BalancedUnloaded, out: Outcome) -> None:
    """Cancel the leases: the node stops serving the group, and clients send FindCoordinator again."""
    for member in group.members.values():
        out.cancel(BalancedLeaseKey(group.group_id, member.consumer_id))
        if member.connection >= 0:
            out.pushes.append((member.connection, CoordinatorMoved(group.group_id, -1, "", -1)))
    group.members, group.readings = {}, {}
    group.become(BalancedState.DEAD)


def undo(group: BalancedGroup, event: BalancedAppendFailed, out: Outcome) -> None:
    """Answer the event with the error: its records were not appended. A lease is checked again soon, and so are the
    topics."""
    failed = event.event
    if isinstance(failed, LeaseOverdue):
        member = group.members[failed.consumer_id]
        member.deadline_ms = out.moment.monotonic_ms + _TRY_AGAIN_MS
        member.lease = DelayedBalancedLease(group, member)
        out.watch(member.lease)
    elif isinstance(failed, MetaMade):
        group.meta_as_of = -1
    else:
        refused = getattr(failed, "refused", None)
        assert refused is not None, f"{type(failed).__name__} yields no records"
        out.reply_at_once(failed.ref, refused(event.error_code))  # type: ignore[union-attr]
