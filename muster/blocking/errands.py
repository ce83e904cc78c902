"""Commits and offset fetches of a blocking client: waited for, or heard of later in the application's own thread."""

import threading
from typing import TypeVar

from muster.events import CommitDone, OffsetsDone
from muster.outcomes import Outcomes
from muster.refusals import Refusals

GRACE_S = 1.0
"""How much longer than its deadline an errand is waited for: the core ends it, in a thread that may come late."""

D = TypeVar("D", CommitDone, OffsetsDone)


class Errands(Outcomes):
    """Guarded by `changed`, as the core is."""

    def __init__(self, changed: threading.Condition, refusals: Refusals | None = None) -> None:
        super().__init__(refusals)
        self._changed = changed

    def wait_for(self, number: int, kind: type[D], timeout_s: float) -> D | None:
        """What became of it; None if nothing was heard in time. Raises WokenUp, AuthenticationFailed. Who is
        interrupted or has no more time forgets the errand, which goes on.
        """
        done = None
        with self._changed:
            try:
                self._changed.wait_for(lambda: self.is_woken or self.is_done(number), timeout_s + GRACE_S)
                self.raise_wakeup()
                done = self.take(number) if self.is_done(number) else None
            finally:
                if done is None:
                    self.forget(number)
        assert done is None or isinstance(done, kind)
        return done

    def run_callbacks(self) -> None:
        """Of those that have ended, in that order; without the lock."""
        while True:
            with self._changed:
                finished = self.next_finished()
            if finished is None:
                return
            callback, done = finished
            callback(done)

    def finish_later_ones(self, timeout_s: float) -> None:
        """Wait until all that were to be heard of later have ended, and run their callbacks."""
        with self._changed:
            self._changed.wait_for(lambda: self.has_failed or not self.awaits_later_ones, max(timeout_s, 0.0))
        self.run_callbacks()

    def wake(self) -> None:
        """From any thread: whoever waits, or waits next, is interrupted once."""
        with self._changed:
            super().wake()
            self._changed.notify_all()

    def raise_wakeup(self) -> None:
        """Raises WokenUp, once a `wake`; AuthenticationFailed, once a refusal."""
        with self._changed:
            super().raise_wakeup()
