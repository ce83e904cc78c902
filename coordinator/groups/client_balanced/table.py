"""THE TABLE: who may do what, in which state of a client-balanced group. It runs, and `make table` prints it.

A row is an event; a cell is what happens in a state. Guards run first, in the order clients can observe; Dead answers
before them. The row of `QUIET` changes nothing that lasts: no outcome is made for it.
"""

from typing import get_args

from coordinator.groups.client_balanced import grants, loading, members, meta, registering, reporting
from coordinator.groups.client_balanced.events import (
    Admitted,
    AppendFailed,
    AskMeta,
    BalancedEvent,
    Beat,
    Confirm,
    Fetching,
    LeaseOverdue,
    Leave,
    Loaded,
    Mark,
    MetaMade,
    Register,
    Settled,
    Start,
    Unloaded,
    Unregister,
)
from coordinator.groups.client_balanced.guards import (
    has_room,
    has_same_filters,
    has_same_source_count,
    has_same_topics,
    is_latest,
    is_member,
    is_not_replaced,
    node_id_is_free,
)
from coordinator.groups.client_balanced.rows import QuietRow, Row, ignore, on, quietly_on, refuse, say
from coordinator.groups.client_balanced.state import BalancedGroup, GroupState
from coordinator.groups.outcome import Outcome
from protocol.errors import ErrorCode
from protocol.messages.balanced import MemberHeartbeat

_no_member, _refuse_dead = refuse(ErrorCode.NO_NODE, "the group has no member"), refuse(ErrorCode.NOT_COORDINATOR)

TABLE: tuple[Row, ...] = (
    on(Start)(
        guards=(
            is_not_replaced,
            is_latest,
            has_same_topics,
            has_same_filters,
            has_same_source_count,
            node_id_is_free,
            has_room,
        ),
        empty=members.admit,
        online=members.admit,
        dead=_refuse_dead,
    ),
    on(Beat)(guards=(is_not_replaced, is_member), empty=_no_member, online=reporting.beat, dead=_refuse_dead),
    on(AskMeta)(guards=(is_not_replaced, is_member), empty=_no_member, online=meta.tell_meta, dead=_refuse_dead),
    on(Register)(guards=(is_not_replaced, is_member), empty=_no_member, online=registering.register, dead=_refuse_dead),
    on(Unregister)(empty=registering.unregister, online=registering.unregister, dead=_refuse_dead),
    on(Fetching)(empty=registering.plan_fetch, online=registering.plan_fetch, dead=_refuse_dead),
    on(Confirm)(empty=registering.confirm, online=registering.confirm, dead=_refuse_dead),
    on(Leave)(guards=(is_not_replaced, is_member), empty=_no_member, online=members.leave, dead=_refuse_dead),
    on(Mark)(empty=_no_member, online=members.mark, dead=_refuse_dead),
    on(MetaMade)(empty=ignore, online=meta.keep_meta, dead=ignore),
    on(Settled)(empty=ignore, online=grants.settled, dead=ignore),
    on(Admitted)(empty=ignore, online=members.admitted, dead=ignore),
    on(LeaseOverdue)(empty=ignore, online=members.expire, dead=ignore),
    on(Loaded)(empty=ignore, online=loading.loaded, dead=ignore),
    on(Unloaded)(empty=loading.unload, online=loading.unload, dead=ignore),
    on(AppendFailed)(empty=loading.undo, online=loading.undo, dead=ignore),
)

QUIET: tuple[QuietRow, ...] = (
    quietly_on(MemberHeartbeat)(
        guards=(is_not_replaced, is_member),
        empty=say(ErrorCode.NO_NODE),
        online=reporting.stay,
        dead=say(ErrorCode.NOT_COORDINATOR),
    ),
)

_ROWS = {row.event: row for row in TABLE}
_QUIET_ROWS = {row.event: row for row in QUIET}
assert _ROWS.keys() == set(get_args(BalancedEvent)), "every event has its row"


def handle(group: BalancedGroup, event: BalancedEvent, out: Outcome) -> None:
    """What the event does to the group in its present state goes into the outcome."""
    row = _ROWS[type(event)]
    if group.state is not GroupState.DEAD:
        for guard in row.guards:
            refusal = guard(group, event)
            if refusal is not None:
                out.reply_at_once(event.ref, event.refused(refusal))  # type: ignore[union-attr]
                return
    row.cells[group.state](group, event, out)


def answer(group: BalancedGroup, message: MemberHeartbeat, now_ms: int) -> ErrorCode:
    """What a quiet message is answered. Its member's lease may move; nothing else does."""
    row = _QUIET_ROWS[type(message)]
    if group.state is not GroupState.DEAD:
        for guard in row.guards:
            refusal = guard(group, message)
            if refusal is not None:
                return refusal.error_code
    return row.cells[group.state](group, message, now_ms)
