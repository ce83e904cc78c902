"""Makes a client raise in a forked child, where it would wait for locks and a thread of its parent."""

import os
import threading

from muster.errors import MusterError
from muster.net.condition import LockedCondition

_forks = 0
"""Number of forks between this process and the one that imported this module."""


def _count_fork() -> None:
    global _forks  # noqa: PLW0603  (one number for the process, which is what forks)
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class ForkGuard:
    """Stores the process that first used a client. Takes no lock, since the child may have copies of held ones."""

    __slots__ = ("used_in",)

    def __init__(self) -> None:
        self.used_in: int | None = None

    def check(self) -> None:
        """Raise MusterError in a child of the process that used the client first."""
        if self.used_in != _forks:
            if self.used_in is not None:
                raise MusterError("this client was made before the process forked: make one in each process")
            self.used_in = _forks


class ClientCondition(LockedCondition):
    """A client's condition. Its `lock` is checked by the guard first. Conditions of one client share both."""

    def __init__(self, other: "ClientCondition | None" = None) -> None:
        self.guard: ForkGuard = ForkGuard() if other is None else other.guard
        super().__init__(None if other is None else other.raw_lock)

    @property
    def lock(self) -> threading.RLock:
        if self.guard.used_in != _forks:
            self.guard.check()
        return self.raw_lock
