"""State table of a classic group: each event, and its action in each state. It runs (`coordinator.groups.table` says
how), and `make table` prints it."""

from collections.abc import Callable
from typing import Any, get_args

from coordinator.clock import Moment
from coordinator.groups.classic import actions, applying, holding, offsets, owning, static
from coordinator.groups.classic.events import (
    AppendFailed,
    AssignmentStored,
    Claim,
    Deleted,
    DeleteOffsets,
    GroupEvent,
    GroupHeld,
    HoldEnded,
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
from coordinator.groups.classic.group_states import GroupState
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
from coordinator.groups.classic.rows import append_only_on, on, read_only_on
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.conversions import ClassicAgain, Superseded
from coordinator.groups.outcome import Outcome
from coordinator.groups.table import Row, StateTable, ignore, reject, unless
from coordinator.records.records import CommittedOffset
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import Heartbeat
from protocol.messages.offsets import OffsetCommit, TxnOffsetCommit

_reject_dead = reject(ErrorCode.COORDINATOR_NOT_AVAILABLE)

_ROWS: tuple[Row, ...] = (
    on(JoinFirst)(
        guards=(unless(has_room, actions.refuse_full), protocols_agree),
        empty=actions.admit,
        preparing=actions.admit,
        completing=actions.admit,
        stable=actions.admit,
        dead=_reject_dead,
    ),
    on(JoinPending)(
        guards=(unless(has_room, actions.refuse_full), protocols_agree, names_no_instance),
        empty=actions.admit_pending,
        preparing=actions.admit_pending,
        completing=actions.admit_pending,
        stable=actions.admit_pending,
        dead=_reject_dead,
    ),
    on(JoinAgain)(
        guards=(unless(has_room, actions.refuse_full), protocols_agree, is_member),
        empty=reject(ErrorCode.UNKNOWN_MEMBER_ID),
        preparing=actions.rejoin,
        completing=actions.rejoin_or_repeat,
        stable=actions.rejoin_if_changed,
        dead=_reject_dead,
    ),
    on(ReplaceStatic)(
        guards=(protocols_agree,),
        empty=reject(ErrorCode.UNKNOWN_SERVER_ERROR),
        preparing=static.replace_static,
        completing=static.replace_static_unsynced,
        stable=static.replace_static_stable,
        dead=_reject_dead,
    ),
    on(Sync)(
        guards=(is_member, is_current_generation, is_same_protocol),
        empty=reject(ErrorCode.UNKNOWN_MEMBER_ID),
        preparing=reject(ErrorCode.REBALANCE_IN_PROGRESS),
        completing=actions.collect_sync,
        stable=actions.answer_sync,
        dead=_reject_dead,
    ),
    on(Leave)(
        empty=actions.leave,
        preparing=actions.leave,
        completing=actions.leave,
        stable=actions.leave,
        dead=_reject_dead,
    ),
    on(DeleteOffsets)(
        empty=offsets.delete_offsets,
        preparing=offsets.delete_unsubscribed,
        completing=offsets.delete_unsubscribed,
        stable=offsets.delete_unsubscribed,
        dead=reject(ErrorCode.GROUP_ID_NOT_FOUND),
    ),
    on(Deleted)(
        empty=offsets.delete_group,
        preparing=reject(ErrorCode.NON_EMPTY_GROUP),
        completing=reject(ErrorCode.NON_EMPTY_GROUP),
        stable=reject(ErrorCode.NON_EMPTY_GROUP),
        dead=reject(ErrorCode.GROUP_ID_NOT_FOUND),
    ),
    on(Claim)(
        guards=(is_member, is_current_generation, owning.claims_by_thread),
        empty=reject(ErrorCode.UNKNOWN_MEMBER_ID),
        preparing=reject(ErrorCode.REBALANCE_IN_PROGRESS),
        completing=reject(ErrorCode.REBALANCE_IN_PROGRESS),
        stable=owning.claim,
        dead=_reject_dead,
    ),
    on(Release)(
        empty=owning.release,
        preparing=owning.release,
        completing=owning.release,
        stable=owning.release,
        dead=_reject_dead,
    ),
    on(OwnershipEnded)(
        empty=owning.end_ownership,
        preparing=owning.end_ownership,
        completing=owning.end_ownership,
        stable=owning.end_ownership,
        dead=ignore,
    ),
    on(GroupHeld)(
        empty=holding.hold,
        preparing=holding.hold,
        completing=holding.hold,
        stable=holding.hold,
        dead=_reject_dead,
    ),
    on(HoldEnded)(empty=ignore, preparing=holding.end_hold, completing=ignore, stable=ignore, dead=ignore),
    on(JoinPhaseOver)(empty=ignore, preparing=actions.join_phase_over, completing=ignore, stable=ignore, dead=ignore),
    on(InitialDelayOver)(
        empty=ignore, preparing=actions.initial_delay_over, completing=ignore, stable=ignore, dead=ignore
    ),
    on(SyncOverdue)(
        empty=ignore,
        preparing=ignore,
        completing=actions.evict_unsynced,
        stable=actions.evict_unsynced,
        dead=ignore,
    ),
    on(SessionOverdue)(
        empty=ignore, preparing=actions.evict, completing=actions.evict, stable=actions.evict, dead=ignore
    ),
    on(PendingIdOverdue)(
        empty=actions.drop_pending_id,
        preparing=actions.drop_pending_id,
        completing=actions.drop_pending_id,
        stable=actions.drop_pending_id,
        dead=ignore,
    ),
    on(AssignmentStored)(
        empty=ignore, preparing=ignore, completing=ignore, stable=actions.hand_out_assignments, dead=ignore
    ),
    on(ReplacementStored)(
        empty=reject(ErrorCode.UNKNOWN_SERVER_ERROR),
        preparing=reject(ErrorCode.UNKNOWN_SERVER_ERROR),
        completing=reject(ErrorCode.UNKNOWN_SERVER_ERROR),
        stable=static.replacement_stored,
        dead=_reject_dead,
    ),
    on(RetentionDue)(
        empty=offsets.expire,
        preparing=offsets.note_expired,
        completing=offsets.note_expired,
        stable=offsets.expire_unsubscribed,
        dead=ignore,
    ),
    on(Loaded)(empty=applying.loaded, preparing=ignore, completing=ignore, stable=applying.loaded, dead=ignore),
    on(Unloaded)(
        empty=applying.unload,
        preparing=applying.unload,
        completing=applying.unload,
        stable=applying.unload,
        dead=ignore,
    ),
    on(AppendFailed)(
        empty=applying.undo, preparing=applying.undo, completing=applying.undo, stable=applying.undo, dead=ignore
    ),
    on(ClassicAgain)(empty=ignore, preparing=ignore, completing=ignore, stable=applying.begin_again, dead=ignore),
    on(Superseded)(
        empty=applying.supersede,
        preparing=applying.supersede,
        completing=applying.supersede,
        stable=applying.supersede,
        dead=applying.supersede,
    ),
    read_only_on(Heartbeat)(
        guards=(is_member, is_current_generation),
        empty=reject(ErrorCode.UNKNOWN_MEMBER_ID),
        preparing=actions.extend_session_while_preparing,
        completing=actions.extend_session,
        stable=actions.extend_session,
        dead=reject(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ),
    append_only_on(OffsetCommit)(
        guards=(may_commit,),
        empty=offsets.commit,
        preparing=offsets.commit,
        completing=reject(ErrorCode.REBALANCE_IN_PROGRESS),
        stable=offsets.commit,
        dead=reject(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ),
    append_only_on(TxnOffsetCommit)(
        guards=(may_commit_in_transaction,),
        empty=offsets.commit_in_transaction,
        preparing=offsets.commit_in_transaction,
        completing=offsets.commit_in_transaction,
        stable=offsets.commit_in_transaction,
        dead=reject(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ),
)

TABLE: StateTable[ClassicGroup] = StateTable(GroupState, _ROWS, get_args(GroupEvent))
handle: Callable[[Any, Any, Outcome], None] = TABLE.handle
answer: Callable[[Any, Any, int], ErrorCode] = TABLE.answer
decide: Callable[[Any, Any, Moment, list[CommittedOffset]], Message | ErrorCode] = TABLE.decide
permits: Callable[[Any, Any, Callable[..., Any]], bool] = TABLE.permits
