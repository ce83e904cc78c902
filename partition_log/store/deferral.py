"""Deferral of flushes: appends that no reply waits for are written by the next flush that a reply waits for."""


class Deferral:
    """Tracks whether all appends that no flush includes yet may wait. Positions are those of the write-ahead log."""

    __slots__ = ("_taken", "_up_to")

    def __init__(self) -> None:
        self._taken = self._up_to = 0

    def deferred(self, begins: int, ends: int) -> None:
        """Note an append that no reply waits for. It may wait if a flush includes all before it, or if that may wait
        too."""
        if begins <= max(self._up_to, self._taken):
            self._up_to = ends

    def taken(self, position: int) -> None:
        """Note that a flush includes everything up to the position."""
        self._taken = position

    def end(self) -> None:
        """Have all deferred appends flushed as soon as possible."""
        self._up_to = 0

    def may_wait(self, position: int) -> bool:
        """Return true if no reply waits for appends that no flush includes; `position` is that of the last append."""
        return position == self._up_to

    def awaited(self, position: int) -> int:
        """Return the position up to which everything is durable, or will be without further appends."""
        return self._taken if self.may_wait(position) else position
