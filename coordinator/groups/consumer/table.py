"""State table of a consumer group: each event, and its action in each state. It runs (`coordinator.groups.table` says
how), and `make table` prints it."""

from typing import Generic, TypeVar, get_args

from coordinator.groups import table as groups_table
from coordinator.groups.consumer import applying, freed, heartbeats, regexes, removal, target
from coordinator.groups.consumer.classic_members import guards as classic
from coordinator.groups.consumer.classic_members import joining, staying
from coordinator.groups.consumer.events import (
    AwaitedPartitionsFree,
    ClassicBeat,
    ClassicJoin,
    ClassicLeave,
    ClassicMemberAdmitted,
    ClassicMembersTaken,
    ClassicRejoinOverdue,
    ClassicSync,
    ClassicSyncOverdue,
    ComputeTarget,
    ConsumerAppendFailed,
    ConsumerAway,
    ConsumerBeat,
    ConsumerEvent,
    ConsumerGroupHeld,
    ConsumerJoin,
    ConsumerLeave,
    ConsumerLoaded,
    ConsumerUnloaded,
    MemberAdmitted,
    RegexesResolved,
    ResolveRegexes,
    RevocationOverdue,
    SessionExpired,
    TargetAnnounced,
    TargetBehind,
    TargetComputed,
    TargetsMoved,
)
from coordinator.groups.consumer.guards import (
    has_room,
    instance_is_free,
    is_current_epoch,
    is_member,
    is_own_instance,
    pattern_is_valid,
)
from coordinator.groups.consumer.state import ConsumerGroup, ConsumerGroupState
from coordinator.groups.table import Path, Row, StateTable, ignore, make_row, reject, unless
from protocol.errors import ErrorCode

E = TypeVar("E")
Action = groups_table.Action[ConsumerGroup, E]
Guard = groups_table.Guard[ConsumerGroup, E]
GuardedAction = groups_table.GuardedAction[ConsumerGroup, E]


class on(Generic[E]):  # noqa: N801 - reads as a row's first word
    """Builder of a row of the full path: `on(Event)(guards=..., empty=..., with_members=..., dead=...)`. With members,
    a group is Assigning, Reconciling or Stable; its events mean the same in each."""

    def __init__(self, event: type[E]) -> None:
        self._event = event

    def __call__(
        self,
        *,
        guards: tuple[Guard[E] | GuardedAction[E], ...] = (),
        empty: Action[E],
        with_members: Action[E],
        dead: Action[E],
    ) -> Row:
        return make_row(self._event, Path.FULL, guards, empty, *(with_members,) * 3, dead)


_reject_dead = reject(ErrorCode.COORDINATOR_NOT_AVAILABLE)
_reject_unknown = reject(ErrorCode.UNKNOWN_MEMBER_ID)

_ROWS: tuple[Row, ...] = (
    on(ConsumerJoin)(
        guards=(has_room, instance_is_free, pattern_is_valid),
        empty=heartbeats.join,
        with_members=heartbeats.join,
        dead=_reject_dead,
    ),
    on(ConsumerBeat)(
        guards=(has_room, is_own_instance, is_member, is_current_epoch, pattern_is_valid),
        empty=_reject_unknown,
        with_members=heartbeats.stay,
        dead=_reject_dead,
    ),
    on(ConsumerLeave)(
        guards=(is_own_instance, is_member), empty=_reject_unknown, with_members=removal.leave, dead=_reject_dead
    ),
    on(ConsumerAway)(
        guards=(is_own_instance, is_member),
        empty=_reject_unknown,
        with_members=removal.leave_for_a_while,
        dead=_reject_dead,
    ),
    on(ClassicJoin)(
        guards=(
            classic.may_be_mixed,
            classic.has_room,
            classic.protocols_agree,
            unless(classic.has_member_id, joining.hand_out_id),
            classic.is_own_instance,
            classic.subscription_is_readable,
            classic.is_not_a_former_member,
        ),
        empty=_reject_unknown,
        with_members=joining.join,
        dead=_reject_dead,
    ),
    on(ClassicSync)(
        guards=(
            classic.is_own_instance,
            classic.is_classic_member,
            classic.is_current_generation,
            classic.is_same_protocol,
        ),
        empty=_reject_unknown,
        with_members=staying.sync,
        dead=_reject_dead,
    ),
    on(ClassicBeat)(
        guards=(classic.is_own_instance, classic.is_classic_member, classic.is_current_generation),
        empty=_reject_unknown,
        with_members=staying.beat,
        dead=_reject_dead,
    ),
    on(ClassicLeave)(empty=staying.leave, with_members=staying.leave, dead=_reject_dead),
    on(ConsumerGroupHeld)(empty=target.hold, with_members=target.hold, dead=_reject_dead),
    on(ClassicMemberAdmitted)(empty=ignore, with_members=joining.admitted, dead=ignore),
    on(ClassicRejoinOverdue)(empty=ignore, with_members=staying.fence_absent, dead=ignore),
    on(ClassicSyncOverdue)(empty=ignore, with_members=staying.fence_unsynced, dead=ignore),
    on(ClassicMembersTaken)(empty=ignore, with_members=staying.members_taken, dead=ignore),
    on(MemberAdmitted)(empty=ignore, with_members=heartbeats.admitted, dead=ignore),
    on(ResolveRegexes)(empty=ignore, with_members=regexes.begin, dead=ignore),
    on(RegexesResolved)(empty=regexes.resolved, with_members=regexes.resolved, dead=ignore),
    on(ComputeTarget)(empty=ignore, with_members=target.begin, dead=ignore),
    on(TargetsMoved)(empty=ignore, with_members=target.move, dead=ignore),
    on(TargetComputed)(empty=target.finish, with_members=target.finish, dead=ignore),
    on(TargetAnnounced)(empty=ignore, with_members=target.announce, dead=ignore),
    on(TargetBehind)(empty=ignore, with_members=target.ask_for_heartbeats, dead=ignore),
    on(AwaitedPartitionsFree)(empty=ignore, with_members=freed.notify_waiting, dead=ignore),
    on(SessionExpired)(empty=ignore, with_members=removal.fence_silent, dead=ignore),
    on(RevocationOverdue)(empty=ignore, with_members=removal.fence_unrevoked, dead=ignore),
    on(ConsumerLoaded)(empty=ignore, with_members=applying.loaded, dead=ignore),
    on(ConsumerUnloaded)(empty=applying.unload, with_members=applying.unload, dead=ignore),
    on(ConsumerAppendFailed)(empty=applying.undo, with_members=applying.undo, dead=ignore),
)

TABLE: StateTable[ConsumerGroup] = StateTable(ConsumerGroupState, _ROWS, get_args(ConsumerEvent))
handle = TABLE.handle
