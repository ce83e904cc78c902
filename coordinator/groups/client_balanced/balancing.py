"""Server-balanced groups: the coordinator assigns the partitions from time to time, and members register them
(docs/spec/client-balanced-groups.md#12).

An assignment itself changes no owner: as in a client-balanced group, members own the partitions that they have
registered. A partition is offered to its new member once its owner has released it. All this is soft state: after a
restart the next pass computes it again.
"""

from collections.abc import Iterable
from hashlib import blake2b

from coordinator.groups.client_balanced.events import BalanceDue, PartitionsFreed
from coordinator.groups.client_balanced.notes import BalancedCause, note
from coordinator.groups.client_balanced.state import BalancedGroup, BalancedGroupMember
from coordinator.groups.outcome import Outcome
from coordinator.groups.ownership import Key
from membership.assignors import Subscriber, assign_sticky
from membership.assignors.user_data import sticky_user_data
from membership.topic_partition import TopicPartition
from protocol.messages.balanced import PartitionsChanged
from protocol.words import counted


def assign(group: BalancedGroup, event: BalanceDue, out: Outcome) -> None:
    """Assign the partitions evenly, and move as few as possible. Does nothing if members and partitions are those of
    the last pass."""
    made_for = (*group.members, group.on_record.meta_version)
    if not group.is_server_balanced or made_for == group.assigned_for:
        return
    group.assigned_for = made_for
    targets = _targets(group)
    moved = 0
    for member in group.members.values():
        before = {key for _text, key in member.target or ()}
        member.target = targets[member.consumer_id]
        moved += sum(key not in before for _text, key in member.target)
        _offer(group, member, out)
    detail = f"{counted(len(group.meta), 'partition')} over {len(group.members)} members, {moved} to a new one"
    note(group, out, BalancedCause.ASSIGNED, "", detail, len(group.members), kind="admin")


def _targets(group: BalancedGroup) -> dict[str, tuple[tuple[str, Key], ...]]:
    """Return the partitions by member. All configured partitions are assigned, and those that cannot be read are
    removed afterwards, so that an outage moves no other partition."""
    keys = {group.place_of(text): text for text in group.meta}
    counts: dict[str, int] = {}
    for place in keys:
        if place is not None:
            counts[place[0]] = max(counts.get(place[0], 0), place[1] + 1)
    topics = tuple(counts)
    members = [Subscriber(name, topics, user_data=_owned(group, name)) for name in group.members]
    return {
        name: tuple(
            (text, (one.topic, one.partition))
            for one in ones
            if (text := keys.get((one.topic, one.partition))) is not None and group.meta[text].subscribable
        )
        for name, ones in assign_sticky(counts, members).items()
    }


def _owned(group: BalancedGroup, consumer_id: str) -> bytes | None:
    return sticky_user_data([TopicPartition(one.topic, one.partition) for one in group.owners.of(consumer_id)], 0)


def offer_freed(group: BalancedGroup, event: PartitionsFreed, out: Outcome) -> None:
    """Offer released partitions to the members whose targets have them."""
    for member in group.members.values():
        if len(member.offered) < len(member.target or ()):
            _offer(group, member, out)


def _offer(group: BalancedGroup, member: BalancedGroupMember, out: Outcome) -> None:
    """Compute the partitions that the member may own now. If they have changed, notify it; the reply to its next
    heartbeat has the keys."""
    before = member.offered_id
    _set_offered(group, member)
    if member.offered_id != before and member.connection >= 0:
        out.pushes.append((member.connection, PartitionsChanged(group.group_id, group.on_record.topics)))


def offered_id(group: BalancedGroup, member: BalancedGroupMember) -> int:
    """Return the id of the member's present offer; equal in every process for equal keys."""
    if len(member.offered) < len(member.target or ()):
        _set_offered(group, member)
    return member.offered_id


def _set_offered(group: BalancedGroup, member: BalancedGroupMember) -> None:
    target = member.target or ()
    member.offered = {text: None for text, key in target if _may_own(group, member.consumer_id, key)}
    member.offered_id = _id_of(member.offered)


def _may_own(group: BalancedGroup, consumer_id: str, key: Key) -> bool:
    entry = group.owners.get(key)
    return entry is None or (entry.owner is not None and entry.owner.member_id == consumer_id)


def _id_of(keys: Iterable[str]) -> int:
    digest = blake2b("\n".join(keys).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1 | 1  # never NO_ASSIGNMENT
