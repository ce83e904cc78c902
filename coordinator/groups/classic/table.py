"""THE TABLE: who may do what, in which state of a classic group. It runs, and `make table` prints it.

A row is an event; a cell is what happens in a state; all five cells are required, so a forgotten one is a type error
at its line, as is a guard or an action that does not take the row's event. Guards run first, in the order clients
can observe; Dead answers before them (Kafka does so, and clients can tell). Rows of `QUIET` change nothing that
lasts: no outcome is made for them. Rows of `BRIEF` yield records and their reply and nothing else: nobody waits for
them and nothing follows from them, so nothing is settled either.
"""

from typing import Any, get_args

from coordinator.clock import Moment
from coordinator.groups.classic import actions, loading, offsets, owning, static
from coordinator.groups.classic.events import (
    AppendFailed,
    AssignmentStored,
    Claim,
    Deleted,
    DeleteOffsets,
    GroupEvent,
    InitialDelayOver,
    JoinAgain,
    JoinFirst,
    JoinPending,
    JoinPhaseOver,
    Leave,
    Loaded,
    OwnershipEnded,
    PendingIdOverdue,
    Release,
    ReplacementStored,
    ReplaceStatic,
    RetentionDue,
    SessionOverdue,
    Sync,
    SyncOverdue,
    Unloaded,
)
from coordinator.groups.classic.guards import (
    has_room,
    is_current_generation,
    is_member,
    is_same_protocol,
    may_commit,
    may_commit_in_transaction,
    names_no_instance,
    protocols_agree,
)
from coordinator.groups.classic.rows import (
    Action,
    BriefRow,
    QuietRow,
    Row,
    briefly_on,
    on,
    quietly_on,
    refuse,
    say,
    turn_down,
    unless,
)
from coordinator.groups.classic.state import Group, GroupState
from coordinator.groups.outcome import Outcome
from coordinator.records.records import CommittedOffset
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import Heartbeat
from protocol.messages.offsets import OffsetCommit, TxnOffsetCommit

_ignore, _refuse_dead = actions.ignore, refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)

TABLE: tuple[Row, ...] = (
    on(JoinFirst)(
        guards=(unless(has_room, actions.turn_away), protocols_agree),
        empty=actions.admit,
        preparing=actions.admit,
        completing=actions.admit,
        stable=actions.admit,
        dead=_refuse_dead,
    ),
    on(JoinPending)(
        guards=(unless(has_room, actions.turn_away), protocols_agree, names_no_instance),
        empty=actions.admit_pending,
        preparing=actions.admit_pending,
        completing=actions.admit_pending,
        stable=actions.admit_pending,
        dead=_refuse_dead,
    ),
    on(JoinAgain)(
        guards=(unless(has_room, actions.turn_away), protocols_agree, is_member),
        empty=refuse(ErrorCode.UNKNOWN_MEMBER_ID),
        preparing=actions.rejoin,
        completing=actions.rejoin_or_repeat,
        stable=actions.rejoin_if_changed,
        dead=_refuse_dead,
    ),
    on(ReplaceStatic)(
        guards=(protocols_agree,),
        empty=refuse(ErrorCode.UNKNOWN_SERVER_ERROR),
        preparing=static.replace_static,
        completing=static.replace_static_unsynced,
        stable=static.replace_static_stable,
        dead=_refuse_dead,
    ),
    on(Sync)(
        guards=(is_member, is_current_generation, is_same_protocol),
        empty=refuse(ErrorCode.UNKNOWN_MEMBER_ID),
        preparing=refuse(ErrorCode.REBALANCE_IN_PROGRESS),
        completing=actions.collect_sync,
        stable=actions.answer_sync,
        dead=_refuse_dead,
    ),
    on(Leave)(
        empty=actions.leave,
        preparing=actions.leave,
        completing=actions.leave,
        stable=actions.leave,
        dead=_refuse_dead,
    ),
    on(DeleteOffsets)(
        empty=offsets.delete_offsets,
        preparing=offsets.delete_unsubscribed,
        completing=offsets.delete_unsubscribed,
        stable=offsets.delete_unsubscribed,
        dead=refuse(ErrorCode.GROUP_ID_NOT_FOUND),
    ),
    on(Deleted)(
        empty=offsets.delete_group,
        preparing=refuse(ErrorCode.NON_EMPTY_GROUP),
        completing=refuse(ErrorCode.NON_EMPTY_GROUP),
        stable=refuse(ErrorCode.NON_EMPTY_GROUP),
        dead=refuse(ErrorCode.GROUP_ID_NOT_FOUND),
    ),
    on(Claim)(
        guards=(is_member, is_current_generation, owning.claims_by_thread),
        empty=refuse(ErrorCode.UNKNOWN_MEMBER_ID),
        preparing=refuse(ErrorCode.REBALANCE_IN_PROGRESS),
        completing=refuse(ErrorCode.REBALANCE_IN_PROGRESS),
        stable=owning.claim,
        dead=_refuse_dead,
    ),
    on(Release)(
        empty=owning.release,
        preparing=owning.release,
        completing=owning.release,
        stable=owning.release,
        dead=_refuse_dead,
    ),
    on(OwnershipEnded)(
        empty=owning.end_ownership,
        preparing=owning.end_ownership,
        completing=owning.end_ownership,
        stable=owning.end_ownership,
        dead=_ignore,
    ),
    on(JoinPhaseOver)(
        empty=_ignore, preparing=actions.join_phase_over, completing=_ignore, stable=_ignore, dead=_ignore
    ),
    on(InitialDelayOver)(
        empty=_ignore, preparing=actions.initial_delay_over, completing=_ignore, stable=_ignore, dead=_ignore
    ),
    on(SyncOverdue)(
        empty=_ignore,
        preparing=_ignore,
        completing=actions.evict_unsynced,
        stable=actions.evict_unsynced,
        dead=_ignore,
    ),
    on(SessionOverdue)(
        empty=_ignore, preparing=actions.evict, completing=actions.evict, stable=actions.evict, dead=_ignore
    ),
    on(PendingIdOverdue)(
        empty=actions.drop_pending_id,
        preparing=actions.drop_pending_id,
        completing=actions.drop_pending_id,
        stable=actions.drop_pending_id,
        dead=_ignore,
    ),
    on(AssignmentStored)(
        empty=_ignore, preparing=_ignore, completing=_ignore, stable=actions.hand_out_assignments, dead=_ignore
    ),
    on(ReplacementStored)(
        empty=refuse(ErrorCode.UNKNOWN_SERVER_ERROR),
        preparing=refuse(ErrorCode.UNKNOWN_SERVER_ERROR),
        completing=refuse(ErrorCode.UNKNOWN_SERVER_ERROR),
        stable=static.replacement_stored,
        dead=_refuse_dead,
    ),
    on(RetentionDue)(
        empty=offsets.expire,
        preparing=offsets.tell_expired,
        completing=offsets.tell_expired,
        stable=offsets.expire_unsubscribed,
        dead=_ignore,
    ),
    on(Loaded)(empty=loading.loaded, preparing=_ignore, completing=_ignore, stable=loading.loaded, dead=_ignore),
    on(Unloaded)(
        empty=loading.unload,
        preparing=loading.unload,
        completing=loading.unload,
        stable=loading.unload,
        dead=_ignore,
    ),
    on(AppendFailed)(
        empty=loading.undo, preparing=loading.undo, completing=loading.undo, stable=loading.undo, dead=_ignore
    ),
)

