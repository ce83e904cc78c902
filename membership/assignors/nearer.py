"""Partitions that the sticky assignors revoke from a member in another rack (KIP-881)."""

from typing import Protocol

from membership.assignors.general import balance_score
from membership.assignors.model import Assignment
from membership.assignors.racks import Nearness
from membership.topic_partition import TopicPartition

Held = dict[str, list[TopicPartition]]
"""Member id, in order -> partitions that it had and may keep."""


class Share(Protocol):
    """Assigns partitions, starting from the held ones. `must_revoke`: some held partitions were revoked already."""

    def __call__(self, held: Held, must_revoke: bool) -> Assignment: ...


def share_nearer(share: Share, held: Held, nearness: Nearness) -> Assignment:
    """Return the best of three assignments, in which members keep held partitions in other racks, release all of these,
    as in Kafka, or release only those that a near member then gets. Balance counts first, then nearness, then
    stickiness.

    Kafka releases partitions for which no near member has room in every rebalance, so cooperative members can rebalance
    for ever. Here they rebalance only while the assignment improves.
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
    """Return the value of an assignment; a larger one is better."""
    near = sum(nearness.is_near(member_id, one) for member_id, ones in plan.items() for one in ones)
    kept = sum(len(set(ones).intersection(plan[member_id])) for member_id, ones in held.items())
    return -balance_score(map(len, plan.values())), near, kept
