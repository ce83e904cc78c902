"""A hierarchical timing wheel that reads no clock: `advance` sets the time.

Why a wheel and not a heap: nearly every deadline of a coordinator is moved or cancelled long before it passes. A heap
cannot remove an element from its middle, so it keeps cancelled ones until they reach its top, several for each live one
once members heartbeat, and pays O(log n) and a tuple for each. Here each entry is its own link in a doubly linked list:
moving and cancelling unlink it in O(1), and only live entries take memory.

Level 0 has buckets of one tick, each further level buckets as wide as the whole level below. A level covers the
*aligned* block of time that contains now; later deadlines go to the next level (docs/spec/group-protocol.md#3.3 has
a window that slides with now instead). Three properties follow from aligning:

* At any moment a deadline has exactly one bucket. Equal deadlines are therefore in one list and keep the order in
  which they were added, without a sequence number.
* Every bucket of a level comes before every bucket of the next, so the first of all is the lowest bit of a bit mask.
* When time advances, each entry of the buckets that time enters is filed once more, however many levels it skipped.
"""
# ruff: noqa: SLF001 - an entry's links belong to the wheel

from heapq import heappop, heappush


class Entry:
    """An entry of a `TimingWheel`; subclass it, with `__slots__`.

    It can be in one wheel at a time. Its links belong to the wheel. A subclass need not call `__init__`.
    """

    __slots__ = ("_next", "_previous", "filed_deadline_ms")

    filed_deadline_ms: int
    """Deadline that the entry was last added with; unset before the first `add`."""
    _next: "Entry | None"
    _previous: "Entry | None"


class _Bucket(Entry):
    """The head of a circular list of entries. `bit` stands for it in its level's mask; without a level it is 0."""

    __slots__ = ("bit", "level")

    def __init__(self, level: "_Level | None" = None, bit: int = 0) -> None:
        self._next = self._previous = self
        self.level = level
        self.bit = bit

    @property
    def is_empty(self) -> bool:
        return self._next is self

    def append(self, entry: Entry) -> None:
        last = self._previous
        assert last is not None
        if last is self and self.level is not None:
            self.level.filled |= self.bit
        entry._previous = last
        entry._next = self
        last._next = self._previous = entry

    def take_all(self) -> list[Entry]:
        """Empty the bucket. The entries' links are stale until they are appended elsewhere."""
        taken = []
        entry = self._next
        while entry is not self:
            assert entry is not None
            taken.append(entry)
            entry = entry._next
        self._next = self._previous = self
        if self.level is not None:
            self.level.filled &= ~self.bit
        return taken


