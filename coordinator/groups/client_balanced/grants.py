"""Functions that actions share: grant a partition, end a grant, and the error for a client that does not own the
partition."""

from coordinator.groups.client_balanced.events import OffsetsByKey, PartitionOffsets, PartitionsFreed, PositionsStored
from coordinator.groups.client_balanced.state import BalancedGroup, BalancedGroupMember, Reading
from coordinator.groups.outcome import Outcome
from coordinator.groups.ownership import Key
from coordinator.records.records import CommittedOffset, Owner, Ownership
from protocol.errors import ErrorCode
from protocol.messages.balanced import ReleasedKey

Positions = list[tuple[str, int, int, int]]

FIRST, LATEST, ALWAYS_MAX = "first", "latest", "always_max"
CONSUME_POSITIONS = (FIRST, LATEST, ALWAYS_MAX)


def initial_position(policy: str, place: PartitionOffsets, *, is_first: bool) -> int:
    """Return where a reader without an offset begins (docs/spec/client-balanced-groups.md#7). A stored offset that is
    out of range is moved to the nearest valid one."""
    if is_first and policy == ALWAYS_MAX:
        return place.end
    if place.committed >= 0:
        return place.clamp(place.committed)
    return place.end if is_first and policy == LATEST else place.begin


def grant(group: BalancedGroup, member_id: str, lease_ms: int, key: Key, position: int, out: Outcome) -> Ownership:
    """Record a new grant: the member owns the partition, and reads from the position."""
    owner = Owner(member_id, -1, -1, out.moment.wall_ms, lease_ms, position)
    record = group.owners.granted(group.group_id, key, owner)
    out.records.append(record)
    return record


def owns(group: BalancedGroup, member_id: str, key: Key) -> Ownership | None:
    """Return the member's grant of the partition, if it has one."""
    entry = group.owners.get(key)
    return entry if entry is not None and entry.owner is not None and entry.owner.member_id == member_id else None


def end_all(group: BalancedGroup, member_id: str, out: Outcome) -> tuple[str, ...]:
    """Record the end of every grant of the member. The next owner reads records again that the member did not confirm.
    Return the keys of the grants."""
    entries = group.owners.of(member_id)
    out.records.extend(map(group.owners.ended, entries))
    return tuple([group.key_of(entry) for entry in entries])


def end(group: BalancedGroup, entry: Ownership, released: ReleasedKey, places: OffsetsByKey, out: Outcome) -> int:
    """Record the end of the grant; the batch in flight counts as consumed if the release says so. Return the committed
    offset; -1 if there is none."""
    place = places.get(group.key_of(entry))
    committed = -1 if place is None else place.committed
    if released.consumed and place is not None:
        offset = consumed_to(group, entry, place, released.offset)
        if offset is not None:
            committed = offset
            out.records.append(commit(group, entry, offset, out))
    out.records.append(group.owners.ended(entry))
    return committed


def consumed_to(group: BalancedGroup, entry: Ownership, place: PartitionOffsets, offset: int | None) -> int | None:
    """Return the offset to store for an owner that releases the partition: the one that it names, if that is ahead, or
    the end of the batch in flight."""
    reading = group.reading(entry, place.committed)
    if offset is None:
        return reading.in_flight
    return offset if reading.position < offset <= place.end else None


def commit(group: BalancedGroup, entry: Ownership, offset: int, out: Outcome, metadata: str = "") -> CommittedOffset:
    """Build the record of a commit."""
    return CommittedOffset(group.group_id, entry.topic, entry.partition, offset, -1, metadata, out.moment.wall_ms)


def ownership_error(group: BalancedGroup, key: Key, consumer_id: str) -> ErrorCode:
    """Return the error for a client that does not own the partition by the grant it names: another member owns it, or
    no member does. A replaced object always gets the first of these errors."""
    if consumer_id in group.on_record.replaced or group.owners.get(key) is not None:
        return ErrorCode.DUPLICATE_PARTITION
    return ErrorCode.NO_NODE


def offer_soon(group: BalancedGroup, out: Outcome) -> None:
    """Add the follow-up event that offers released partitions to the members of a server-balanced group."""
    if out.records and group.is_server_balanced:
        out.follow_ups.append(PartitionsFreed(group.group_id))


def set_positions(group: BalancedGroup, positions: Positions, out: Outcome) -> None:
    """Add the follow-up event that sets the positions of the grants once the records are applied."""
    if positions:
        out.follow_ups.append(PositionsStored(group.group_id, tuple(positions)))


def positions_stored(group: BalancedGroup, event: PositionsStored, out: Outcome) -> None:
    """Set the positions of the grants, with nothing in flight."""
    for topic, partition, epoch, position in event.positions:
        group.readings[topic, partition] = Reading(epoch, position)


def extend_lease(member: BalancedGroupMember, now_ms: int) -> None:
    """Move the member's deadline: its lease covers all its partitions."""
    member.heard_ms = now_ms
    deadline_ms = now_ms + member.session_timeout_ms
    if deadline_ms > member.deadline_ms:
        member.deadline_ms = deadline_ms


def set_in_flight(group: BalancedGroup, key: str, consumer_id: str, epoch: int, position: int, up_to: int) -> None:
    """Store that records from `position` to `up_to` were sent. This is soft state: without a confirmation they are sent
    again."""
    place = group.place_of(key)
    if place is not None and group.grant(place, consumer_id, epoch) is not None:
        group.readings[place] = Reading(epoch, position, up_to if up_to > position else None)
