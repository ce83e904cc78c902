"""The rule that no partition has two owners while members keep their partitions in a rebalance (KIP-429,
docs/spec/consumer-client.md#F)."""

from collections.abc import Mapping, Sequence

from membership.assignors.model import Assignment, Subscriber
from membership.assignors.ownership import FormerClaim, FormerOwners
from membership.errors import CannotShareOut
from membership.topic_partition import TopicPartition


class UnsafeAssignment(CannotShareOut):
    """Raised if an assignor reassigned partitions, in `partitions`, that their owners have not released."""

    def __init__(self, name: str, partitions: Sequence[TopicPartition]) -> None:
        shown = ", ".join(map(str, partitions[:5])) + (", …" if len(partitions) > 5 else "")
        super().__init__(
            f"assignor {name!r} says it is cooperative and gave away {shown} before the owner has let go: "
            "leave out what must be revoked, the rebalance that follows hands it out"
        )
        self.partitions = tuple(partitions)


def withhold(assignment: Assignment, claims: Mapping[str, FormerClaim], ownership: FormerOwners) -> Assignment:
    """Return the assignment without partitions that another member than the receiver claims, however old the claim:
    that member is alive, revokes the partitions that its new assignment lacks, and joins again. A receiver whose own
    claim counts keeps its partitions.
    """
    claimants: dict[TopicPartition, list[str]] = {}
    for member_id, claim in claims.items():
        for one in claim.partitions:
            claimants.setdefault(one, []).append(member_id)
    return {
        member_id: [
            one
            for one in partitions
            if ownership.owners.get(one) == member_id or all(other == member_id for other in claimants.get(one, ()))
        ]
        for member_id, partitions in assignment.items()
    }


def verify_cooperative(name: str, subscribers: Sequence[Subscriber], assignment: Assignment) -> None:
    """Check the assignment of another cooperative assignor. Raises UnsafeAssignment if a partition is added to one
    member and revoked from another in the same round.
    """
    revoked: set[TopicPartition] = set()
    for one in subscribers:
        revoked.update(set(one.owned).difference(assignment.get(one.member_id, ())))
    at_fault = [
        partition
        for one in subscribers
        for partition in assignment.get(one.member_id, ())
        if partition in revoked and partition not in one.owned
    ]
    if at_fault:
        raise UnsafeAssignment(name, sorted(at_fault))
