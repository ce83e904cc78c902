"""Delayed operations of a classic group: of phases, members' sessions, leases and pending ids; each with its condition,
completion and expiry (docs/spec/group-protocol.md#3.2).

A group has at most one phase operation (join or sync), watched under a `PhaseKey`. Its condition is checked after every
event of the group; a session's only at its deadline.
"""

from typing import TYPE_CHECKING

from coordinator.groups.classic.events import (
    GroupEvent,
    HoldEnded,
    InitialDelayOver,
    JoinPhaseOver,
    OwnershipEnded,
    PendingIdOverdue,
    SessionOverdue,
    SyncOverdue,
)
from coordinator.keys import LeaseKey, MemberKey, PhaseKey
from purgatory.purgatory import DelayedOperation

if TYPE_CHECKING:
    from coordinator.groups.classic.state import ClassicGroup, Member, PendingId


class GroupOperation(DelayedOperation[GroupEvent]):
    """A delayed operation of a classic group."""

    __slots__ = ("group",)

    def __init__(self, group: "ClassicGroup") -> None:
        self.group = group


class PhaseOperation(GroupOperation):
    """A join or sync phase: a group watches at most one of them."""

    __slots__ = ("deadline_ms", "key")
    kind = "rebalance"

    def __init__(self, group: "ClassicGroup", deadline_ms: int) -> None:
        super().__init__(group)
        self.key = PhaseKey(group.group_id)
        self.deadline_ms = deadline_ms

    def _end(self) -> None:
        if self.group.phase is self:
            self.group.phase = None


class DelayedJoin(PhaseOperation):
    """The join phase: complete when all members are parked and no id is pending, or at the rebalance timeout."""

    __slots__ = ()

    def is_satisfied(self) -> bool:
        group = self.group
        return group.awaiting_join == len(group.members) and not group.pending

    def completed(self) -> GroupEvent | None:
        self._end()
        return JoinPhaseOver(self.group.group_id)


class HeldJoin(PhaseOperation):
    """The time in which a rebalance waits for the end of the group's hold: complete when the hold is released, or when
    the number of members that the hold names have joined."""

    __slots__ = ()

    def is_satisfied(self) -> bool:
        hold = self.group.hold
        return hold is None or hold.is_enough(self.group.awaiting_join)

    def completed(self) -> GroupEvent | None:
        self._end()
        return HoldEnded(self.group.group_id)


class InitialDelayedJoin(PhaseOperation):
    """The first join phase of a group that was Empty. It never completes early, so that a starting fleet joins one
    generation."""

    __slots__ = ("elapsed_ms", "remaining_ms")

    def __init__(self, group: "ClassicGroup", deadline_ms: int, elapsed_ms: int, remaining_ms: int) -> None:
        super().__init__(group, deadline_ms)
        self.elapsed_ms = elapsed_ms
        self.remaining_ms = remaining_ms

    def is_satisfied(self) -> bool:
        return False

    def completed(self) -> GroupEvent | None:
        self._end()
        return InitialDelayOver(self.group.group_id, self.elapsed_ms, self.remaining_ms)


class DelayedSync(PhaseOperation):
    """The sync phase of one generation: complete when every member has synced, in any state of the group."""

    __slots__ = ("generation_id",)

    def __init__(self, group: "ClassicGroup", deadline_ms: int) -> None:
        super().__init__(group, deadline_ms)
        self.generation_id = group.generation_id

    def is_satisfied(self) -> bool:
        return self.group.generation_id != self.generation_id or not self.group.pending_sync

    def completed(self) -> GroupEvent | None:
        self._end()
        return None

    def overdue(self) -> GroupEvent | None:
        return SyncOverdue(self.group.group_id, self.generation_id)


class DelayedHeartbeat(GroupOperation):
    """A member's session. Requests of the member move `member.deadline_ms`; this operation reads it there, so a
    heartbeat need not re-insert the operation."""

    __slots__ = ("member",)
    kind = "heartbeat"

    def __init__(self, group: "ClassicGroup", member: "Member") -> None:
        super().__init__(group)
        self.member = member

    @property
    def key(self) -> MemberKey:  # type: ignore[override]
        return MemberKey(self.group.group_id, self.member.member_id)

    @property
    def deadline_ms(self) -> int:  # type: ignore[override]
        return self.member.deadline_ms

    def is_satisfied(self) -> bool:
        member = self.member
        if self.group.members.get(member.member_id) is not member:
            return True
        return not member.is_new and (member.join_ref is not None or member.sync_ref is not None)

    def completed(self) -> GroupEvent | None:
        if self.member.session is self:
            self.member.session = None
        return None

    def overdue(self) -> GroupEvent | None:
        return SessionOverdue(self.group.group_id, self.member.member_id)


class DelayedLease(GroupOperation):
    """The time for which a member removed from the group keeps its partitions."""

    __slots__ = ("deadline_ms", "key", "member_id")
    kind = "lease"

    def __init__(self, group: "ClassicGroup", member_id: str, deadline_ms: int) -> None:
        super().__init__(group)
        self.member_id = member_id
        self.key = LeaseKey(group.group_id, member_id)
        self.deadline_ms = deadline_ms

    def is_satisfied(self) -> bool:
        return False

    def completed(self) -> GroupEvent | None:
        return OwnershipEnded(self.group.group_id, self.member_id)


class DelayedPendingId(GroupOperation):
    """The time for which an id handed out with MEMBER_ID_REQUIRED may be used."""

    __slots__ = ("deadline_ms", "key", "pending")
    kind = "heartbeat"

    def __init__(self, group: "ClassicGroup", pending: "PendingId") -> None:
        super().__init__(group)
        self.pending = pending
        self.key = MemberKey(group.group_id, pending.member_id)
        self.deadline_ms = pending.deadline_ms

    def is_satisfied(self) -> bool:
        return self.group.pending.get(self.pending.member_id) is not self.pending

    def completed(self) -> GroupEvent | None:
        return None

    def overdue(self) -> GroupEvent | None:
        return PendingIdOverdue(self.group.group_id, self.pending.member_id)
