"""Commits and offset fetches of a client: awaited, or completed later by callbacks."""

from collections.abc import Callable
from typing import TypeVar

from membership.events import CommitDone, OffsetsDone
from muster.client.steps import FINISH_SHIELDED, Procedure, Shield, WaitUntil
from muster.core.completions import Completions
from muster.net.refusals import Refusals

GRACE_S = 1.0
"""Time beyond its deadline for which an operation is waited for: the core ends it, and its driver may come late."""

D = TypeVar("D", CommitDone, OffsetsDone)


class Operations(Completions):
    """Operations of one client. Guarded as its cores are."""

    def __init__(self, notify: Callable[[], None], refusals: Refusals | None = None) -> None:
        super().__init__(refusals)
        self._notify = notify

    def wait_for(self, number: int, kind: type[D], timeout_s: float) -> Procedure[D | None]:
        """Return what became of it; None if nothing was heard in time. Raises WokenUp, AuthenticationFailed. A caller
        that is interrupted or has no more time forgets the operation, which goes on.
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
        """Run those of operations that have ended, in that order, one at a time and each to its end."""
        yield FINISH_SHIELDED
        while finished := self.next_finished():
            callback, done = finished
            yield Shield(callback(done))

    def finish_later_ones(self, timeout_s: float) -> Procedure[None]:
        """Wait until all that were to be heard of later have ended, and run their callbacks."""
        yield WaitUntil(lambda: self.has_failed or not self.awaits_later_ones, max(timeout_s, 0.0))
        yield from self.run_callbacks()

    def wake(self) -> None:
        """Interrupt the next wait, or the one under way."""
        super().wake()
        self._notify()
