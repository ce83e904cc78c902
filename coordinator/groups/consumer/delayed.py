"""Delayed operations of a consumer group: sessions, and the time in which a member must revoke partitions; and when
they start and end (docs/spec/consumer-group-protocol.md#8.1)."""

from typing import TYPE_CHECKING

from coordinator.groups.consumer.events import ConsumerEvent, RevocationOverdue, SessionExpired
from coordinator.groups.outcome import Outcome
from coordinator.keys import ConsumerSessionKey, RevocationKey
from coordinator.records.consumer_records import ReconciliationState
from purgatory.purgatory import DelayedOperation

if TYPE_CHECKING:
    from coordinator.groups.consumer.state import ConsumerGroup, ConsumerMember, Current


class DelayedSession(DelayedOperation[ConsumerEvent]):
    """A member's session. Heartbeats move `member.deadline_ms`; this operation reads it there, so a heartbeat does not
    file the operation anew."""

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


def restart_session(group: "ConsumerGroup", member: "ConsumerMember", out: Outcome) -> None:
    """Give the member a full session from now on. A session that is watched already is moved, unless it ends sooner
    than it did: groups may get shorter timeouts."""
    deadline_ms = out.moment.monotonic_ms + session_timeout_ms(group, member)
    if member.session is None or deadline_ms < member.deadline_ms:
        member.session = DelayedSession(group, member)
        out.watch(member.session)
    member.deadline_ms = deadline_ms


def keep_alive(group: "ConsumerGroup", member: "ConsumerMember", now_ms: int) -> None:
    """Give the member a full session from now on, without an answer to what it says: the topics are not known."""
    member.deadline_ms = max(member.deadline_ms, now_ms + session_timeout_ms(group, member))


def session_timeout_ms(group: "ConsumerGroup", member: "ConsumerMember") -> int:
    """Return the time for which the member may be silent."""
    classic = member.subscription.classic
    return group.settings.session_timeout_ms if classic is None else classic.session_timeout_ms


def time_revocation(group: "ConsumerGroup", member_id: str, current: "Current", timeout_ms: int, out: Outcome) -> None:
    """Start the time to revoke if the member has partitions to revoke, else stop it. To be called whenever the current
    assignment is written."""
    if current.state == ReconciliationState.UNREVOKED_PARTITIONS:
        out.watch(DelayedRevocation(group, member_id, current.epoch, out.moment.monotonic_ms, timeout_ms))
    else:
        out.cancel(RevocationKey(group.group_id, member_id))


def cancel_timers(group: "ConsumerGroup", member_id: str, out: Outcome) -> None:
    """Stop all timers of a member that is removed."""
    out.cancel(ConsumerSessionKey(group.group_id, member_id))
    out.cancel(RevocationKey(group.group_id, member_id))
