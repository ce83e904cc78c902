"""Deferral of flushes: appends that no reply waits for are written by the next flush that a reply waits for."""


class Deferral:
    """Knows whether all that no flush has taken yet may wait. Positions are those of the write-ahead log."""

    __slots__ = ("_taken", "_up_to")

    def __init__(self) -> None:
        self._taken = self._up_to = 0

    def deferred(self, begins: int, ends: int) -> None:
        """Note an append that nobody waits for. It may wait if all before it is taken, or may wait too."""
        if begins <= max(self._up_to, self._taken):
            self._up_to = ends

    def taken(self, position: int) -> None:
        """Note that a flush has taken all up to the position."""
        self._taken = position

    def end(self) -> None:
        """Let all that was deferred be flushed as soon as may be."""
        self._up_to = 0

    def may_wait(self, position: int) -> bool:
        """Return true if nobody waits for what no flush has taken; `position` is that of the last append."""
        return position == self._up_to

    def awaited(self, position: int) -> int:
        """Return up to where all is durable, or will be without more to come."""
        return self._taken if self.may_wait(position) else position
