"""Times at which connections closed: a member whose connection is closed is told from one that is slow."""

from typing import Final

MOST_KEPT: Final = 16_384
"""Connections remembered; the oldest are forgotten first, so a storm of connections takes no memory."""


class ClosedConnections:
    """Monotonic times by number of connection, the oldest first."""

    __slots__ = ("_closed_ms",)

    def __init__(self) -> None:
        self._closed_ms: dict[int, int] = {}

    def add(self, number: int, now_ms: int) -> None:
        """Remember that the connection closed now."""
        self._closed_ms[number] = now_ms
        if len(self._closed_ms) > MOST_KEPT:
            del self._closed_ms[next(iter(self._closed_ms))]

    def closed_ms(self, number: int) -> int | None:
        """Return when the connection closed; None if that is not known."""
        return self._closed_ms.get(number)
