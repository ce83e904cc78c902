"""Segments of one log, sorted by base offset: the next begins where one ends."""

from collections.abc import Iterator
from operator import attrgetter, is_
from typing import overload

from sortedcontainers import SortedKeyList

from partition_log.segments.segment import Segment

_BASE_OFFSET = attrgetter("base_offset")


class LogSegments:
    """`active` is the newest segment, the one that is appended to; None in an empty log."""

    __slots__ = ("_sorted", "active")

    def __init__(self) -> None:
        self._sorted: SortedKeyList[Segment, int] = SortedKeyList(key=_BASE_OFFSET)
        self.active: Segment | None = None

    def __len__(self) -> int:
        return len(self._sorted)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._sorted)

    def __reversed__(self) -> Iterator[Segment]:
        return reversed(self._sorted)

    @overload
    def __getitem__(self, index: int) -> Segment: ...

    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...

    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        """Return the segment at a position, 0 for the oldest. A slice is a new list."""
        return self._sorted[index]

    def add(self, segment: Segment) -> None:
        """Add a segment behind all others; it becomes the active one."""
        assert self.active is None or self.active.base_offset < segment.base_offset, "segments are added in order"
        self._sorted.add(segment)
        self.active = segment

    def count_below(self, offset: int) -> int:
        """Number of segments whose base offset is below `offset`."""
        return self._sorted.bisect_key_left(offset)

    def starting_at(self, offset: int) -> Iterator[Segment]:
        """Segments from the one that holds `offset` on, or from the oldest if that is above it.

        The log may change meanwhile: new segments follow, and after a replaced or dropped segment the next one is the
        segment that now holds its end.
        """
        segment = self._holding(offset)
        while segment is not None:
            yield segment
            following = self._holding(segment.next_offset)
            segment = following if following is not segment else None

    def _holding(self, offset: int) -> Segment | None:
        if not self._sorted:
            return None
        return self._sorted[max(self._sorted.bisect_key_right(offset) - 1, 0)]

    def holds(self, segment: Segment) -> bool:
        """True until the segment is replaced or dropped."""
        at = self._sorted.bisect_key_left(segment.base_offset)
        return at < len(self._sorted) and self._sorted[at] is segment

    def are_in_place(self, segments: list[Segment]) -> bool:
        """True if all of these are still consecutive segments of the log."""
        first = self._sorted.bisect_key_left(segments[0].base_offset)
        present = self._sorted[first : first + len(segments)]
        return len(present) == len(segments) and all(map(is_, present, segments))

    def replace(self, replaced: list[Segment], segment: Segment) -> None:
        """Replace segments, which must be in place, by one. The active segment is never replaced."""
        first = self._sorted.bisect_key_left(replaced[0].base_offset)
        del self._sorted[first : first + len(replaced)]
        self._sorted.add(segment)

    def drop_oldest(self, count: int) -> None:
        """Remove the `count` oldest segments."""
        del self._sorted[:count]
        if not self._sorted:
            self.active = None
