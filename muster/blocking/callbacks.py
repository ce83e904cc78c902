"""The thread in which a client calls the application's callbacks. It holds no lock, so callbacks may wait and send, and
heartbeats continue meanwhile.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from muster.net.condition import LockedCondition
from muster.net.refusals import Refusals

_LOG: Final = logging.getLogger("muster")


class Callbacks:
    """Callbacks, called one after the other, in the order of `put`. The thread starts with the first."""

    def __init__(self, changed: LockedCondition, refusals: Refusals | None = None) -> None:
        """`changed` is the client's condition, whose lock the caller of `put` may hold. `refusals` are errors that also
        interrupt a wait for a record."""
        self.changed = changed
        self.refusals = refusals or Refusals()
        self._mine = LockedCondition()
        self._due: deque[Callable[[], object]] = deque()
        self._put = self._returned = 0
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def put(self, call: Callable[[], object]) -> None:
        with self._mine.lock:
            self._due.append(call)
            self._put += 1
            if self._thread is None:
                # A daemon thread: a callback that never returns must not keep the program from ending.
                self._thread = threading.Thread(target=self._run, name="muster-callbacks", daemon=True)
                self._thread.start()
            self._mine.notify_all()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until all callbacks put so far have returned; return false if the time is over before. A callback does
        not wait for itself."""
        if threading.current_thread() is self._thread:
            return True
        with self._mine.lock:
            last = self._put
            return self._mine.wait_for(lambda: self._returned >= last, timeout_s)

    def stop(self, timeout_s: float = 0.0) -> None:
        """End the thread once all callbacks were called; wait for that, except in a callback."""
        with self._mine.lock:
            self._is_stopping, thread = True, self._thread
            self._mine.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            with self._mine.lock:
                self._mine.wait_for(lambda: self._due or self._is_stopping)
                if not self._due:
                    self._thread = None
                    return
                call = self._due.popleft()
            try:
                call()
            except BaseException:  # noqa: BLE001  (the application's own, a sys.exit too: the next ones are called)
                _LOG.exception("a callback failed")
            with self._mine.lock:
                self._returned += 1
                self._mine.notify_all()
