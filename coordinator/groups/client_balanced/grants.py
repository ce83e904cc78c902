"""What several verbs do with grants: give, end, and say why somebody does not own."""

from coordinator.groups.client_balanced.events import Place, Places, Settled
from coordinator.groups.client_balanced.state import BalancedGroup, Member, Reading
from coordinator.groups.outcome import Outcome
from coordinator.groups.ownership import Key
from coordinator.records.records import CommittedOffset, Owner, Ownership
from protocol.errors import ErrorCode
from protocol.messages.balanced import ReleasedKey

Positions = list[tuple[str, int, int, int]]

FIRST, LATEST, ALWAYS_MAX = "first", "latest", "always_max"
CONSUME_POSITIONS = (FIRST, LATEST, ALWAYS_MAX)


def initial_position(policy: str, place: Place, *, is_first: bool) -> int:
    """Where reading begins that names no offset (docs/spec/client-balanced-groups.md#7). What is stored and out of
    reach by now is moved to what is nearest."""
    if is_first and policy == ALWAYS_MAX:
        return place.end
    if place.committed >= 0:
        return place.clamp(place.committed)
    return place.end if is_first and policy == LATEST else place.begin


def grant(group: BalancedGroup, member_id: str, lease_ms: int, key: Key, position: int, out: Outcome) -> Ownership:
    """On record: the member owns the partition by a grant of its own, and begins at the position."""
    owner = Owner(member_id, -1, -1, out.moment.wall_ms, lease_ms, position)
    record = group.owners.granted(group.group_id, key, owner)
    out.records.append(record)
    return record


def owns(group: BalancedGroup, member_id: str, key: Key) -> Ownership | None:
    """The member's grant of the partition, if it has one."""
    entry = group.owners.get(key)
    return entry if entry is not None and entry.owner is not None and entry.owner.member_id == member_id else None


def end_all(group: BalancedGroup, member_id: str, out: Outcome) -> tuple[str, ...]:
    """On record: the member owns nothing. What it was handed out and did not confirm is for the next owner. The keys
    it had."""
    entries = group.owners.of(member_id)
    out.records.extend(map(group.owners.ended, entries))
    return tuple([group.key_of(entry) for entry in entries])


def end(group: BalancedGroup, entry: Ownership, released: ReleasedKey, places: Places, out: Outcome) -> int:
    """On record: the grant is over, and what was handed out last is consumed, or is not. What is committed then; -1 if
    nothing is."""
    place = places.get(group.key_of(entry))
    committed = -1 if place is None else place.committed
    if released.consumed and place is not None:
        offset = consumed_to(group, entry, place, released.offset)
        if offset is not None:
            committed = offset
            out.records.append(commit(group, entry, offset, out))
    out.records.append(group.owners.ended(entry))
    return committed


def consumed_to(group: BalancedGroup, entry: Ownership, place: Place, offset: int | None) -> int | None:
    """What is to be stored for an owner that is done with what it has: the offset it names, if that is news, or the end
    of what was handed out last."""
    reading = group.reading(entry, place.committed)
    if offset is None:
        return reading.in_flight
    return offset if reading.position < offset <= place.end else None


def commit(group: BalancedGroup, entry: Ownership, offset: int, out: Outcome, metadata: str = "") -> CommittedOffset:
    """The record of a commit."""
    return CommittedOffset(group.group_id, entry.topic, entry.partition, offset, -1, metadata, out.moment.wall_ms)


def why_not_owner(group: BalancedGroup, key: Key, consumer_id: str) -> ErrorCode:
    """What is said to somebody who does not own the partition by the grant it names: that it is another's, or that
    nobody's it is. An object that was replaced is told that its keys are another's in any case."""
    if consumer_id in group.on_record.replaced or group.owners.get(key) is not None:
        return ErrorCode.DUPLICATE_PARTITION
    return ErrorCode.NO_NODE


def settle_at(group: BalancedGroup, positions: Positions, out: Outcome) -> None:
    """When the records are applied the grants are there."""
    if positions:
        out.followers.append(Settled(group.group_id, tuple(positions)))


def settled(group: BalancedGroup, event: Settled, out: Outcome) -> None:
    """They are, with nothing in flight."""
    for topic, partition, epoch, position in event.positions:
        group.readings[topic, partition] = Reading(epoch, position)


def heard(member: Member, now_ms: int) -> None:
    """The member lives: its lease covers all that it owns."""
    member.heard_ms = now_ms
    deadline_ms = now_ms + member.session_timeout_ms
    if deadline_ms > member.deadline_ms:
        member.deadline_ms = deadline_ms


def took(group: BalancedGroup, key: str, consumer_id: str, epoch: int, position: int, up_to: int) -> None:
    """Records from `position` up to there were handed out. Nothing of it lasts: without a confirmation they are handed
    out again."""
    place = group.place_of(key)
    if place is not None and group.grant(place, consumer_id, epoch) is not None:
        group.readings[place] = Reading(epoch, position, up_to if up_to > position else None)
