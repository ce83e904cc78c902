"""The first half of a rebalance, S1 to S6: stop, clear, commit, tell the listener, release
(docs/spec/consumer-client.md#E3)."""

from membership.events import Closing, CommitDone, MemberEffect, ReleaseAsked, Released
from membership.member import State
from muster.core.completions import refusal
from muster.errors import RequestTimedOut
from muster.streams.events import CallBeforeReleasing, CommitEnded, Report
from muster.streams.rebalance import NO_MEMBER, Cycle, RebalancePhase
from protocol.errors import ErrorCode

RELEASE_WITHIN_MS = 5_000
_LAST = -1
"""The number of the commit before a release."""
_AS_OFTEN_AS_MAY_BE = 1 << 30


class RevokeSteps(Cycle):
    """Each method does one step and continues with the next, or sets the phase that names the event it waits for."""

    def _revoke(self, *, is_lost: bool) -> None:
        """S2 and S3: stop, and clear the queues."""
        if self._is_closing and self.phase is not RebalancePhase.LEAVING:
            return  # the partitions are being released already
        if self.phase is RebalancePhase.LEAVING or not self._holdings.is_published:
            self._feed_member(Released())
            return
        self._is_lost = is_lost
        self._commits.rest()
        self._holdings.stop()
        self._holdings.clear()
        self._finish()

    def _finish(self) -> None:
        """Wait until the application has processed the messages in hand, so that they can be committed."""
        if self._settings.auto_commit_enable and not self._is_lost and self._holdings.has_in_hand:
            self._enter(RebalancePhase.FINISHING, min(self._settings.hand_over_wait_ms, self._half_ms))
        else:
            self._commit()

    @property
    def _half_ms(self) -> int:
        return self._settings.rebalance_timeout_ms // 2

    def _commit(self) -> None:
        """S4: commit with the old generation, which is valid while the group prepares its rebalance."""
        offsets = self._holdings.consumed() if self._settings.auto_commit_enable and not self._is_lost else {}
        if not offsets:
            self._call_before_releasing()
        elif self._is_closing:
            self._enter(RebalancePhase.COMMITTING)
            self._add(self._commits.ask(_LAST, self._settings.offsets_commit_max_retries, self._now_ms))
        else:
            self._enter(RebalancePhase.COMMITTING, self._half_ms)
            self._add(self._commits.ask(_LAST, _AS_OFTEN_AS_MAY_BE, self._now_ms))

    def _commit_overdue(self) -> None:
        self._commits.forget(_LAST)
        sentence = f"the commit before a rebalance was not answered within {self._half_ms} ms: some will come again"
        self._effects.append(Report(RequestTimedOut(sentence)))
        self._call_before_releasing()

    def _committed(self, ended: CommitEnded) -> None:
        code = ended.error_code
        self._is_lost = code in NO_MEMBER
        if code not in {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} and not self._is_lost:
            self._effects.append(Report(refusal(CommitDone(_LAST, code, {}, ended.reason))))
        self._call_before_releasing()

    def _call_before_releasing(self) -> None:
        """S5: call the listener's `before_releasing`."""
        if self._has_listener and not self._is_closing:
            self._enter(RebalancePhase.BEFORE_RELEASING)
            self._effects.append(CallBeforeReleasing(self._holdings.owned()))
        else:
            self._release()

    def _release(self) -> None:
        """S6: release, with the member id and generation of the grants, which may still be in force although the group
        has moved on."""
        epochs = self._holdings.epochs()
        if not epochs:
            self._released()
            return
        self._enter(RebalancePhase.RELEASING)
        self._operation = self._commits.operation()
        who, when = self._holdings.member_id, self._holdings.generation_id
        self._feed_member(ReleaseAsked(self._operation, epochs, who, when, self._now_ms + RELEASE_WITHIN_MS))

    def _released(self) -> None:
        self._holdings.forget()
        if self._is_closing:
            self._leave()
        else:
            self._enter(RebalancePhase.JOINING)
            self._feed_member(Released())

    def _add(self, effects: list[MemberEffect]) -> None:
        for effect in effects:
            if isinstance(effect, CommitEnded) and effect.number == _LAST:
                self._committed(effect)
            else:
                self._effects.append(effect)

    def _leave(self) -> None:
        is_released = self._membership.state is State.RELEASING
        self._enter(RebalancePhase.LEAVING)
        self._feed_member(Closing())
        if is_released:
            self._feed_member(Released())  # the present rebalance has requested it
