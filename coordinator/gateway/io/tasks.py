"""EDGE: asyncio tasks of an edge. A task that fails ends the process: without discovery, say, the gateway would serve
old brokers for ever."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from coordinator.io.exit import exit_process


class Tasks:
    """Tasks of one edge, until they end or are cancelled."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run the work; return its task, which may be cancelled."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            exit_process(self._name, error)

    async def stop(self) -> None:
        """Cancel all tasks."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
