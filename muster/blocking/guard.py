"""The single-thread guard: one thread at a time uses a client."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from muster.errors import ClientClosed, ClientFailed, ConcurrentUse
from muster.net.fork_guard import ForkGuard


class ThreadGuard:
    """Refuses a thread while another one is inside, without an effect on that one."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._guard = ForkGuard()
        self._lock = threading.Lock()
        self._user: int | None = None
        self._depth = 0
        self.is_closed = False

    def check_open(self) -> None:
        """Raise ClientClosed, or MusterError in a forked process."""
        self._guard.check()
        if self.is_closed:
            raise ClientClosed(f"this {self._what} was closed")

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Enter as the only thread, in which callbacks may enter again. Raises ConcurrentUse, ClientClosed; MusterError
        in a forked process."""
        self._guard.check()
        me = threading.get_ident()
        is_inside = False
        try:
            with self._lock:
                if self.is_closed:
                    raise ClientClosed(f"this {self._what} was closed")
                if self._user not in {None, me}:
                    raise ConcurrentUse(f"this {self._what} is in use by another thread: give each thread its own")
                self._user, self._depth, is_inside = me, self._depth + 1, True
            yield
        except ClientFailed:
            self.is_closed = True
            raise
        finally:
            if is_inside:
                with self._lock:
                    self._depth -= 1
                    if not self._depth:
                        self._user = None
