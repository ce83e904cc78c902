"""Commits and offset fetches of an asyncio client: awaited, or heard of later, between the application's own calls."""

from typing import TypeVar

from muster.aio.changed import Changed
from muster.aio.one_user import OneUser, said_to
from muster.events import CommitDone, OffsetsDone
from muster.outcomes import Outcomes
from muster.refusals import Refusals

GRACE_S = 1.0
"""How much longer than its deadline an errand is waited for: the core ends it, in a loop that may come late."""

D = TypeVar("D", CommitDone, OffsetsDone)


class Errands(Outcomes):
    """Whose callbacks are called one at a time, and to their end."""

    def __init__(self, changed: Changed, one_user: OneUser, refusals: Refusals | None = None) -> None:
        super().__init__(refusals)
        self._changed = changed
        self._one_user = one_user

    async def wait_for(self, number: int, kind: type[D], timeout_s: float) -> D | None:
        """What became of it; None if nothing was heard in time. Raises WokenUp, AuthenticationFailed. Cancelled, it
        forgets the errand, which goes on.
        """
        try:
            await self._changed.wait_for(lambda: self.is_woken or self.is_done(number), timeout_s + GRACE_S)
            self.raise_wakeup()
            done = self.take(number) if self.is_done(number) else None
        except BaseException:
            self.forget(number)
            raise
        if done is None:
            self.forget(number)
        assert done is None or isinstance(done, kind)
        return done

    async def run_callbacks(self) -> None:
        """Of those that have ended, in that order."""
        await self._one_user.finish()
        while finished := self.next_finished():
            callback, done = finished
            await self._one_user.call(said_to(callback, done))

    async def finish_later_ones(self, timeout_s: float) -> None:
        """Wait until all that were to be heard of later have ended, and run their callbacks."""
        await self._changed.wait_for(lambda: self.has_failed or not self.awaits_later_ones, max(timeout_s, 0.0))
        await self.run_callbacks()

    def wake(self) -> None:
        """Whoever waits, or waits next, is interrupted once."""
        super().wake()
        self._changed.notify_all()
