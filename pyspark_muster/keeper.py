"""A thread that serves a member while Spark does not call its reader."""

import threading
from collections.abc import Callable
from contextlib import suppress

from pyspark_muster.control import ControlSocket, Finished

PAUSE_S = 0.1


class Keeper:
    """Calls `attend` about ten times a second, and at once with a message from the driver. `attend` is called without a
    lock of the keeper, and must not raise.
    """

    def __init__(self, attend: Callable[[Finished | None], None]) -> None:
        self._attend = attend
        self._control: ControlSocket | None = None
        with suppress(OSError):  # Unix sockets are missing, or the path is too long: the driver then sends no messages
            self._control = ControlSocket()
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="muster-keeper", daemon=True)

    @property
    def path(self) -> str | None:
        """Address for the driver's listener."""
        return None if self._control is None else str(self._control.path)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return once the thread has ended, unless it is the caller's own."""
        self._is_stopped.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()
        if self._control is not None:
            self._control.close()

    def _run(self) -> None:
        while not self._is_stopped.is_set():
            self._attend(self._next())

    def _next(self) -> Finished | None:
        if self._control is None:
            self._is_stopped.wait(PAUSE_S)
            return None
        return self._control.receive(PAUSE_S)
