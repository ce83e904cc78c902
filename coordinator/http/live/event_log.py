"""The newest events, numbered, so that a client can continue after the last one it read. Pure."""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from coordinator.http.shapes import Json

MOST_KEPT: Final = 2_000
_MOST_DIGITS: Final = 19


class LiveEvent(msgspec.Struct, frozen=True):
    """Something that happened to a group. `type`: `note`, `problem.opened` or `problem.closed`; `body`: the note or the
    problem."""

    number: int
    type: str
    group_id: str
    wall_ms: int
    body: Json


class Cursor(NamedTuple):
    """A position in the events: after event `number` of the process that began at the wall time `epoch`."""

    epoch: int
    number: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.number}"


def parse_cursor(text: str) -> Cursor | None:
    """Parse a cursor; None if the text is invalid."""
    epoch, _dot, number = text.partition(".")
    if all(part.isascii() and part.isdigit() and len(part) <= _MOST_DIGITS for part in (epoch, number)):
        return Cursor(int(epoch), int(number))
    return None


class EventLog:
    """Events in memory, at most `most`; the oldest are dropped."""

    def __init__(self, epoch: int, most: int = MOST_KEPT, added: Callable[[], None] = lambda: None) -> None:
        """`added` is called after each event."""
        self._epoch, self._added = epoch, added
        self._events: deque[LiveEvent] = deque(maxlen=most)
        self._last = 0
        self._skipped = 0
        """Number in place of the newest events that were not made."""

    def add(self, kind: str, group_id: str, wall_ms: int, body: Json) -> None:
        self._last += 1
        self._events.append(LiveEvent(self._last, kind, group_id, wall_ms, body))
        self._added()

    def skip(self) -> None:
        """Note that events are missing from here on to the next one."""
        self._last += 1
        self._skipped = self._last

    def cursor(self, number: int | None = None) -> Cursor:
        """Return the cursor after event `number`, or after the newest event."""
        return Cursor(self._epoch, self._last if number is None else number)

    def after(self, cursor: Cursor) -> tuple[list[LiveEvent], bool]:
        """Return the events after a cursor, and whether some of them are missing, because they were dropped or were
        another process's, or never made."""
        if cursor.epoch != self._epoch or cursor.number > self._last:
            return list(self._events), True
        first = self._events[0].number if self._events else self._last + 1
        is_gap = cursor.number < max(first - 1, self._skipped)
        return [event for event in self._events if event.number > cursor.number], is_gap
