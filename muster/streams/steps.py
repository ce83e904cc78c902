"""The steps of a rebalance, in the order of docs/spec/consumer-client.md#E3, without I/O:

    step(event, now_ms) -> effects

Reports of the membership and the fetcher are noted and handled in the next step, which is due at once, so that no step
is re-entered. The steps themselves are in `revoke` and `start`.
"""

from collections import deque

from membership.core import Membership
from membership.events import (
    Assigned,
    ClaimDone,
    Closed,
    CommitDone,
    Fatal,
    LostPartitions,
    MemberEffect,
    MemberEvent,
    OffsetsDone,
    RejoinAsked,
    ReleaseDone,
    Revoked,
)
from membership.member import State
from muster.errors import ClientClosed, Fenced, GroupRefused
from muster.streams.events import Begin, CommitWanted, GrantsLost, ListenerDone, Shut, StreamsEnded
from muster.streams.group_protocol import StreamsProtocol
from muster.streams.holdings import Holdings
from muster.streams.rebalance import RebalancePhase
from muster.streams.settings import StreamsSettings
from muster.streams.start import StartSteps
from protocol.errors import ErrorCode

_SEES_TRIGGERS = frozenset(
    {
        RebalancePhase.RUNNING,
        RebalancePhase.JOINING,
        RebalancePhase.READING,
        RebalancePhase.CLAIMING,
        RebalancePhase.PAUSING,
    }
)
"""Phases that a new trigger may interrupt at once: offsets that are being read, or claims, are void when the group
rebalances again."""


class Steps(StartSteps):
    """The steps of one connector's rebalances; `has_listener`: there is a listener to call."""

    def __init__(
        self,
        membership: Membership,
        kind: StreamsProtocol,
        holdings: Holdings,
        settings: StreamsSettings,
        *,
        has_listener: bool = False,
    ) -> None:
        super().__init__(membership, kind, holdings, settings, has_listener=has_listener)
        self._inbox: deque[MemberEffect] = deque()

    # -- called by the edge

    def note(self, effect: MemberEffect) -> None:
        """Store an effect of the membership or the fetcher for the next step."""
        self._inbox.append(effect)

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        """Return the effects of an event, of the stored effects, and of the time."""
        self._now_ms = max(now_ms, self._now_ms)
        match event:
            case Begin():
                self._enter(RebalancePhase.JOINING)
            case ListenerDone():
                self._listener_done(event.error)
            case CommitWanted():
                self._add(self._commits.ask(event.number, event.tries, self._now_ms))
            case Shut():
                self._shut()
        while self._inbox:
            self._on_effect(self._inbox.popleft())
        self._pass_time()
        effects, self._effects = self._effects, []
        return effects

    @property
    def next_deadline_ms(self) -> int | None:
        if self.phase is RebalancePhase.CLOSED:
            return None
        if self._inbox or self._has_something_to_do:
            return self._now_ms
        due = (self._until_ms, self._commits.next_deadline_ms)
        return min((at_ms for at_ms in due if at_ms is not None), default=None)

    # -- membership

    def _on_effect(self, effect: MemberEffect) -> None:
        match effect:
            case Revoked() | LostPartitions():
                self._revoke(is_lost=isinstance(effect, LostPartitions))
            case Assigned():
                self._assigned(effect)
            case CommitDone():
                self._add(self._commits.on_commit_done(effect, self._now_ms))
            case ReleaseDone() if effect.operation == self._operation and self.phase is RebalancePhase.RELEASING:
                self._released()
            case OffsetsDone() if effect.operation == self._operation and self.phase is RebalancePhase.READING:
                self._offsets_read(effect)
            case ClaimDone() if effect.operation == self._operation and self.phase is RebalancePhase.CLAIMING:
                self._claimed(effect)
            case GrantsLost() if self.phase is RebalancePhase.RUNNING:
                names = ", ".join(map(str, effect.partitions[:5]))
                self._feed_member(RejoinAsked(f"the registry no longer names this member for {names}"))
            case Fatal():
                self._refused(effect)
            case Closed():
                self._holdings.end()
                self._enter(RebalancePhase.CLOSED)
                self._effects.append(StreamsEnded())

    def _pass_time(self) -> None:
        self._add(self._commits.pass_time(self._now_ms))
        is_over = self._until_ms is not None and self._until_ms <= self._now_ms
        if self.phase is RebalancePhase.PAUSING and is_over and not self._membership.needs_poll:
            self._claim()
        elif self.phase is RebalancePhase.FINISHING and is_over:
            self._commit()
        elif self.phase is RebalancePhase.COMMITTING and is_over:
            self._commit_overdue()
        elif self._has_something_to_do or (self.phase is RebalancePhase.RESTING and is_over):
            self._continue()

    @property
    def _has_something_to_do(self) -> bool:
        """True if the next step can run without another event. A trigger that comes during a release or a start is
        served afterwards (V7).
        """
        if self.phase is RebalancePhase.FINISHING:
            return not self._holdings.has_in_hand
        if self._is_closing or self._is_dead:
            return False
        member = self._membership
        if self.phase is RebalancePhase.JOINING and self._is_starting and member.has_nothing_to_read:
            return True
        if self.phase is RebalancePhase.RESTING:
            return member.state is State.STEADY and member.needs_poll
        return self.phase in _SEES_TRIGGERS and member.needs_poll

    def _continue(self) -> None:
        match self.phase:
            case RebalancePhase.FINISHING:
                self._commit()
            case RebalancePhase.JOINING if self._is_starting and self._membership.has_nothing_to_read:
                self._started(None)  # the streams wait for a matching topic
            case _:
                if self.phase is not RebalancePhase.JOINING:
                    self._cycles = 0
                if (
                    self._holdings.is_published
                    and self._membership.state is State.UNJOINED
                    and not self._membership.held
                ):
                    self._revoke(is_lost=True)  # of no partitions, but with the same steps
                else:
                    self._join()

    # -- errors

    def _listener_done(self, error: Exception | None) -> None:
        """Continue whatever a listener raised; the exception is reported at the end."""
        self._raised = self._raised or error
        if self.phase is RebalancePhase.BEFORE_RELEASING:
            self._release()
        elif self.phase is RebalancePhase.BEFORE_STARTING:
            self._start()

    def _refused(self, fatal: Fatal) -> None:
        """Handle the coordinator's refusal: messages of owned partitions are no longer returned; the partitions are
        released at the next join."""
        if self._is_closing:
            return
        self._holdings.stop()
        self._holdings.clear()
        self._commits.rest()
        kind = Fenced if fatal.error_code == ErrorCode.FENCED_INSTANCE_ID else GroupRefused
        self._fail(kind(fatal.error_code, fatal.reason))

    # -- shutdown

    def _shut(self) -> None:
        """Stop, end the streams; then commit, release and leave, from wherever the rebalance is
        (docs/spec/consumer-client.md#D8, #E5)."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._is_starting:
            self._started(ClientClosed("the connector was shut down"))
        self._commits.rest()
        self._holdings.stop()
        self._holdings.end()
        if self.phase is RebalancePhase.IDLE:
            self._enter(RebalancePhase.CLOSED)
            self._effects.append(StreamsEnded())
        elif self.phase is RebalancePhase.BEFORE_RELEASING:
            self._release()
        elif self.phase in {RebalancePhase.FINISHING, RebalancePhase.COMMITTING, RebalancePhase.RELEASING}:
            return  # the present step continues with that
        elif self._holdings.is_published:
            self._finish()
        else:
            self._leave()
