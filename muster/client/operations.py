"""Commits and offset fetches of a client: awaited, or completed later by callbacks."""

from collections.abc import Callable
from typing import TypeVar

from membership.events import CommitDone, OffsetsDone
from muster.client.steps import FINISH_SHIELDED, Procedure, Shield, WaitUntil
from muster.core.completions import Completions
from muster.net.refusals import Refusals

GRACE_S = 1.0
"""Extra time to wait for an operation after its deadline, at which the core ends it: the driver may be late."""

D = TypeVar("D", CommitDone, OffsetsDone)


class Operations(Completions):
    """Operations of one client. Callers hold the guard of its cores."""

    def __init__(self, notify: Callable[[], None], refusals: Refusals | None = None) -> None:
        super().__init__(refusals)
        self._notify = notify

    def wait_for(self, number: int, kind: type[D], timeout_s: float) -> Procedure[D | None]:
        """Wait for an operation's result; None if there is none in time. Raises WokenUp, AuthenticationFailed. If the
        caller is interrupted or the time is over, the operation continues, and its result is dropped.
        """
        done = None
        try:
            yield WaitUntil(lambda: self.is_woken or self.is_done(number), timeout_s + GRACE_S)
            self.raise_wakeup()
            done = self.take(number) if self.is_done(number) else None
        finally:
            if done is None:
                self.forget(number)
        assert done is None or isinstance(done, kind)
        return done

    def run_callbacks(self) -> Procedure[None]:
        """Run the callbacks of ended operations, in the order in which these ended, one at a time and each to its
        end."""
        yield FINISH_SHIELDED
        while finished := self.next_finished():
            callback, done = finished
            yield Shield(callback(done))

    def finish_later_ones(self, timeout_s: float) -> Procedure[None]:
        """Wait until all operations with callbacks have ended, and run the callbacks."""
        yield WaitUntil(lambda: self.has_failed or not self.awaits_later_ones, max(timeout_s, 0.0))
        yield from self.run_callbacks()

    def wake(self) -> None:
        """Interrupt the next wait, or the one under way."""
        super().wake()
        self._notify()
