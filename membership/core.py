"""A member of a group, without I/O: the other side of the coordinator's table.

    step(event, now_ms) -> effects

`Membership` reads no clock, opens no connection and has no randomness of its own. An edge carries out the effects,
returns the answers as events, and calls `step(TimePassed(), now_ms)` when `next_deadline_ms` has come, from one thread
at a time.

`TABLE` has the action of each event in each state; a forgotten state is a type error at its row. After every event the
rules of `_settle` send requests that the new state needs: a coordinator is looked up as soon as it is needed, JoinGroup
is sent as soon as one is known, and so on. An action therefore only changes the member's state.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from membership import heartbeats, joining, leader, operations, ownership, subscription
from membership.checks import check_name
from membership.consumer_group import ConsumerProtocol
from membership.events import (
    AssignedByHand,
    CallFailed,
    ClaimAsked,
    Closing,
    CommitAsked,
    HangUp,
    MemberEffect,
    MemberEvent,
    NodeAddress,
    OffsetsAsked,
    Polled,
    Pushed,
    RejoinAsked,
    ReleaseAsked,
    Released,
    Replied,
    Subscribed,
    SubscribedToPattern,
    SubscribedToRegex,
    TimePassed,
)
from membership.member import GroupProtocol, MemberSettings, MemberState, SentCall, State, Timer
from membership.nodes import nodes_of
from membership.replies import (
    AllTopicsAnswered,
    ClaimAnswered,
    CommitAnswered,
    HeartbeatAnswered,
    JoinAnswered,
    LeaveAnswered,
    LookupAnswered,
    MetadataAnswered,
    OffsetsAnswered,
    PollOverdue,
    ReleaseAnswered,
    SessionTimedOut,
    SyncAnswered,
    answered,
    unanswered,
)
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    CoordinatorMoved,
    Heartbeat,
    JoinGroup,
    MemberRemoved,
    RebalanceStarted,
    SyncGroup,
)
from protocol.messages.topics import Metadata, MetadataReply

E = TypeVar("E")
M = TypeVar("M", bound=MemberState)


class MembershipRow(NamedTuple):
    """The actions of an event, state by state."""

    event: type
    cells: dict[State, Callable[[Any, Any], None]]


class on(Generic[E]):  # noqa: N801  (reads as the word it is, in the table)
    """Builder of a row of the table. It binds the event's type first, so that a cell for another type is a type error
    there."""

    def __init__(self, event: type[E]) -> None:
        self.event = event

    def __call__(
        self,
        *,
        unjoined: Callable[[M, E], None],
        releasing: Callable[[M, E], None],
        joining: Callable[[M, E], None],
        syncing: Callable[[M, E], None],
        steady: Callable[[M, E], None],
        leaving: Callable[[M, E], None],
    ) -> MembershipRow:
        cells = (unjoined, releasing, joining, syncing, steady, leaving)
        return MembershipRow(self.event, dict(zip(State, cells, strict=True)))


def nothing(_m: MemberState, _event: object) -> None:
    """Ignore an event that has no effect in this state."""


# fmt: off
TABLE = {row.event: row.cells for row in (
    on(Polled)(
        unjoined=joining.start, releasing=joining.note_poll, joining=joining.note_poll, syncing=joining.note_poll,
        steady=joining.rejoin_if_needed, leaving=nothing),
    on(Released)(
        unjoined=joining.let_go, releasing=joining.join_when_released, joining=joining.let_go, syncing=joining.let_go,
        steady=joining.let_go, leaving=joining.depart),
    on(Subscribed)(
        unjoined=subscription.subscribe, releasing=subscription.subscribe, joining=joining.subscribe_or_withdraw,
        syncing=joining.subscribe_or_withdraw, steady=subscription.subscribe, leaving=nothing),
    on(SubscribedToPattern)(
        unjoined=subscription.subscribe_to_pattern, releasing=subscription.subscribe_to_pattern,
        joining=subscription.subscribe_to_pattern, syncing=subscription.subscribe_to_pattern,
        steady=subscription.subscribe_to_pattern, leaving=nothing),
    on(SubscribedToRegex)(
        unjoined=subscription.refuse_regex, releasing=subscription.refuse_regex,
        joining=subscription.refuse_regex, syncing=subscription.refuse_regex,
        steady=subscription.refuse_regex, leaving=nothing),
    on(AssignedByHand)(
        unjoined=subscription.assign_by_hand, releasing=nothing, joining=nothing, syncing=nothing,
        steady=nothing, leaving=nothing),
    on(RejoinAsked)(
        unjoined=nothing, releasing=nothing, joining=nothing, syncing=nothing,
        steady=joining.ask_for_rejoin, leaving=nothing),
    on(Closing)(
        unjoined=joining.close, releasing=joining.close_when_released, joining=joining.close, syncing=joining.close,
        steady=joining.close, leaving=nothing),

    on(JoinAnswered)(
        unjoined=nothing, releasing=nothing, joining=joining.on_join_reply, syncing=nothing,
        steady=nothing, leaving=nothing),
    on(MetadataAnswered)(
        unjoined=nothing, releasing=nothing, joining=nothing, syncing=leader.assign,
        steady=leader.watch, leaving=nothing),
    on(AllTopicsAnswered)(
        unjoined=subscription.on_topics_reply, releasing=subscription.on_topics_reply,
        joining=subscription.on_topics_reply, syncing=subscription.on_topics_reply, steady=subscription.on_topics_reply,
        leaving=nothing),
    on(SyncAnswered)(
        unjoined=nothing, releasing=nothing, joining=nothing, syncing=joining.on_sync_reply,
        steady=nothing, leaving=nothing),
    on(LeaveAnswered)(
        unjoined=nothing, releasing=nothing, joining=nothing, syncing=nothing,
        steady=nothing, leaving=joining.on_leave_reply),

    on(LookupAnswered)(
        unjoined=heartbeats.on_lookup_reply, releasing=heartbeats.on_lookup_reply, joining=heartbeats.on_lookup_reply,
        syncing=heartbeats.on_lookup_reply, steady=heartbeats.on_lookup_reply, leaving=heartbeats.on_lookup_reply),
    on(HeartbeatAnswered)(
        unjoined=nothing, releasing=heartbeats.on_heartbeat_reply, joining=nothing,
        syncing=heartbeats.on_heartbeat_reply, steady=heartbeats.on_heartbeat_reply, leaving=nothing),
    on(SessionTimedOut)(
        unjoined=nothing, releasing=heartbeats.doubt_coordinator, joining=nothing,
        syncing=heartbeats.doubt_coordinator, steady=heartbeats.doubt_coordinator, leaving=nothing),
    on(PollOverdue)(
        unjoined=nothing, releasing=heartbeats.give_up_place, joining=nothing,
        syncing=heartbeats.give_up_place, steady=heartbeats.give_up_place, leaving=nothing),

    on(RebalanceStarted)(
        unjoined=nothing, releasing=nothing, joining=nothing, syncing=nothing,
        steady=heartbeats.expect_rebalance, leaving=nothing),
    on(MemberRemoved)(
        unjoined=nothing, releasing=heartbeats.ask_at_once, joining=nothing, syncing=heartbeats.ask_at_once,
        steady=heartbeats.ask_at_once, leaving=nothing),
    on(CoordinatorMoved)(
        unjoined=heartbeats.move_coordinator, releasing=heartbeats.move_coordinator,
        joining=heartbeats.move_coordinator, syncing=heartbeats.move_coordinator,
        steady=heartbeats.move_coordinator, leaving=nothing),

    on(CommitAsked)(
        unjoined=operations.commit, releasing=operations.commit, joining=operations.commit, syncing=operations.commit,
        steady=operations.commit, leaving=operations.commit),
    on(CommitAnswered)(
        unjoined=operations.on_commit_reply, releasing=operations.on_commit_reply, joining=operations.on_commit_reply,
        syncing=operations.on_commit_reply, steady=operations.on_commit_reply, leaving=operations.on_commit_reply),
    on(OffsetsAsked)(
        unjoined=operations.fetch_offsets, releasing=operations.fetch_offsets, joining=operations.fetch_offsets,
        syncing=operations.fetch_offsets, steady=operations.fetch_offsets, leaving=operations.fetch_offsets),
    on(OffsetsAnswered)(
        unjoined=operations.on_offsets_reply, releasing=operations.on_offsets_reply,
        joining=operations.on_offsets_reply, syncing=operations.on_offsets_reply, steady=operations.on_offsets_reply,
        leaving=operations.on_offsets_reply),
    on(ClaimAsked)(
        unjoined=ownership.claim, releasing=ownership.claim, joining=ownership.claim, syncing=ownership.claim,
        steady=ownership.claim, leaving=ownership.claim),
    on(ReleaseAsked)(
        unjoined=ownership.release, releasing=ownership.release, joining=ownership.release, syncing=ownership.release,
        steady=ownership.release, leaving=ownership.release),
    on(ClaimAnswered)(
        unjoined=ownership.on_claim_reply, releasing=ownership.on_claim_reply, joining=ownership.on_claim_reply,
        syncing=ownership.on_claim_reply, steady=ownership.on_claim_reply, leaving=ownership.on_claim_reply),
    on(ReleaseAnswered)(
        unjoined=ownership.on_release_reply, releasing=ownership.on_release_reply, joining=ownership.on_release_reply,
        syncing=ownership.on_release_reply, steady=ownership.on_release_reply, leaving=ownership.on_release_reply),
)}
# fmt: on

_OVERDUE = {Timer.SESSION: SessionTimedOut(), Timer.POLL: PollOverdue()}
"""Events of expired timers; the other timers only delay something."""
_BEATING = frozenset({State.RELEASING, State.SYNCING, State.STEADY})
_IN_TOUCH = _BEATING | {State.JOINING}


class Membership:
    """One member of one group. `jitter` gives numbers in [0, 1) for backoffs, as `random.random` does."""

    _table: Mapping[type, Mapping[State, Callable[[Any, Any], None]]] = TABLE
    _make_state: ClassVar[type[MemberState]] = MemberState

    def __init__(
        self,
        settings: MemberSettings,
        topics: Iterable[str],
        jitter: Callable[[], float],
        kind: GroupProtocol | None = None,
    ) -> None:
        """`kind` is the protocol of consumers by default."""
        names = sorted({check_name("a topic", topic) for topic in topics})
        self._member = self._make_state(settings, jitter, tuple(names), kind or ConsumerProtocol())

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        """Return the effects of an event; none after `Closed`."""
        m = self._member
        if m.closed:
            return []
        m.now_ms = max(now_ms, m.now_ms)
        match event:
            case TimePassed():
                pass
            case Replied():
                sent = m.channel.answered(event.call)
                if sent is not None:
                    _note_nodes(m, sent, event.reply)
                    self._apply(answered(sent, event.reply, event.reason))
            case CallFailed():
                m.failed.append((event.call, ErrorCode.NETWORK_EXCEPTION))
                if event.is_unreached:
                    m.channel.note_unreached(event.call, m.now_ms)
            case Pushed():
                if type(event.message) in self._table:
                    self._apply(event.message)
            case _:
                self._apply(event)
        self._pass_time()
        if not m.closed:
            self._settle()
        effects, m.effects = m.effects, []
        return effects

    @property
    def next_deadline_ms(self) -> int | None:
        """Return the time at which `TimePassed` is due; None if only an event from outside can change anything."""
        return None if self._member.closed else min(self._member.deadlines(), default=None)

    @property
    def state(self) -> State:
        return self._member.state

    @property
    def is_closed(self) -> bool:
        return self._member.closed

    @property
    def needs_poll(self) -> bool:
        """True if only a `Polled` will bring this member into its group, or back into it."""
        m = self._member
        if m.state is State.UNJOINED:
            return bool(m.topics or m.held) and not m.is_by_hand
        return m.state is State.STEADY and m.coordinator is not None and _wants_other_share(m)

    @property
    def has_nothing_to_read(self) -> bool:
        """True if no topic matches the pattern, as far as is known."""
        m = self._member
        return m.pattern is not None and m.looked_at_ms is not None and not m.topics

    @property
    def rejoins_next(self) -> bool:
        """True if a `Polled` would now send a JoinGroup that keeps the held partitions: after that no commit is
        possible until the rebalance is over.
        """
        m = self._member
        return m.settings.is_cooperative and m.state is State.STEADY and not m.releasing and self.needs_poll

    @property
    def is_steady(self) -> bool:
        """True if the member has its assignment, and no known reason to rejoin."""
        return self._member.state is State.STEADY and not _wants_other_share(self._member)

    @property
    def group_id(self) -> str:
        return self._member.settings.group_id

    @property
    def member_id(self) -> str:
        """Member id; empty while the coordinator has given none."""
        return self._member.member_id

    @property
    def generation_id(self) -> int:
        """Generation; -1 if the member is in none."""
        return self._member.generation_id

    @property
    def assigned_in(self) -> int:
        """Generation of the newest assignment; -1 if there was none."""
        return self._member.last_generation_id

    @property
    def held(self) -> tuple[TopicPartition, ...]:
        """Partitions that the application holds; some may be lost without its knowledge yet."""
        return self._member.held

    @property
    def lease_from_ms(self) -> int | None:
        """Send time of the newest request that restarted the member's session, according to its answer; None if there
        was none. For a session timeout after it the coordinator gives this member's partitions to no other member,
        unless this one fails to rejoin in time.
        """
        return self._member.lease_from_ms

    @property
    def coordinator(self) -> NodeAddress | None:
        return self._member.coordinator

    def _apply(self, event: object) -> None:
        m = self._member
        self._table[type(event)][m.state](m, event)

    def _pass_time(self) -> None:
        """Run events of reached deadlines and failed requests, until there are none."""
        m = self._member
        for timer in Timer:
            if m.timers.get(timer, m.now_ms + 1) <= m.now_ms:
                m.disarm(timer)
                if timer in _OVERDUE:
                    self._apply(_OVERDUE[timer])
        m.channel.pass_time(m.now_ms)
        for number, sent in m.channel.overdue(m.now_ms):
            m.failed.append((number, ErrorCode.NETWORK_EXCEPTION))
            if not sent.to_coordinator:
                m.effects.append(HangUp(sent.node))
        while m.failed:
            number, code = m.failed.popleft()
            sent_or_gone = m.channel.lost(number)
            if sent_or_gone is not None:
                if not sent_or_gone.to_coordinator:
                    m.nodes.failed(sent_or_gone.node)
                self._apply(unanswered(sent_or_gone, code))
        for operation in tuple(m.operations.values()):
            if operation.deadline_ms <= m.now_ms:
                operation.end(m, operation.error_code)

    def _settle(self) -> None:
        """Send the requests that the state needs."""
        m = self._member
        settle_lookups(m, is_in_touch=m.state in _IN_TOUCH)
        if m.coordinator is not None:
            _settle_with_coordinator(m)
        if m.state is State.SYNCING and m.plan is None and _may_ask_metadata(m, Timer.RETRY):
            leader.ask_metadata(m)
        if m.state is State.STEADY and m.is_leader and m.roster and _may_ask_metadata(m, Timer.REFRESH):
            leader.ask_metadata(m)


def _wants_other_share(m: MemberState) -> bool:
    return m.rejoin != "" or m.joined_topics != m.topics


def _note_nodes(m: MemberState, sent: SentCall, reply: Message) -> None:
    if isinstance(reply, MetadataReply):
        m.nodes.learn(nodes_of(reply).values())
    if not sent.to_coordinator:
        m.nodes.answered(sent.node)


def settle_lookups(m: MemberState, *, is_in_touch: bool) -> None:
    """Request the topics of a pattern, and look up the coordinator if the member is in contact with it or has pending
    operations."""
    if m.pattern is not None and m.state is not State.LEAVING and _may_ask_metadata(m, Timer.TOPICS):
        subscription.ask_for_topics(m)
    if m.coordinator is None and (is_in_touch or m.operations) and m.channel.wants_lookup():
        heartbeats.look_up(m)


def settle_operations(m: MemberState) -> None:
    """Send the pending operations that may go."""
    for operation in tuple(m.operations.values()):
        if operation.may_go(m) and operation.retry_at_ms <= m.now_ms:
            operations.run(m, operation)


def _settle_with_coordinator(m: MemberState) -> None:
    if m.state is State.JOINING and Timer.RETRY not in m.timers and not m.looks_first and not m.is_asking(JoinGroup):
        joining.send_join(m)
    if m.state is State.SYNCING and m.plan is not None and not m.is_asking(SyncGroup):
        joining.send_sync(m)
    settle_operations(m)
    if _may_beat(m):
        heartbeats.send_heartbeat(m)


def _may_beat(m: MemberState) -> bool:
    idle = Timer.HEARTBEAT not in m.timers and not m.is_asking(Heartbeat)
    return m.state in _BEATING and m.generation_id >= 0 and idle


def _may_ask_metadata(m: MemberState, unless_armed: Timer) -> bool:
    return unless_armed not in m.timers and not m.is_asking(Metadata)
