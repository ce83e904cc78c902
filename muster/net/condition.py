"""Conditions whose lock is entered by itself, so that a Ctrl-C cannot leave it taken."""

import threading
from typing import Never


class LockedCondition(threading.Condition):
    """A condition over a reentrant lock. Enter `lock`: `with condition.lock:`.

    `with condition:` would enter by a function in Python. A signal's handler may raise in it when it has the lock and
    `with` does not know of that yet; nobody would release the lock then. A lock's own `__enter__` is one instruction of
    CPython 3.11 to 3.13, in which no handler runs.
    """

    def __init__(self, lock: "threading.RLock | None" = None) -> None:
        self.raw_lock = threading.RLock() if lock is None else lock
        super().__init__(self.raw_lock)

    @property
    def lock(self) -> threading.RLock:
        return self.raw_lock

    def wait(self, timeout: float | None = None) -> bool:
        """Wait as `threading.Condition` does, called by a thread that has entered once. The thread has the lock
        afterwards, even if a signal's handler raises when it has just been released."""
        try:
            return super().wait(timeout)
        except BaseException:
            if not self._is_owned():  # type: ignore[attr-defined]  # of Condition; typeshed leaves it out
                self.raw_lock.acquire()
            raise

    def __enter__(self) -> Never:
        raise TypeError("enter the condition's lock: `with condition.lock:`")
