"""EDGE: measures the lag of the event loop: how late a timer fires each second."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

_EVERY_S: Final = 1.0


class LoopLag:
    """A timer that reports its lateness, in milliseconds, until it is stopped."""

    def __init__(self, report: Callable[[float], None]) -> None:
        self._report = report
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure from now on."""
        self._due = time.monotonic() + _EVERY_S
        self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._fired)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    def _fired(self) -> None:
        self._report(max(0.0, time.monotonic() - self._due) * 1_000)
        self.start()
