"""The send backlog of all clients together, and the slow readers to be closed for it.

It is measured at intervals, not at every reply: `check_every_bytes` bounds the bytes sent between two checks.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

_PATIENCE_MS = 10_000
"""Time after which a client that reads nothing is closed while the backlog is above half its limit."""
_CHECKS_A_LIMIT = 16
CAUGHT_UP = -1
"""`taken_bytes` of a client without a backlog; its standstill counts from the next check that finds one."""


class SlowReader(Protocol):
    """A client, with the bytes written to its socket."""

    handed_bytes: int
    """Bytes written since the client connected."""
    taken_bytes: int
    """Written bytes that the socket had taken at the last check."""
    taken_ms: int
    """Time of the last check that found progress."""

    def unsent_bytes(self) -> int:
        """Return the bytes that the socket has not taken yet."""


R = TypeVar("R", bound=SlowReader)


class SendBacklog:
    """Unread bytes of all clients. `bytes`: at the last check; `check_every_bytes`: sent at most until the next one."""

    __slots__ = ("bytes", "check_every_bytes", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.check_every_bytes = max_bytes // _CHECKS_A_LIMIT
        self.bytes = 0

    @property
    def is_crowded(self) -> bool:
        """Return true if the next check must come soon, even if nothing is sent."""
        return self.bytes > self.check_every_bytes

    def check(self, readers: Iterable[R], now_ms: int) -> list[R]:
        """Measure the backlog and return the readers to be closed.

        Above half the limit, clients that have read nothing for 10 s are closed. Above the limit, those without
        progress for the longest time are closed first, and among them those with the largest backlogs, until the rest
        is within the limit.
        """
        owing: list[tuple[int, int, int, R]] = []
        self.bytes = 0
        for order, reader in enumerate(readers):
            unsent = reader.unsent_bytes()
            taken = reader.handed_bytes - unsent
            if not unsent:
                reader.taken_bytes = CAUGHT_UP
                continue
            if taken != reader.taken_bytes:
                reader.taken_bytes, reader.taken_ms = taken, now_ms
            self.bytes += unsent
            owing.append(((now_ms - reader.taken_ms) // 1_000, unsent, order, reader))
        closing: list[R] = []
        if self.bytes > self.max_bytes // 2:
            for still_s, unsent, _order, reader in sorted(owing, key=lambda one: one[:3], reverse=True):
                if self.bytes <= self.max_bytes and still_s * 1_000 < _PATIENCE_MS:
                    break
                closing.append(reader)
                self.bytes -= unsent
        return closing
