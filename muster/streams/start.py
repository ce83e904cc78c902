"""The second half of a rebalance, S7 to S13: join, read offsets, claim, publish, tell the listener, start
(docs/spec/consumer-client.md#E3). No partition is fetched before its claim is granted.
"""

from membership.events import Assigned, ClaimAsked, ClaimDone, OffsetsAsked, OffsetsDone
from membership.member import State
from muster.errors import GroupRefused, RebalanceFailed
from muster.streams.events import CallBeforeStarting, FetchWanted, Report
from muster.streams.rebalance import NO_MEMBER, RebalancePhase
from muster.streams.revoke import RevokeSteps
from protocol.errors import ErrorCode

_TRIES = 3
"""Number of attempts of a claim whose replies are lost in a row: giving up means another join, which ends the
grants."""


class StartSteps(RevokeSteps):
    """Each method does one step and continues with the next, or sets the phase that names the event it waits for."""

    def _assigned(self, effect: Assigned) -> None:
        """End of S7, and S8: fetch offsets, which the claim returns once more as of the grant."""
        unknown = self._kind.unknown_threads()
        if self._is_closing:
            return
        if unknown:
            leader = f"the leader of group {self._membership.group_id}"
            sentence = f"{leader} assigned {unknown[0]}: this member has no such thread, and leaves"
            self._say(GroupRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, sentence))
            self._is_closing = True
            self._holdings.end()
            self._leave()
            return
        self._generation_id, self._claims = effect.generation_id, 0
        if effect.partitions:
            self._read(effect)
        else:
            self._holdings.publish({}, {}, self._membership.member_id, self._generation_id)
            self._call_before_starting()

    def _read(self, effect: Assigned) -> None:
        self._enter(RebalancePhase.READING)
        self._operation = self._commits.operation()
        deadline_ms = self._now_ms + _TRIES * self._settings.request_timeout_ms
        self._feed_member(OffsetsAsked(self._operation, effect.partitions, deadline_ms))

    def _offsets_read(self, done: OffsetsDone) -> None:
        if done.error_code == ErrorCode.NONE:
            self._claim()
        else:
            self._join_again(f"the committed offsets were refused: {done.error_code.name}")

    def _claim(self) -> None:
        """S10: claim the partitions."""
        self._enter(RebalancePhase.CLAIMING)
        self._operation = self._commits.operation()
        deadline_ms = self._now_ms + _TRIES * self._settings.request_timeout_ms
        self._feed_member(ClaimAsked(self._operation, dict(self._kind.threads), self._generation_id, deadline_ms))

    def _claimed(self, done: ClaimDone) -> None:
        code = done.error_code
        if code == ErrorCode.NONE:
            # S11: nothing is fetched or returned before the grant is certain.
            self._holdings.publish(self._kind.threads, done.grants, done.member_id, done.generation_id)
            self._call_before_starting()
        elif code == ErrorCode.OWNED:
            self._claims += 1
            held = ", ".join(f"{one} by {who}" for one, who in sorted(done.owners.items())[:5])
            if self._claims < self._settings.rebalance_max_retries:
                self._enter(RebalancePhase.PAUSING, self._settings.rebalance_backoff_ms)
            else:
                self._join_again(f"partitions are still owned: {held}")
        elif code == ErrorCode.REBALANCE_IN_PROGRESS or code in NO_MEMBER:
            self._cycles = 0  # another trigger has its own number of attempts
            self._join()
        else:
            self._join_again(f"the claim was refused: {code.name}")

    def _join_again(self, why: str) -> None:
        """Return to S7, up to the number of attempts for one trigger."""
        self._cycles += 1
        self._refusal = why
        if self._cycles < self._settings.rebalance_max_retries:
            self._join()
        else:
            sentence = f"group {self._membership.group_id}: no rebalance has succeeded in {self._cycles} tries: {why}"
            self._fail(RebalanceFailed(sentence))

    def _call_before_starting(self) -> None:
        """S12: call the listener's `before_starting`."""
        if self._has_listener:
            self._enter(RebalancePhase.BEFORE_STARTING)
            self._effects.append(CallBeforeStarting(self._holdings.owned(), self._kind.everyone))
        else:
            self._start()

    def _start(self) -> None:
        """S13: start fetching. A member that lost its place meanwhile owns nothing: it fetches nothing, and the trigger
        follows."""
        self._enter(RebalancePhase.RUNNING)
        self._cycles = 0
        if self._membership.generation_id == self._generation_id and self._membership.state is State.STEADY:
            self._holdings.start()
            self._commits.restart(self._now_ms)
            self._effects.append(FetchWanted())
        raised, self._raised = self._raised, None
        if self._is_starting:
            self._started(raised)
        elif raised is not None:
            self._effects.append(Report(raised))
