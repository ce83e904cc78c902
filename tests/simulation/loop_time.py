"""Time that the disk costs the loop: an operation in the loop's own thread delays all its clients.

Reads from the page cache are free, also while the file system stands still; on a slow disk some miss the cache. Changes
wait while the file system stands still, or while a slow disk has too much to write.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.errors import Broken

READS = frozenset({"open_to_read", "read_at", "list"})
SLOW_READ_MS, SLOW_WRITE_MS = 1, 500
MOST_MS = 200
"""Longest time that a step may wait for writes; no heartbeat interval is that short."""


class LoopTime:
    """`still_until_ms` and `slow_until_ms` say how the disk is, on the world's clock; `lost_ms` is what the last step
    waited."""

    def __init__(self) -> None:
        self.still_until_ms = self.slow_until_ms = -1
        self.lost_ms = 0
        self._written_ms = 0
        self._is_in_loop = False
        self._wrote: list[str] = []

    @contextmanager
    def of_a_step(self) -> Iterator[None]:
        """Raise Broken after a step that waited for a write."""
        self.lost_ms = self._written_ms = 0
        self._wrote.clear()
        self._is_in_loop = True
        try:
            yield
        finally:
            self._is_in_loop = False
        if self._written_ms > MOST_MS:
            raise Broken(f"the loop waited {self._written_ms} ms for the disk: {', '.join(self._wrote)}")

    def waits_for(self, operation: str, now_ms: int) -> None:
        """Count the time that this operation waits."""
        if not self._is_in_loop:
            return
        if operation in READS:
            self.lost_ms += SLOW_READ_MS if now_ms < self.slow_until_ms else 0
            return
        took_ms = SLOW_WRITE_MS if now_ms < self.slow_until_ms else 0
        took_ms += max(self.still_until_ms - now_ms, 0)
        self.lost_ms += took_ms
        self._written_ms += took_ms
        self._wrote.append(operation)
