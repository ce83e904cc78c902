"""`sticky` and `cooperative-sticky` (docs/spec/group-protocol.md#6.5 and #6.6): balance first, then stickiness."""

from collections.abc import Mapping, Sequence
from functools import partial

from membership.assignors.cooperative import withhold
from membership.assignors.equal import share_equally
from membership.assignors.general import share_generally
from membership.assignors.model import NO_RACKS, UNKNOWN_GENERATION, Assignment, Racks, Subscriber
from membership.assignors.nearer import Held, Share, share_nearer
from membership.assignors.ownership import FormerClaim, FormerOwners, settle
from membership.assignors.racks import Nearness
from membership.assignors.user_data import decode_cooperative_user_data, decode_sticky_user_data


def assign_sticky(
    partition_counts: Mapping[str, int], subscribers: Sequence[Subscriber], racks: Racks = NO_RACKS, /
) -> Assignment:
    """Assign by the last partitions in the user data: eager members released all partitions before they joined."""
    members = sorted(subscribers, key=lambda one: one.member_id)
    claims = {one.member_id: decode_sticky_user_data(one.user_data) for one in members}
    return _share_out(_counted(partition_counts, members), members, settle(claims), racks)


def assign_cooperative_sticky(
    partition_counts: Mapping[str, int], subscribers: Sequence[Subscriber], racks: Racks = NO_RACKS, /
) -> Assignment:
    """Assign by the partitions that members still own. A partition that would move from a live owner is withheld in
    this round."""
    members = sorted(subscribers, key=lambda one: one.member_id)
    claims = {one.member_id: FormerClaim(one.owned, _generation_of(one)) for one in members}
    ownership = settle(claims)
    return withhold(_share_out(_counted(partition_counts, members), members, ownership, racks), claims, ownership)


def _generation_of(one: Subscriber) -> int:
    """Return the member's generation; clients from before KIP-792 have it in their user data."""
    if one.generation_id != UNKNOWN_GENERATION:
        return one.generation_id
    return decode_cooperative_user_data(one.user_data)


def _counted(partition_counts: Mapping[str, int], members: Sequence[Subscriber]) -> dict[str, int]:
    """Return the subscribed topics that have partitions, sorted by name."""
    topics = {topic for one in members for topic in one.topics}
    return {topic: partition_counts[topic] for topic in sorted(topics) if partition_counts.get(topic, 0) > 0}


def _share_out(
    counts: Mapping[str, int], members: Sequence[Subscriber], ownership: FormerOwners, racks: Racks
) -> Assignment:
    if not members:
        return {}
    topics_of = {one.member_id: frozenset(one.topics) for one in members}
    held: Held = {one.member_id: [] for one in members}
    for one, member_id in ownership.owners.items():
        if 0 <= one.partition < counts.get(one.topic, 0) and one.topic in topics_of[member_id]:
            held[member_id].append(one)
    nearness = Nearness(counts, members, racks)
    if len(set(topics_of.values())) == 1:
        share: Share = partial(share_equally, counts, nearness)
    else:
        readable = {
            member_id: [topic for topic in counts if topic in topics] for member_id, topics in topics_of.items()
        }
        earlier = {one: member_id for one, member_id in ownership.earlier.items() if one.topic in counts}
        share = partial(share_generally, counts, nearness, readable, earlier)
    assignment = share_nearer(share, held, nearness)
    for partitions in assignment.values():
        partitions.sort()
    return assignment
