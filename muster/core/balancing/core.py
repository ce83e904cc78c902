"""A member of a client-balanced group, without I/O (docs/spec/client-balanced-groups.md, the client's side).

    step(event, now_ms) -> effects

The application's calls are events with an operation's number, under which `OperationEnded` returns the result;
`SendRequest`, `HangUp`, `Replied`, `CallFailed` and `TimePassed` are those of `membership.events`. No event waits for
another one: many threads may have operations open at the same time. Each step checks the lease first, so that no
records of partitions are returned that it no longer covers, even if a reply arrives in the same step.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from membership.events import CallFailed, MemberEffect, MemberEvent, Pushed, Replied, TimePassed
from muster.core.balancing import coordinator, delivering, joining, lease, leaving, registering
from muster.core.balancing.config import BalancedConfig
from muster.core.balancing.events import (
    ConfirmAsked,
    ConnectAsked,
    DescribeAsked,
    DisconnectAsked,
    GaveUp,
    Handed,
    MessageAsked,
    MetaAsked,
    PassedOver,
    ReadyAsked,
    ShutdownAsked,
    StartAsked,
)
from muster.core.balancing.keys import sort_keys
from muster.core.balancing.member import BalancedMemberState, BalancedTimer, PartitionUse, Phase
from muster.core.balancing.results import OffsetInfo
from muster.core.balancing.targets import Targets

E = TypeVar("E", bound=MemberEvent)


class BalancedMembership:
    """One member. After its shutdown it cannot start again."""

    def __init__(self, group_id: str, consumer_id: str, config: BalancedConfig) -> None:
        self._member = BalancedMemberState(config, group_id, consumer_id)

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        m = self._member
        m.now_ms = max(now_ms, m.now_ms)
        lease.check(m)
        operation = getattr(event, "operation", None)
        if operation is not None and not isinstance(event, GaveUp):
            m.operations.add(operation)
        TABLE[type(event)](m, event)
        _pass_time(m)
        _settle(m)
        effects, m.effects = m.effects, []
        return effects

    @property
    def next_deadline_ms(self) -> int | None:
        """Return the time at which `TimePassed` is due; None if only an event from outside can change anything."""
        return min(_deadlines(self._member), default=None)

    @property
    def is_shutdown(self) -> bool:
        return self._member.phase in {Phase.NOT_STARTED, Phase.STOPPING, Phase.ENDED}

    @property
    def is_new(self) -> bool:
        """True if it can be started: it never was, or without success."""
        return self._member.phase is Phase.NOT_STARTED

    @property
    def is_ended(self) -> bool:
        return self._member.phase is Phase.ENDED

    @property
    def is_joined(self) -> bool:
        """True if the coordinator counts it as a member, as far as is known here."""
        return self._member.is_joined

    @property
    def targets(self) -> Targets:
        return self._member.targets

    @property
    def source_count(self) -> int | None:
        """Number of sources; None if that check is off, or before the start."""
        return self._member.source_count

    @property
    def node_id(self) -> int | None:
        return self._member.node_id

    @property
    def registered(self) -> list[str]:
        return sort_keys(self._member.keys)

    @property
    def grants(self) -> dict[str, int]:
        """Return the epoch of the grant of each owned partition."""
        return {key: held.reg_epoch for key, held in self._member.keys.items()}

    @property
    def offsets(self) -> dict[str, OffsetInfo]:
        """Return the offsets of owned partitions; `updated_ms` is by the clock of `step`."""
        return self._member.offsets()

    @property
    def lease_ends_ms(self) -> int | None:
        return self._member.lease_ends_ms

    @property
    def oldest_unconfirmed_ms(self) -> int | None:
        """Return the time at which the application got its oldest unconfirmed batch; None if it has none."""
        held = self._member.keys.values()
        return min((one.taken_ms for one in held if one.use is PartitionUse.HANDED), default=None)


class handle(Generic[E]):  # noqa: N801  (reads as the word it is, in the table)
    """Builder of a row of the table: an action for another event is a type error there."""

    def __init__(self, event: type[E], action: Callable[[BalancedMemberState, E], None]) -> None:
        self.event, self.action = event, action


def _nothing(_m: BalancedMemberState, _event: MemberEvent) -> None:
    """Do nothing: the passing of time is handled after every event."""


TABLE: dict[type, Callable[[BalancedMemberState, Any], None]] = {
    row.event: row.action
    for row in (
        handle(TimePassed, _nothing),
        handle(Replied, coordinator.on_reply),
        handle(CallFailed, coordinator.lost),
        handle(Pushed, joining.on_push),
        handle(StartAsked, joining.start),
        handle(MetaAsked, registering.ask_meta),
        handle(ConnectAsked, registering.connect),
        handle(DisconnectAsked, registering.disconnect),
        handle(ReadyAsked, delivering.wait_until_ready),
        handle(MessageAsked, delivering.ask_for_batch),
        handle(Handed, delivering.handed),
        handle(PassedOver, delivering.pass_over),
        handle(ConfirmAsked, delivering.confirm),
        handle(GaveUp, delivering.abandon),
        handle(DescribeAsked, leaving.describe),
        handle(ShutdownAsked, leaving.shut_down),
    )
}


def _pass_time(m: BalancedMemberState) -> None:
    for timer in BalancedTimer:
        if m.is_past(m.timers.get(timer)):
            del m.timers[timer]
    while m.alarms and m.is_past(m.alarms[0][0]):
        heapq.heappop(m.alarms)[2]()
    coordinator.pass_time(m)
    registering.pass_time(m)


def _settle(m: BalancedMemberState) -> None:
    """Run the rules that the new state needs."""
    coordinator.settle(m)
    joining.settle(m)
    delivering.settle(m)
    delivering.settle_ready(m)
    leaving.settle_closing(m)
    coordinator.settle(m)


def _deadlines(m: BalancedMemberState) -> Iterator[int]:
    yield from m.timers.values()
    yield from m.channel.deadlines()
    if m.wanted:
        yield m.wanted[0].deadline_ms
    for going in m.leaving.values():
        yield going.deadline_ms
    for waiter in (*m.readers, *m.expectant):
        if waiter.deadline_ms is not None:
            yield waiter.deadline_ms
    if m.readers and m.resting:
        yield m.resting[0][0]
    if m.alarms:
        yield m.alarms[0][0]
    if m.lease_ends_ms is not None:
        yield m.lease_ends_ms
