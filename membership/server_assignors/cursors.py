"""Iteration over the subscribers of a topic from the smallest and from the largest size
(docs/spec/consumer-group-protocol.md#5.3)."""

from collections.abc import Sequence


class Loads:
    """Subscribers sorted once by size and number. `least` and `most` return members level by level, while the caller
    changes the sizes of returned members."""

    __slots__ = (
        "_high_end",
        "_high_level",
        "_high_place",
        "_high_start",
        "_low_end",
        "_low_level",
        "_low_place",
        "_sizes",
        "_sorted",
    )

    def __init__(self, numbers: Sequence[int], sizes: Sequence[int]) -> None:
        """`numbers`: at least one, ascending. `sizes`: of all members, by number."""
        self._sizes = sizes
        self._sorted = sorted(numbers, key=sizes.__getitem__)
        self._low_end = self._low_place = 0
        self._low_level = sizes[self._sorted[0]] - 1
        self._high_start = self._high_end = len(self._sorted)
        self._high_place = self._high_end - 1
        self._high_level = sizes[self._sorted[-1]] + 1

    @property
    def difference(self) -> int:
        """Difference between the levels that `most` and `least` have reached."""
        return self._high_level - self._low_level

    def least(self) -> int:
        """Return the next member of the lowest level; each level includes the members of those below it."""
        if self._low_place == self._low_end:
            self._low_level += 1
            while self._low_end < len(self._sorted) and self._size_at(self._low_end) == self._low_level:
                self._low_end += 1
            self._low_place = 0
        self._low_place += 1
        return self._sorted[self._low_place - 1]

    def most(self) -> int | None:
        """Return the next member of the highest level; each level includes the members of those above it. None if all
        are skipped."""
        if self._high_place < self._high_start:
            is_empty = self._high_end <= self._high_start
            if is_empty and self._high_start > 0:
                self._high_level = self._size_at(self._high_start - 1)
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._size_at(self._high_start - 1) == self._high_level:
                self._high_start -= 1
            self._high_place = self._high_end - 1
        if self._high_place < 0:
            return None
        self._high_place -= 1
        return self._sorted[self._high_place + 1]

    def skip(self) -> None:
        """Leave the member that `most` returned out of all following levels."""
        place, last = self._high_place + 1, self._high_end - 1
        self._sorted[place], self._sorted[last] = self._sorted[last], self._sorted[place]
        self._high_end -= 1

    def _size_at(self, place: int) -> int:
        return self._sizes[self._sorted[place]]