QUIET: tuple[QuietRow, ...] = (
    quietly_on(Heartbeat)(
        guards=(is_member, is_current_generation),
        empty=say(ErrorCode.UNKNOWN_MEMBER_ID),
        preparing=actions.heard_while_preparing,
        completing=actions.heard,
        stable=actions.heard,
        dead=say(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ),
)

BRIEF: tuple[BriefRow, ...] = (
    briefly_on(OffsetCommit)(
        guards=(may_commit,),
        empty=offsets.commit,
        preparing=offsets.commit,
        completing=turn_down(ErrorCode.REBALANCE_IN_PROGRESS),
        stable=offsets.commit,
        dead=turn_down(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ),
    briefly_on(TxnOffsetCommit)(
        guards=(may_commit_in_transaction,),
        empty=offsets.commit_in_transaction,
        preparing=offsets.commit_in_transaction,
        completing=offsets.commit_in_transaction,
        stable=offsets.commit_in_transaction,
        dead=turn_down(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ),
)

_ROWS = {row.event: row for row in TABLE}
_QUIET_ROWS = {row.event: row for row in QUIET}
_BRIEF_ROWS = {row.event: row for row in BRIEF}
assert _ROWS.keys() == set(get_args(GroupEvent)), "every event has its row"


def handle(group: Group, event: GroupEvent, out: Outcome) -> None:
    """What the event does to the group in its present state goes into the outcome."""
    row = _ROWS[type(event)]
    if group.state is not GroupState.DEAD:
        for guard, instead in row.guards:
            refused = guard(group, event)
            if refused:
                action: Action[Any] = instead or refuse(refused)
                action(group, event, out)
                return
    row.cells[group.state](group, event, out)


def answer(group: Group, message: Heartbeat, now_ms: int) -> ErrorCode:
    """What a quiet message is answered. Deadlines of members may move; nothing else does."""
    row = _QUIET_ROWS[type(message)]
    if group.state is not GroupState.DEAD:
        for guard in row.guards:
            refused = guard(group, message)
            if refused:
                return refused
    return row.cells[group.state](group, message, now_ms)


def decide(
    group: Group, message: OffsetCommit | TxnOffsetCommit, moment: Moment, records: list[CommittedOffset]
) -> Message | ErrorCode:
    """What a brief message is answered once `records`, which gets them, are durable; or why it is refused."""
    row = _BRIEF_ROWS[type(message)]
    state = group.state
    if state is not GroupState.DEAD:
        for guard in row.guards:
            refused = guard(group, message)
            if refused:
                return refused
    return row.cells[state](group, message, moment, records)
