"""EDGE: checks of passwords, in a thread of their own. Deriving a key takes milliseconds and does not hold the
interpreter's lock: heartbeats and flushes go on meanwhile."""

import asyncio
from collections.abc import Callable

from coordinator.io.exit import exit_on_error
from coordinator.io.job_runners import JobThread
from coordinator.node.effects import CheckPassword
from coordinator.node.events import Event, PasswordChecked


class PasswordChecks:
    """Carries out `CheckPassword` effects. The thread begins with the first of them."""

    def __init__(self, happen: Callable[[Event], None]) -> None:
        self._happen = happen
        self._loop = asyncio.get_running_loop()
        self._thread: JobThread | None = None
        self._is_stopped = False

    def check(self, effect: CheckPassword) -> None:
        """Queue the check and return."""
        if self._is_stopped:
            return
        if self._thread is None:
            self._thread = JobThread("passwords")

        def attempt() -> None:
            with exit_on_error("Checking a password"):
                if not self._is_stopped:
                    effect.job.run()
            self._loop.call_soon_threadsafe(self._done, effect)

        self._thread.submit(attempt)

    def _done(self, effect: CheckPassword) -> None:
        if not self._is_stopped:
            self._happen(PasswordChecked(effect.check_id, effect.job))

    def stop(self) -> None:
        """Drop the checks that have not begun, and wait for the one that has."""
        self._is_stopped = True
        if self._thread is not None:
            self._thread.finish()
