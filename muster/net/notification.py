"""A notification that tasks of one event loop wait for."""

import asyncio
from collections.abc import Callable


class Changed:
    """A condition for tasks, as `threading.Condition` is for threads. Nothing happens between a check and the wait
    after it.
    """

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def notify_all(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the next `notify_all`, or for the timeout."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=timeout_s)
        finally:
            waiter.cancel()
            self._waiters.discard(waiter)

    async def wait_for(self, holds: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Wait until the predicate holds, or for the timeout; return whether it does."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        while not holds():
            left_s = None if deadline is None else deadline - loop.time()
            if left_s is not None and left_s <= 0:
                return False
            await self.wait(left_s)
        return True
