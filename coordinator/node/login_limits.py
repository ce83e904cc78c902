"""Limits of failed logins by address, so that passwords cannot be tried out."""

from typing import Final

_MOST_ADDRESSES: Final = 10_000
BURST: Final = 50
"""Failed logins of one address that are answered in quick succession."""
REFILL_MS: Final = 2_000
"""Time after which one more is answered."""


class FailedLogins:
    """A token bucket for each address that failed lately."""

    def __init__(self) -> None:
        self._failed: dict[str, tuple[float, int]] = {}
        """Failures that count, and the time of the last one, the oldest first."""

    def add(self, host: str, now_ms: int) -> None:
        """Count a failed login."""
        counted = self._count(host, now_ms) + 1
        self._failed.pop(host, None)
        if len(self._failed) >= _MOST_ADDRESSES:
            del self._failed[next(iter(self._failed))]
        self._failed[host] = counted, now_ms

    def is_limited(self, host: str, now_ms: int) -> bool:
        """Return whether logins from the address are not looked at now."""
        return self._count(host, now_ms) > BURST - 1

    def _count(self, host: str, now_ms: int) -> float:
        counted, at_ms = self._failed.get(host, (0.0, now_ms))
        return max(0.0, counted - (now_ms - at_ms) / REFILL_MS)
