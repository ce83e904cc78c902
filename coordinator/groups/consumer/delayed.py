"""Delayed operations of a consumer group: sessions, and the time limits of members for revoking partitions, and of
classic members for joining again or syncing; their start and end (docs/spec/consumer-group-protocol.md#8.1)."""

from typing import TYPE_CHECKING

from coordinator.groups.consumer.events import (
    ClassicRejoinOverdue,
    ClassicSyncOverdue,
    ConsumerEvent,
    RevocationOverdue,
    SessionExpired,
    TargetBehind,
)
from coordinator.groups.outcome import Outcome
from coordinator.keys import ConsumerSessionKey, FirstSyncKey, NextTargetKey, RejoinKey, RevocationKey
from coordinator.records.consumer_records import ReconciliationState
from purgatory.purgatory import DelayedOperation

if TYPE_CHECKING:
    from coordinator.groups.consumer.state import ConsumerGroup, ConsumerMember, Current


ClassicStepOverdue = ClassicRejoinOverdue | ClassicSyncOverdue


class DelayedSession(DelayedOperation[ConsumerEvent]):
    """A member's session. Heartbeats move `member.deadline_ms`; this operation reads it there, so a heartbeat need not
    re-insert the operation."""

    __slots__ = ("group", "key", "member")
    kind = "consumer session"

    def __init__(self, group: "ConsumerGroup", member: "ConsumerMember") -> None:
        self.group = group
        self.member = member
        self.key = ConsumerSessionKey(group.group_id, member.member_id)

    @property
    def deadline_ms(self) -> int:  # type: ignore[override]
        return self.member.deadline_ms

    def is_satisfied(self) -> bool:
        return self.group.members.get(self.member.member_id) is not self.member

    def completed(self) -> ConsumerEvent | None:
        if self.member.session is self:
            self.member.session = None
        return None

    def overdue(self) -> ConsumerEvent | None:
        return SessionExpired(self.group.group_id, self.member.member_id)


class DelayedRevocation(DelayedOperation[ConsumerEvent]):
    """The rebalance timeout of a member that has partitions to revoke. It ends without effect once the member's epoch
    has moved."""

    __slots__ = ("began_ms", "deadline_ms", "epoch", "group", "key", "member_id")
    kind = "consumer revocation"

    def __init__(self, group: "ConsumerGroup", member_id: str, epoch: int, began_ms: int, timeout_ms: int) -> None:
        self.group = group
        self.began_ms = began_ms
        self.member_id = member_id
        self.epoch = epoch
        self.deadline_ms = began_ms + max(timeout_ms, 0)
        self.key = RevocationKey(group.group_id, member_id)

    def is_satisfied(self) -> bool:
        return False

    def completed(self) -> ConsumerEvent | None:
        return None

    def overdue(self) -> ConsumerEvent | None:
        return RevocationOverdue(self.group.group_id, self.member_id, self.epoch)


class DelayedClassicStep(DelayedOperation[ConsumerEvent]):
    """The rebalance timeout in which a classic member must take its next step. On expiry it returns `event`."""

    __slots__ = ("deadline_ms", "event", "key")
    kind = "consumer classic step"

    def __init__(self, key: RejoinKey | FirstSyncKey, event: ClassicStepOverdue, deadline_ms: int) -> None:
        self.key = key
        self.event = event
        self.deadline_ms = deadline_ms

    def is_satisfied(self) -> bool:
        return False

    def completed(self) -> ConsumerEvent | None:
        return None

    def overdue(self) -> ConsumerEvent | None:
        return self.event


class DelayedTarget(DelayedOperation[ConsumerEvent]):
    """The rest of the interval in which no further target may be computed."""

    __slots__ = ("deadline_ms", "group", "key")
    kind = "consumer target"

    def __init__(self, group: "ConsumerGroup", deadline_ms: int) -> None:
        self.group = group
        self.deadline_ms = deadline_ms
        self.key = NextTargetKey(group.group_id)

    def is_satisfied(self) -> bool:
        return self.group.target_epoch >= self.group.epoch

    def completed(self) -> ConsumerEvent | None:
        return None

    def overdue(self) -> ConsumerEvent | None:
        return TargetBehind(self.group.group_id)


def restart_session(group: "ConsumerGroup", member: "ConsumerMember", out: Outcome) -> None:
    """Give the member a full session from now on. A session that is watched already is moved, unless it ends sooner
    than it did: groups may get shorter timeouts."""
    deadline_ms = out.moment.monotonic_ms + session_timeout_ms(group, member)
    if member.session is None or deadline_ms < member.deadline_ms:
        member.session = DelayedSession(group, member)
        out.watch(member.session)
    member.deadline_ms = deadline_ms


