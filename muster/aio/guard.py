"""The single-task guard: one task at a time polls a client, and started listeners run to their end."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from typing import Any

from membership.topic_partition import TopicPartition
from muster.errors import ClientClosed, ClientFailed, ConcurrentUse
from muster.net.notification import Changed

Listener = Callable[[tuple[TopicPartition, ...]], Awaitable[Any] | None]
"""A function, or a coroutine function, which is awaited."""


class TaskGuard:
    """The task in a call of the client, the task that closes it, and the running listener. Listeners may call the
    client."""

    def __init__(self, what: str, changed: Changed) -> None:
        self.is_closed = False
        self._what = what
        self._changed = changed
        self._user: asyncio.Task[object] | None = None
        self._depth = 0
        self._closer: asyncio.Task[object] | None = None
        self._work: asyncio.Task[None] | None = None

    # -- entry

    def check_open(self) -> None:
        """Raise ClientClosed, also while another task closes the client."""
        is_closing = self._closer is not None and self._me is not self._closer and not self._is_listener
        if self.is_closed or is_closing:
            raise ClientClosed(f"this {self._what} was closed")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Enter as the only task. Raises ConcurrentUse while another task is inside, ClientClosed."""
        self.check_open()
        if self._is_listener:
            yield
            return
        if self._user not in {None, self._me}:
            raise ConcurrentUse(f"this {self._what} is in use by another task: give each task its own")
        self._user, self._depth = self._me, self._depth + 1
        try:
            yield
        except ClientFailed:
            self.is_closed = True
            raise
        finally:
            self._depth -= 1
            if not self._depth:
                self._user = None
                self._changed.notify_all()

    async def begin_to_close(self, timeout_s: float) -> bool:
        """Make the task inside leave with ClientClosed; return true if this task must close the client. If another task
        is closing it, wait for that, for at most `timeout_s`.
        """
        if self.is_closed or (self._is_listener and self._closer is not None):
            return False
        if self._closer is not None:
            await self._changed.wait_for(lambda: self.is_closed, timeout_s)
            return False
        self._closer = self._me
        self._changed.notify_all()
        if not self._is_listener:
            await self._changed.wait_for(lambda: self._user in {None, self._me}, timeout_s)
        return True

    def closed(self) -> None:
        self.is_closed = True
        self._changed.notify_all()

    @property
    def is_being_closed(self) -> bool:
        return self._closer is not None

    # -- calls that cancellation does not interrupt

    async def call(self, work: Coroutine[object, object, None]) -> None:
        """Run `work` and wait for it. If the waiting task is cancelled, the work continues, and `finish` waits for it
        again. Call `finish` before making `work`.
        """
        if self._is_listener:
            await work
            return
        assert self._work is None
        # Not by the loop's task factory: an eager task would call a listener before it is registered here.
        self._work = asyncio.Task(work, loop=asyncio.get_running_loop())
        await self.finish()

    async def finish(self) -> None:
        """Wait until begun work has ended, and raise its exception, once. A listener does not wait for itself."""
        while (work := self._work) is not None and not self._is_listener:
            await asyncio.wait((work,))
            if self._work is work:
                self._work = None
                work.result()

    @property
    def _me(self) -> "asyncio.Task[object] | None":
        return asyncio.current_task()

    @property
    def _is_listener(self) -> bool:
        return self._work is not None and self._me is self._work


async def said_to(listener: Callable[..., object] | None, *arguments: object) -> object:
    """Call a function of the application, and await its result if that is awaitable."""
    result = None if listener is None else listener(*arguments)
    return await result if isawaitable(result) else result
