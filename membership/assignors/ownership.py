"""Former owners: the claims of members, and the ones that count (docs/spec/consumer-client.md#F, ownership claims)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from membership.topic_partition import TopicPartition


class FormerClaim(NamedTuple):
    """The partitions that a member claims to have had, and its generation."""

    partitions: Sequence[TopicPartition] = ()
    generation_id: int = -1


class FormerOwners(NamedTuple):
    """`owners`: the member whose claim counts, by partition. `earlier`: the last owner among members that missed the
    newest generation.
    """

    owners: dict[TopicPartition, str]
    earlier: dict[TopicPartition, str]


def settle(claims: Mapping[str, FormerClaim]) -> FormerOwners:
    """Decide the claims, given in the order of member ids: the newest generation counts, and a partition that is
    claimed twice in it has no owner."""
    newest = max((claim.generation_id for claim in claims.values()), default=-1)
    best: dict[TopicPartition, tuple[int, str]] = {}
    earlier: dict[TopicPartition, tuple[int, str]] = {}
    disputed: set[TopicPartition] = set()
    for member_id, (partitions, generation_id) in claims.items():
        for one in dict.fromkeys(partitions):
            known = best.get(one)
            if known is None or known[0] < generation_id:
                best[one] = generation_id, member_id
                disputed.discard(one)
            elif known[0] == generation_id:
                disputed.add(one)
            if generation_id < newest and (one not in earlier or earlier[one][0] < generation_id):
                earlier[one] = generation_id, member_id
    return FormerOwners(
        {one: member_id for one, (_, member_id) in best.items() if one not in disputed},
        {one: member_id for one, (_, member_id) in earlier.items()},
    )
