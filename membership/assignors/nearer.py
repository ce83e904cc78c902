"""Partitions that the sticky assignors take from a member because they lie far from it (KIP-881)."""

from typing import Protocol

from membership.assignors.general import balance_score
from membership.assignors.model import Assignment
from membership.assignors.racks import Nearness
from membership.topic_partition import TopicPartition

Held = dict[str, list[TopicPartition]]
"""Member id, in order -> what it had and may have again."""


class Share(Protocol):
    """Shares out, with what is held as the beginning. `must_revoke`: something was taken away from it already."""

    def __call__(self, held: Held, must_revoke: bool) -> Assignment: ...


def share_nearer(share: Share, held: Held, nearness: Nearness) -> Assignment:
    """The best of what there is if all that is held far away stays, if all of it is released (as Kafka does), and if
    only that is released which gets near somebody by it: balance counts first, then nearness, then what is kept.

    Kafka's own releases in each rebalance anew what finds no room near; members that rebalance cooperatively can then
    go on for ever. Here members go on only while something gets better.
    """
    best = share(held, must_revoke=False)
    mark = _mark(best, held, nearness)
    far = {one for member_id, ones in held.items() for one in ones if not nearness.is_near(member_id, one)}
    while far:
        rest = {member_id: [one for one in ones if one not in far] for member_id, ones in held.items()}
        plan = share(rest, must_revoke=True)
        if (reached := _mark(plan, held, nearness)) > mark:
            best, mark = plan, reached
        near = {
            one for member_id, ones in plan.items() for one in ones if one in far and nearness.is_near(member_id, one)
        }
        if near == far:
            break
        far = near
    return best


def _mark(plan: Assignment, held: Held, nearness: Nearness) -> tuple[int, int, int]:
    """More is better."""
    near = sum(nearness.is_near(member_id, one) for member_id, ones in plan.items() for one in ones)
    kept = sum(len(set(ones).intersection(plan[member_id])) for member_id, ones in held.items())
    return -balance_score(map(len, plan.values())), near, kept
