"""Runs a client's procedures in a task of the event loop that drives its cores."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from muster.aio.guard import TaskGuard, said_to
from muster.client.steps import CallApplication, FinishShielded, Procedure, Shield, Step, Wait, WaitUntil
from muster.net.bootstrap import Bootstrap
from muster.net.loop import LoopDriver

R = TypeVar("R")


class LoopRunner:
    """Awaits the steps of a procedure. Nothing else of the client runs between two steps."""

    def __init__(self, where: Bootstrap, client_id: str, what: str) -> None:
        self.client_id = client_id
        self.driver = LoopDriver(where, client_id)
        self.guard = TaskGuard(what, self.driver.changed)

    async def run(self, procedure: Procedure[R]) -> R:
        """Run a procedure to its end."""
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = procedure.send(value) if error is None else procedure.throw(error)
            except StopIteration as done:
                result: R = done.value
                return result
            value = error = None
            try:
                value = await self._carry_out(step)
            except BaseException as raised:  # noqa: BLE001  (the procedure's, a cancellation too)
                error = raised

    async def run_alone(self, procedure: Procedure[R]) -> R:
        """Run a procedure unless another task is inside. Raises ConcurrentUse, ClientClosed."""
        with self.guard.alone():
            return await self.run(procedure)

    async def run_open(self, procedure: Procedure[R]) -> R:
        """Run a procedure, whether or not another task is inside. Raises ClientClosed."""
        self.guard.check_open()
        return await self.run(procedure)

    async def close(self, closing: Callable[[float], Procedure[None]], timeout_s: float) -> None:
        """Make the task inside leave, run the closing procedure, and disconnect, even if that raises. May be called
        twice."""
        if self.guard.is_closed:
            return
        deadline = self.driver.time() + timeout_s
        if not await self.guard.begin_to_close(timeout_s):
            return
        try:
            await self.run(closing(deadline - self.driver.time()))
        finally:
            self.guard.closed()
            await self.driver.stop()

    def check_open(self) -> None:
        """Raise ClientClosed, also while another task closes the client."""
        self.guard.check_open()

    @property
    def is_closed(self) -> bool:
        return self.guard.is_closed

    @property
    def is_closing(self) -> bool:
        return self.guard.is_being_closed

    def entered(self) -> AbstractContextManager[None]:
        """Enter. Raises ClientClosed."""
        self.guard.check_open()
        return nullcontext()

    def locked(self) -> AbstractContextManager[None]:
        """Return a context without effect, since a loop needs no lock."""
        return nullcontext()

    async def _carry_out(self, step: Step) -> object:
        match step:
            case Wait(timeout_s):
                await self.driver.changed.wait(timeout_s)
            case WaitUntil(holds, timeout_s):
                return await self.driver.changed.wait_for(holds, timeout_s)
            case CallApplication(function, arguments):
                return await said_to(function, *arguments)
            case Shield(procedure):
                await self.guard.call(self.run(procedure))
            case FinishShielded():
                await self.guard.finish()
            case _:
                await asyncio.sleep(0)
        return None