def keep_alive(group: "ConsumerGroup", member: "ConsumerMember", now_ms: int) -> None:
    """Give the member a full session from now on, and ignore the rest of its request: the node cannot serve it now."""
    member.deadline_ms = max(member.deadline_ms, now_ms + session_timeout_ms(group, member))


def session_timeout_ms(group: "ConsumerGroup", member: "ConsumerMember") -> int:
    """Return the member's session timeout."""
    classic = member.subscription.classic
    return group.settings.session_timeout_ms if classic is None else classic.session_timeout_ms


def heard_ms(group: "ConsumerGroup", member: "ConsumerMember") -> int:
    """Return the monotonic time at which the member was last heard."""
    return member.deadline_ms - session_timeout_ms(group, member)


def time_revocation(group: "ConsumerGroup", member_id: str, current: "Current", timeout_ms: int, out: Outcome) -> None:
    """Start the revocation timer if the member has partitions to revoke, else stop it. Call it whenever the current
    assignment is written."""
    if current.state == ReconciliationState.UNREVOKED_PARTITIONS:
        out.watch(DelayedRevocation(group, member_id, current.epoch, out.moment.monotonic_ms, timeout_ms))
    else:
        out.cancel(RevocationKey(group.group_id, member_id))


def cancel_timers(group: "ConsumerGroup", member_id: str, out: Outcome) -> None:
    """Stop all timers of a member that is removed. The member itself is not changed: it stays if the append fails."""
    out.cancel(ConsumerSessionKey(group.group_id, member_id))
    out.cancel(RevocationKey(group.group_id, member_id))
    member = group.members.get(member_id)
    if member is not None and member.rejoin_until_ms >= 0:
        out.cancel(RejoinKey(group.group_id, member_id))
    if member is not None and member.sync_until_ms >= 0:
        out.cancel(FirstSyncKey(group.group_id, member_id))


def time_rejoin(group: "ConsumerGroup", member: "ConsumerMember", out: Outcome) -> None:
    """Start the timer in which a classic member must join again, unless it runs already."""
    if member.rejoin_until_ms < 0:
        member.revoking = out.moment.monotonic_ms, group.target_epoch
        event = ClassicRejoinOverdue(group.group_id, member.member_id)
        time_step(group, member, event, _until_ms(member, out), out)


def undo_time_rejoin(member: "ConsumerMember", out: Outcome) -> None:
    """Reset the timer that `time_rejoin` started at this moment: the append failed, so the timer is not watched, and
    the member was not notified."""
    if member.rejoin_until_ms == _until_ms(member, out):
        member.rejoin_until_ms = -1


def time_first_sync(group: "ConsumerGroup", member: "ConsumerMember", out: Outcome) -> None:
    """Start the timer in which a classic member that has joined must sync; restart it if it runs already."""
    time_step(group, member, ClassicSyncOverdue(group.group_id, member.member_id), _until_ms(member, out), out)


def _until_ms(member: "ConsumerMember", out: Outcome) -> int:
    return out.moment.monotonic_ms + max(member.subscription.rebalance_timeout_ms, 0)


def time_step(
    group: "ConsumerGroup", member: "ConsumerMember", event: ClassicStepOverdue, until_ms: int, out: Outcome
) -> None:
    """Watch for the next step of a classic member until then."""
    if isinstance(event, ClassicRejoinOverdue):
        member.rejoin_until_ms = until_ms
        key: RejoinKey | FirstSyncKey = RejoinKey(group.group_id, member.member_id)
    else:
        member.sync_until_ms = until_ms
        key = FirstSyncKey(group.group_id, member.member_id)
    out.watch(DelayedClassicStep(key, event, until_ms))


def end_rejoin(group: "ConsumerGroup", member: "ConsumerMember", out: Outcome) -> None:
    """Stop the timer in which the member must join again."""
    if member.rejoin_until_ms >= 0:
        member.rejoin_until_ms = -1
        out.cancel(RejoinKey(group.group_id, member.member_id))


def end_first_sync(group: "ConsumerGroup", member: "ConsumerMember", out: Outcome) -> None:
    """Stop the timer in which the member must sync."""
    if member.sync_until_ms >= 0:
        member.sync_until_ms = -1
        out.cancel(FirstSyncKey(group.group_id, member.member_id))
