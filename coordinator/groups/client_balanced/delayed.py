"""The delayed operation of a client-balanced group: a member's lease, which covers all its partitions
(docs/spec/client-balanced-groups.md#11)."""

from typing import TYPE_CHECKING

from coordinator.groups.client_balanced.events import BalancedEvent, LeaseOverdue
from coordinator.keys import BalancedLeaseKey
from purgatory.purgatory import DelayedOperation

if TYPE_CHECKING:
    from coordinator.groups.client_balanced.state import BalancedGroup, BalancedGroupMember


class DelayedBalancedLease(DelayedOperation[BalancedEvent]):
    """A member's lease. Requests of the member move `member.deadline_ms`; this operation reads it when it is due, so a
    heartbeat does not reschedule the operation."""

    __slots__ = ("group", "key", "member")
    kind = "lease"

    def __init__(self, group: "BalancedGroup", member: "BalancedGroupMember") -> None:
        self.group = group
        self.member = member
        self.key = BalancedLeaseKey(group.group_id, member.consumer_id)

    @property
    def deadline_ms(self) -> int:  # type: ignore[override]
        return self.member.deadline_ms

    def is_satisfied(self) -> bool:
        return self.group.members.get(self.member.consumer_id) is not self.member

    def completed(self) -> BalancedEvent | None:
        if self.member.lease is self:
            self.member.lease = None
        return None

    def overdue(self) -> BalancedEvent | None:
        return LeaseOverdue(self.group.group_id, self.member.consumer_id)