class _Level:
    """Buckets of `width` ticks for tick `start` to before `end`; bit i of `filled`: bucket i is not empty."""

    __slots__ = ("buckets", "end", "filled", "span", "start", "width")

    def __init__(self, width: int, size: int, now: int) -> None:
        self.width = width
        self.span = width * size
        self.filled = 0
        self.buckets = [_Bucket(self, 1 << index) for index in range(size)]
        self.align(now)

    def align(self, now: int) -> None:
        self.start = now - now % self.span
        self.end = self.start + self.span

    def first_start(self) -> int:
        """The tick at which the first bucket with entries begins. There must be one."""
        lowest = self.filled & -self.filled
        return self.start + (lowest.bit_length() - 1) * self.width

    def take_until(self, now: int) -> list[Entry]:
        """The entries of all buckets that begin at `now` or before, in order."""
        taken: list[Entry] = []
        while self.filled and (first := self.first_start()) <= now:
            taken += self.buckets[(first - self.start) // self.width].take_all()
        return taken


class TimingWheel:
    """Hands out entries in the order of their deadlines, ties in the order added.

    Entries are never early; with `advance` called at `next_deadline_ms` they are late by less than a tick. All times
    are milliseconds of one monotonic clock, negative ones included; a clock that goes back counts as unchanged.
    """

    def __init__(self, start_ms: int, tick_ms: int = 1, wheel_size: int = 20) -> None:
        if tick_ms < 1 or wheel_size < 2:
            raise ValueError(f"tick_ms must be at least 1 and wheel_size at least 2, not {tick_ms} and {wheel_size}")
        self._tick_ms = tick_ms
        self._wheel_size = wheel_size
        self._start_ms = start_ms  # tick 0, so that no aligned block lies on both sides of it
        self._now = 0
        self._levels = [_Level(1, wheel_size, 0)]
        self._late = _Bucket()  # added when already due: popped after the next `advance`
        self._late_since_ms = 0  # not later than the first deadline in `_late`, while there is one
        self._due: dict[int, _Bucket] = {}  # by deadline: poppable
        self._due_order: list[int] = []  # the keys of `_due`, as a heap
        self._count = 0

    def __len__(self) -> int:
        """Number of entries, those that are due and not yet popped included."""
        return self._count

    def add(self, entry: Entry, deadline_ms: int) -> None:
        """File the entry; one that is in this wheel already is moved (and counts as added now). O(1).

        A deadline that has passed is due at the next `advance`.
        """
        try:
            waiting = entry._next is not None
        except AttributeError:  # never filed before
            waiting = False
        if waiting:
            self._unlink(entry)
        else:
            self._count += 1
        entry.filed_deadline_ms = deadline_ms
        tick = -((self._start_ms - deadline_ms) // self._tick_ms)  # rounded up: never early
        if tick <= self._now:
            self._add_late(entry, deadline_ms)
        else:
            self._bucket_of(tick).append(entry)

    def cancel(self, entry: Entry) -> bool:
        """Remove the entry, also when it is due already. O(1). False if it was not in the wheel."""
        try:
            if entry._next is None:
                return False
        except AttributeError:  # never filed
            return False
        self._remove(entry)
        return True

    def advance(self, now_ms: int) -> None:
        """Move time to `now_ms`, over any distance: entries due by then can be popped.

        Costs O(levels) and one more filing for each entry in the buckets that time entered.
        """
        for entry in self._late.take_all():
            self._make_due(entry)
        now = (now_ms - self._start_ms) // self._tick_ms
        if now <= self._now:
            return
        self._now = now
        for entry in self._take_until(now):
            tick = -((self._start_ms - entry.filed_deadline_ms) // self._tick_ms)
            if tick <= now:
                self._make_due(entry)
            else:
                self._bucket_of(tick).append(entry)

    def pop_due(self) -> Entry | None:
        """Return the next entry that was due at the last `advance`; None when there is no more."""
        if (bucket := self._first_due()) is None:
            return None
        entry = bucket._next
        assert entry is not None
        self._remove(entry)
        return entry

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when to call `advance` next, and pop; None when the wheel is empty. O(levels).

        Never later than the first deadline (rounded up to a tick); often earlier, namely when a wide bucket begins
        whose entries must then be moved to finer buckets. Calling `advance` with it always makes progress: an entry can
        be popped, or the next deadline grows.
        """
        if self._count == 0:
            return None
        first = [] if self._first_due() is None else [self._due_order[0]]
        if not self._late.is_empty:
            first.append(self._late_since_ms)
        return min(first) if first else self._start_ms + self._first_start() * self._tick_ms

    def _first_start(self) -> int:
        return next(level for level in self._levels if level.filled).first_start()

    def _first_due(self) -> _Bucket | None:
        while self._due_order:
            bucket = self._due[self._due_order[0]]
            if not bucket.is_empty:
                return bucket
            del self._due[heappop(self._due_order)]
        return None

    def _add_late(self, entry: Entry, deadline_ms: int) -> None:
        if self._late.is_empty or deadline_ms < self._late_since_ms:
            self._late_since_ms = deadline_ms
        self._late.append(entry)

    def _make_due(self, entry: Entry) -> None:
        deadline_ms = entry.filed_deadline_ms
        if (bucket := self._due.get(deadline_ms)) is None:
            bucket = self._due[deadline_ms] = _Bucket()
            heappush(self._due_order, deadline_ms)
        bucket.append(entry)

    def _bucket_of(self, tick: int) -> _Bucket:
        """Return the bucket of a tick after now; create the levels up to it."""
        for level in self._levels:
            if tick < level.end:
                return level.buckets[(tick - level.start) // level.width]
        self._levels.append(_Level(self._levels[-1].span, self._wheel_size, self._now))
        return self._bucket_of(tick)

    def _take_until(self, now: int) -> list[Entry]:
        """Empty the buckets that time entered, and move each level to the block that contains `now`."""
        taken: list[Entry] = []
        for level in self._levels:
            taken += level.take_until(now)
            if now < level.end:  # the levels above are still in the same bucket
                break
            level.align(now)
        return taken

    def _remove(self, entry: Entry) -> None:
        self._unlink(entry)
        entry._next = entry._previous = None  # also frees it without the garbage collector
        self._count -= 1

    @staticmethod
    def _unlink(entry: Entry) -> None:
        previous, following = entry._previous, entry._next
        assert previous is not None
        assert following is not None
        previous._next = following
        following._previous = previous
        if previous is following and isinstance(previous, _Bucket) and previous.level is not None:
            previous.level.filled &= ~previous.bit
