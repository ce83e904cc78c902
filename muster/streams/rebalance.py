"""The state of a rebalance: the event that it waits for, its attempts, its errors (docs/spec/consumer-client.md#E3)."""

import enum

from membership.core import Membership
from membership.events import MemberEffect, MemberEvent, Polled, RejoinAsked
from muster.streams.commits import StreamCommits
from muster.streams.events import FeedMember, Report, Started
from muster.streams.group_protocol import StreamsProtocol
from muster.streams.holdings import Holdings
from muster.streams.settings import StreamsSettings
from protocol.errors import ErrorCode

NO_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})
_REST = 10
"""Number of backoffs between a failed rebalance and the next one without a trigger."""


class RebalancePhase(enum.Enum):
    """The step that a rebalance waits for."""

    IDLE = "streams"
    RUNNING = "a trigger"
    RESTING = "a trigger or a while, after a failure"
    FINISHING = "messages in hand"
    COMMITTING = "the commit"
    BEFORE_RELEASING = "before_releasing"
    RELEASING = "the release"
    JOINING = "the group"
    READING = "committed offsets"
    CLAIMING = "the claim"
    PAUSING = "the next claim"
    BEFORE_STARTING = "before_starting"
    LEAVING = "the departure"
    CLOSED = "nothing"


class Cycle:
    """The rebalances of one connector. `_effects` has the effects of the present step."""

    def __init__(
        self,
        membership: Membership,
        kind: StreamsProtocol,
        holdings: Holdings,
        settings: StreamsSettings,
        *,
        has_listener: bool = False,
    ) -> None:
        self.phase = RebalancePhase.IDLE
        self._membership = membership
        self._kind = kind
        self._holdings = holdings
        self._settings = settings
        self._has_listener = has_listener
        self._commits = StreamCommits(holdings, settings)
        self._effects: list[MemberEffect] = []
        self._now_ms = 0
        self._until_ms: int | None = None
        self._operation = 0
        self._generation_id = -1
        self._cycles = self._claims = 0
        self._is_starting = True
        self._is_closing = self._is_dead = self._is_lost = False
        self._raised: Exception | None = None
        self._refusal = ""

    def _join(self) -> None:
        """S1: make the membership join."""
        self._enter(RebalancePhase.JOINING)
        if not self._membership.needs_poll:
            self._feed_member(RejoinAsked(self._refusal or "a rebalance failed"))
        self._feed_member(Polled())

    def _fail(self, error: Exception) -> None:
        """Handle a failed rebalance: at the start it ends the connector; later it is retried after a pause."""
        self._cycles = 0
        self._is_dead = self._is_starting
        self._enter(RebalancePhase.RESTING, None if self._is_dead else _REST * self._settings.rebalance_backoff_ms)
        self._say(error)
        raised, self._raised = self._raised, None
        if raised is not None:
            self._effects.append(Report(raised))

    def _say(self, error: Exception) -> None:
        if self._is_starting:
            self._started(error)
        else:
            self._effects.append(Report(error))

    def _started(self, error: Exception | None) -> None:
        self._is_starting = False
        self._effects.append(Started(error))

    def _feed_member(self, event: MemberEvent) -> None:
        self._effects.append(FeedMember(event))

    def _enter(self, phase: RebalancePhase, at_most_ms: int | None = None) -> None:
        self.phase = phase
        self._until_ms = None if at_most_ms is None else self._now_ms + at_most_ms
