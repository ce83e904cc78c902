"""The one wait of a client-balanced group: a member's lease, which covers all that it owns
(docs/spec/client-balanced-groups.md#11)."""

from typing import TYPE_CHECKING

from coordinator.groups.client_balanced.events import BalancedEvent, LeaseOverdue
from purgatory.purgatory import DelayedOperation

if TYPE_CHECKING:
    from coordinator.groups.client_balanced.state import BalancedGroup, Member


def lease_key(group_id: str, consumer_id: str) -> tuple[str, str, str]:
    """What a member's lease waits under."""
    return ("balanced lease", group_id, consumer_id)


class DelayedLease(DelayedOperation[BalancedEvent]):
    """Whoever hears from the member moves `member.deadline_ms`; this operation reads it there, so that a heartbeat
    files nothing anew."""

    __slots__ = ("group", "key", "member")

    def __init__(self, group: "BalancedGroup", member: "Member") -> None:
        self.group = group
        self.member = member
        self.key = lease_key(group.group_id, member.consumer_id)

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
