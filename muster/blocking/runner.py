"""Runs a client's procedures in the application's thread, while another thread drives its cores."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

from muster.blocking.guard import ThreadGuard
from muster.client.steps import CallApplication, Procedure, Shield, Step, Wait, WaitUntil
from muster.net.bootstrap import Bootstrap
from muster.net.sockets import SocketDriver
from muster.net.thread import ThreadDriver

R = TypeVar("R")
_WITHOUT_LOCK: Final = (CallApplication, Shield)


class ThreadRunner:
    """Holds the client's lock while a procedure runs, and releases it while that waits or a callback runs."""

    is_closing: Final = False

    def __init__(self, where: Bootstrap, client_id: str, what: str, driver: SocketDriver | None = None) -> None:
        self.client_id = client_id
        self.driver: Any = driver or ThreadDriver(where, client_id)
        self.guard = ThreadGuard(what)
        self._changed = self.driver.changed

    def run(self, procedure: Procedure[R]) -> R:
        """Run a procedure to its end, in any thread."""
        value: Any = None
        error: BaseException | None = None
        try:
            while True:
                with self._changed.lock:
                    step = procedure.send(value) if error is None else procedure.throw(error)
                    while not isinstance(step, _WITHOUT_LOCK):
                        step = self._wait(procedure, step)
                value = error = None
                try:
                    if isinstance(step, CallApplication):
                        value = step.function(*step.arguments)
                    else:
                        self.run(step.procedure)
                except BaseException as raised:  # noqa: BLE001  (the procedure's, a Ctrl-C too)
                    error = raised
        except StopIteration as done:
            result: R = done.value
            return result
        except BaseException:  # maybe a Ctrl-C between two steps, which the procedure has not seen
            with self._changed.lock:
                procedure.close()
            raise

    def run_alone(self, procedure: Procedure[R]) -> R:
        """Run a procedure unless another thread is inside. Raises ConcurrentUse, ClientClosed."""
        with self.guard.entered():
            return self.run(procedure)

    def run_open(self, procedure: Procedure[R]) -> R:
        """Run a procedure, whether or not another thread is inside. Raises ClientClosed."""
        self.guard.check_open()
        return self.run(procedure)

    def close(self, closing: Callable[[float], Procedure[None]], timeout_s: float) -> None:
        """Run the closing procedure, and end the client's thread, even if that raises. May be called twice."""
        if self.guard.is_closed:
            return
        with self.guard.entered():
            try:
                self.run(closing(timeout_s))
            finally:
                self.guard.is_closed = True
                self.driver.stop()

    def check_open(self) -> None:
        """Do nothing: a client cannot be closed while a thread is inside."""

    @property
    def is_closed(self) -> bool:
        return self.guard.is_closed

    def entered(self) -> AbstractContextManager[None]:
        """Enter as the only thread. Raises ConcurrentUse, ClientClosed."""
        return self.guard.entered()

    def locked(self) -> Any:
        """Return the lock."""
        return self._changed.lock

    def _wait(self, procedure: Procedure[Any], step: Step) -> Step:
        """Wait as a step says, and return the procedure's next step; called with the lock."""
        value = None
        try:
            if isinstance(step, WaitUntil):
                value = self._changed.wait_for(step.holds, step.timeout_s)
            elif isinstance(step, Wait):
                self._changed.wait(step.timeout_s)
        except BaseException as raised:  # noqa: BLE001  (a Ctrl-C: the procedure's)
            return procedure.throw(raised)
        return procedure.send(value)
