"""EDGE: checks of passwords, in a separate thread. Deriving a key takes milliseconds and does not hold the
interpreter's lock, so heartbeats and flushes continue meanwhile."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from coordinator.io.exit import exit_on_error
from coordinator.node.effects import CheckPassword, DropCheck
from coordinator.node.events import Event, PasswordChecked


class PasswordChecks:
    """Carries out `CheckPassword` and `DropCheck`. The thread begins with the first check."""

    def __init__(self, happen: Callable[[Event], None]) -> None:
        self._happen = happen
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "passwords")
        self._waiting: dict[int, Future[None]] = {}
        self._is_stopped = False

    def check(self, effect: CheckPassword) -> None:
        """Queue the check and return."""
        if not self._is_stopped:
            self._waiting[effect.check_id] = self._thread.submit(self._run, effect)

    def drop(self, effect: DropCheck) -> None:
        """Remove the check from the queue. A check that has begun ends, and its result is dropped."""
        waiting = self._waiting.pop(effect.check_id, None)
        if waiting is not None:
            waiting.cancel()

    def stop(self) -> None:
        """Drop the checks that have not begun, and wait for the one that has."""
        self._is_stopped = True
        self._waiting.clear()
        self._thread.shutdown(cancel_futures=True)

    def _run(self, effect: CheckPassword) -> None:
        with exit_on_error("Checking a password"):
            effect.job.run()
        self._loop.call_soon_threadsafe(self._done, effect)

    def _done(self, effect: CheckPassword) -> None:
        if self._waiting.pop(effect.check_id, None) is not None:
            self._happen(PasswordChecked(effect.check_id, effect.job))
