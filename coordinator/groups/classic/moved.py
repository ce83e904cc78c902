"""Partitions that change their owner with the leader's assignments, for the note on them."""

from collections.abc import Iterable, Mapping
from typing import Final

from coordinator.groups.classic.notes import Cause, note
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.outcome import Outcome
from protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from protocol.errors import ProtocolViolation

MOST_BYTES: Final = 16_384
"""Largest size of the new and the previous assignments that are read in one step; larger groups get no such note."""
_Key = tuple[str, int]


def note_moved(group: ClassicGroup, assignments: Mapping[str, bytes], out: Outcome) -> None:
    """Append a note on how many partitions move. Nothing is noted if the previous generation assigned none, or if the
    bytes are not an assignment of Kafka's consumer protocol."""
    if group.stored is None or group.protocol_type != PROTOCOL_TYPE:
        return
    before = [(one.group_instance_id or one.member_id, one.assignment) for one in group.stored.members]
    after = [
        (one.group_instance_id or one.member_id, assignments.get(one.member_id, b"")) for one in group.members.values()
    ]
    if sum(len(share) for _owner, share in (*before, *after)) > MOST_BYTES:
        return
    try:
        owners, next_owners = _owners(before), _owners(after)
    except ProtocolViolation:
        return
    if not owners:
        return
    kept = sum(next_owners.get(key) == owner for key, owner in owners.items())
    moved = len(owners) - kept
    note(
        group,
        out,
        "assigned",
        Cause.ASSIGNED,
        group.leader or "",
        f"{moved} of {len(owners)} moved",
        moved_partitions=moved,
        kept_partitions=kept,
    )


def _owners(shares: Iterable[tuple[str, bytes]]) -> dict[_Key, str]:
    """Return the owner of each partition. A static member is identified by its instance id. Raises
    ProtocolViolation."""
    return {
        (one.topic, partition): owner
        for owner, share in shares
        for one in decode_assignment(share).partitions
        for partition in one.partitions
    }
