"""The state table of a server-driven member, and the rules that send its requests. It is never SYNCING."""

from collections.abc import Callable
from typing import ClassVar, TypeVar

from membership import heartbeats as classic
from membership import joining, operations, ownership, subscription
from membership.core import Membership, MembershipRow, nothing, on, settle_lookups, settle_operations
from membership.events import (
    AssignedByHand,
    ClaimAsked,
    Closing,
    CommitAsked,
    OffsetsAsked,
    Polled,
    RejoinAsked,
    ReleaseAsked,
    Released,
    Subscribed,
    SubscribedToPattern,
    SubscribedToRegex,
)
from membership.member import MemberState, State
from membership.replies import (
    AllTopicsAnswered,
    ClaimAnswered,
    CommitAnswered,
    ConsumerHeartbeatAnswered,
    LookupAnswered,
    MetadataAnswered,
    OffsetsAnswered,
    PollOverdue,
    ReleaseAnswered,
    SessionTimedOut,
)
from membership.server_driven import commits, heartbeats, polls, reconciliation, subscribing
from membership.server_driven.state import ServerDrivenState
from protocol.messages.consumer_groups import AssignmentChanged
from protocol.messages.groups import NO_GENERATION, CoordinatorMoved, MemberRemoved, RebalanceStarted

E = TypeVar("E")


def _everywhere(event: type[E], action: Callable[[ServerDrivenState, E], None]) -> MembershipRow:
    """Make the row of an event with the same action in every state."""
    return MembershipRow(event, dict.fromkeys(State, action))


# fmt: off
TABLE = {row.event: row.cells for row in (
    on(Polled)(
        unjoined=polls.start, releasing=joining.note_poll, joining=joining.note_poll, syncing=nothing,
        steady=polls.poll, leaving=nothing),
    on(Released)(
        unjoined=polls.let_go, releasing=polls.join_when_released, joining=polls.let_go, syncing=nothing,
        steady=polls.let_go, leaving=polls.depart),
    on(Subscribed)(
        unjoined=subscribing.subscribe, releasing=subscribing.subscribe, joining=subscribing.subscribe,
        syncing=nothing, steady=subscribing.subscribe, leaving=nothing),
    on(SubscribedToPattern)(
        unjoined=subscribing.subscribe_to_pattern, releasing=subscribing.subscribe_to_pattern,
        joining=subscribing.subscribe_to_pattern, syncing=nothing,
        steady=subscribing.subscribe_to_pattern, leaving=nothing),
    on(SubscribedToRegex)(
        unjoined=subscribing.subscribe_to_regex, releasing=subscribing.subscribe_to_regex,
        joining=subscribing.subscribe_to_regex, syncing=nothing,
        steady=subscribing.subscribe_to_regex, leaving=nothing),
    on(AssignedByHand)(
        unjoined=subscription.assign_by_hand, releasing=nothing, joining=nothing, syncing=nothing,
        steady=nothing, leaving=nothing),
    on(Closing)(
        unjoined=polls.close, releasing=joining.close_when_released, joining=polls.close, syncing=nothing,
        steady=polls.close, leaving=nothing),

    on(ConsumerHeartbeatAnswered)(
        unjoined=nothing, releasing=nothing, joining=heartbeats.on_heartbeat_reply, syncing=nothing,
        steady=heartbeats.on_heartbeat_reply, leaving=heartbeats.on_leave_reply),
    on(PollOverdue)(
        unjoined=nothing, releasing=nothing, joining=nothing, syncing=nothing,
        steady=polls.give_up_place, leaving=nothing),
    on(AssignmentChanged)(
        unjoined=nothing, releasing=nothing, joining=heartbeats.hurry_once_joined, syncing=nothing,
        steady=heartbeats.hurry, leaving=nothing),
    on(MemberRemoved)(
        unjoined=nothing, releasing=nothing, joining=nothing, syncing=nothing,
        steady=heartbeats.hurry, leaving=nothing),

    _everywhere(RejoinAsked, nothing),
    _everywhere(SessionTimedOut, nothing),
    _everywhere(RebalanceStarted, nothing),
    _everywhere(MetadataAnswered, reconciliation.on_metadata_reply),
    _everywhere(AllTopicsAnswered, reconciliation.on_topics_reply),
    _everywhere(LookupAnswered, heartbeats.on_lookup_reply),
    _everywhere(CoordinatorMoved, classic.move_coordinator),
    _everywhere(CommitAsked, commits.commit),
    _everywhere(CommitAnswered, commits.on_commit_reply),
    _everywhere(OffsetsAsked, operations.fetch_offsets),
    _everywhere(OffsetsAnswered, operations.on_offsets_reply),
    _everywhere(ClaimAsked, ownership.claim),
    _everywhere(ReleaseAsked, ownership.release),
    _everywhere(ClaimAnswered, ownership.on_claim_reply),
    _everywhere(ReleaseAnswered, ownership.on_release_reply),
)}
# fmt: on


class ServerDrivenMembership(Membership):
    """One member of a group that the coordinator balances. Its generation is the member epoch."""

    _table = TABLE
    _make_state: ClassVar[type[MemberState]] = ServerDrivenState
    _member: ServerDrivenState

    def _settle(self) -> None:
        """Send what the state asks for."""
        m = self._member
        settle_lookups(m, is_in_touch=m.state in {State.JOINING, State.STEADY})
        if m.coordinator is not None:
            settle_operations(m)
            if heartbeats.may_send(m):
                heartbeats.send(m)
        if reconciliation.wants_names(m):
            reconciliation.ask_names(m)

    @property
    def needs_poll(self) -> bool:
        """True if only a `Polled` will bring this member into its group, or out of it."""
        m = self._member
        if m.releasing or m.is_by_hand:
            return False
        if m.state is State.UNJOINED:
            return bool(m.topics or m.regex or m.held)
        return m.state is State.STEADY and not m.is_subscribed

    @property
    def rejoins_next(self) -> bool:
        """False, since commits continue while partitions move."""
        return False

    @property
    def is_steady(self) -> bool:
        """True if the member has reached its last assignment, and that is for its present subscription."""
        m = self._member
        has_share = m.last_generation_id != NO_GENERATION and not m.unnamed and not m.releasing
        return m.state is State.STEADY and has_share and m.is_subscription_sent
