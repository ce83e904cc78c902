"""The thread that calls the application's listener and `on_error`: they may take long, heartbeats go on meanwhile.
Calls are made one after the other, in their order.
"""

import queue
import threading
from collections.abc import Callable


class Caller:
    """Starts its thread with the first call."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    def call(self, call: Callable[[], None]) -> None:
        """Soon, in the thread. `call` raises nothing."""
        if self._is_stopped:
            return
        if self._thread is None:
            # A daemon: a program that forgets to shut down must still be able to end.
            self._thread = threading.Thread(target=self._run, name="muster-listener", daemon=True)
            self._thread.start()
        self._calls.put(call)

    def stop(self, timeout_s: float) -> None:
        """After what was to be called already; waits for no longer than so, and not at all in a call. Nothing that
        comes later is called."""
        self._is_stopped = True
        self._calls.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
