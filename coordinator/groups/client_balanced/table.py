"""State table of a client-balanced group: each event, and its action in each state. It runs (`coordinator.groups.table`
says how), and `make table` prints it."""

from collections.abc import Callable
from typing import Any, get_args

from coordinator.groups.client_balanced import applying, balancing, grants, members, meta, registering, reporting
from coordinator.groups.client_balanced.events import (
    Admitted,
    AskMeta,
    BalancedAppendFailed,
    BalancedEvent,
    BalancedLeave,
    BalancedLoaded,
    BalanceDue,
    BalancedUnloaded,
    Beat,
    ConfirmOffsets,
    Fetching,
    LeaseOverdue,
    Mark,
    MetaMade,
    PartitionsFreed,
    PositionsStored,
    Register,
    Start,
    Unregister,
)
from coordinator.groups.client_balanced.guards import (
    balances_itself,
    has_room,
    has_same_filters,
    has_same_mode,
    has_same_source_count,
    has_same_topics,
    is_latest,
    is_member,
    is_not_replaced,
    node_id_is_free,
)
from coordinator.groups.client_balanced.rows import on, read_only_on
from coordinator.groups.client_balanced.state import BalancedGroup, BalancedState
from coordinator.groups.outcome import Outcome
from coordinator.groups.table import Row, StateTable, ignore, reject
from protocol.errors import ErrorCode
from protocol.messages.balanced import MemberHeartbeat

_no_member, _reject_dead = reject(ErrorCode.NO_NODE, "the group has no member"), reject(ErrorCode.NOT_COORDINATOR)

_ROWS: tuple[Row, ...] = (
    on(Start)(
        guards=(
            is_not_replaced,
            is_latest,
            has_same_mode,
            has_same_topics,
            has_same_filters,
            has_same_source_count,
            node_id_is_free,
            has_room,
        ),
        empty=members.admit,
        online=members.admit,
        dead=_reject_dead,
    ),
    on(Beat)(guards=(is_not_replaced, is_member), empty=_no_member, online=reporting.beat, dead=_reject_dead),
    on(AskMeta)(guards=(is_not_replaced, is_member), empty=_no_member, online=meta.reply_meta, dead=_reject_dead),
    on(Register)(guards=(is_not_replaced, is_member), empty=_no_member, online=registering.register, dead=_reject_dead),
    on(Unregister)(empty=registering.unregister, online=registering.unregister, dead=_reject_dead),
    on(Fetching)(empty=registering.plan_fetch, online=registering.plan_fetch, dead=_reject_dead),
    on(ConfirmOffsets)(empty=registering.confirm, online=registering.confirm, dead=_reject_dead),
    on(BalancedLeave)(guards=(is_not_replaced, is_member), empty=_no_member, online=members.leave, dead=_reject_dead),
    on(Mark)(guards=(balances_itself,), empty=_no_member, online=members.mark, dead=_reject_dead),
    on(MetaMade)(empty=ignore, online=meta.store_meta, dead=ignore),
    on(BalanceDue)(empty=ignore, online=balancing.assign, dead=ignore),
    on(PartitionsFreed)(empty=ignore, online=balancing.offer_freed, dead=ignore),
    on(PositionsStored)(empty=ignore, online=grants.positions_stored, dead=ignore),
    on(Admitted)(empty=ignore, online=members.admitted, dead=ignore),
    on(LeaseOverdue)(empty=ignore, online=members.expire, dead=ignore),
    on(BalancedLoaded)(empty=ignore, online=applying.loaded, dead=ignore),
    on(BalancedUnloaded)(empty=applying.unload, online=applying.unload, dead=ignore),
    on(BalancedAppendFailed)(empty=applying.undo, online=applying.undo, dead=ignore),
    read_only_on(MemberHeartbeat)(
        guards=(is_not_replaced, is_member),
        empty=reject(ErrorCode.NO_NODE),
        online=reporting.stay_alive,
        dead=reject(ErrorCode.NOT_COORDINATOR),
    ),
)

TABLE: StateTable[BalancedGroup] = StateTable(BalancedState, _ROWS, get_args(BalancedEvent))
handle: Callable[[Any, Any, Outcome], None] = TABLE.handle
answer: Callable[[Any, Any, int], ErrorCode] = TABLE.answer
