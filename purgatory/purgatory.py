"""Everything that waits: delayed operations, each with a key, a deadline, a condition and what it turns into.

Kafka's `DelayedOperationPurgatory` (docs/spec/group-protocol.md#3.1) without its locks: nothing here runs beside
anything else, so "completed" needs no flag. An operation is watched or it is not, and it ends by leaving, once.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from purgatory.wheel import Entry, TimingWheel

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)


class DelayedOperation(Entry, ABC, Generic[E_co]):
    """Waits until its condition holds or its deadline comes, then turns into events. Subclasses are slotted.

    It is its own entry in the purgatory's wheel. It ends exactly once, and only then are `completed` and `overdue`
    called. Superseded or cancelled, it ends with neither.
    """

    __slots__ = ()

    # No slots here: a subclass has them as slots of its own, or as properties.
    key: Hashable
    """Names this wait; one operation is watched under a key at a time. Must not change while it waits."""

    deadline_ms: int
    """When it is overdue.

    May move *later* while it waits, which costs nothing: the operation is looked at again when the wheel brings it up.
    A move *nearer* is not noticed; watch the operation anew.
    """

    @abstractmethod
    def is_satisfied(self) -> bool:
        """Whether what it waits for holds now. Pure, and cheap: asked after every nudge."""

    @abstractmethod
    def completed(self) -> E_co | None:
        """What it turns into when it ends, satisfied or overdue. Must not call the purgatory."""

    def overdue(self) -> E_co | None:
        """What it turns into besides, if it was the deadline that ended it. Must not call the purgatory."""
        return None


class DelayedOperationPurgatory(Generic[E]):
    """Watches delayed operations and hands out the events they turn into. Knows nothing of what they are about."""

    def __init__(self, start_ms: int) -> None:
        self._wheel = TimingWheel(start_ms)
        self._watched: dict[Hashable, DelayedOperation[E]] = {}
        # Nudge key -> the operations that listen to it, by their own keys, in the order watched. Where a nudge key is
        # an operation's own key as well, that operation is among them: one dictionary then has the order of all.
        self._listening: dict[Hashable, dict[Hashable, DelayedOperation[E]]] = {}
        self._nudged_by: dict[Hashable, tuple[Hashable, ...]] = {}  # by operation; only those that have extra keys
        # What the wheel said last. It is asked again only when that could be too late: this is read at every step.
        self._soonest_ms: int | None = None

    def __contains__(self, key: Hashable) -> bool:
        return key in self._watched

    def __len__(self) -> int:
        return len(self._watched)

    def get(self, key: Hashable) -> DelayedOperation[E] | None:
        """The operation watched under its own key."""
        return self._watched.get(key)

    def try_complete_else_watch(self, op: DelayedOperation[E], nudged_by: Iterable[Hashable] = ()) -> list[E]:
        """The operation's events if it is satisfied now; else [], and it is watched, until a nudge or its deadline.

        It supersedes what was watched under its key, which ends without completing. Watching the same object again
        files it under its present deadline and the keys now given.
        """
        self.cancel(op.key)
        if op.is_satisfied():
            return _events(op, was_deadline=False)
        self._watch(op, tuple(nudged_by))
        return []

    def check_and_complete(self, key: Hashable) -> list[E]:
        """Completes those that are satisfied of the operations that have this key, or are nudged by it.

        Their events, in the order the operations were watched. An unknown key is nothing.
        """
        listening = self._listening.get(key)
        if listening is None:
            op = self._watched.get(key)
            return [] if op is None or not op.is_satisfied() else self._end(op, was_deadline=False)
        events: list[E] = []
        for op in list(listening.values()):
            if op.is_satisfied():
                events += self._end(op, was_deadline=False)
        return events

    def listening_to(self, key: Hashable) -> list[Hashable]:
        """The own keys of the operations that have this key, or are nudged by it: to be completed a few at a time."""
        listening = self._listening.get(key)
        if listening is None:
            return [key] if key in self._watched else []
        return list(listening)

    def cancel(self, key: Hashable) -> DelayedOperation[E] | None:
        """Stops watching the operation of this key, without completing it, and returns it."""
        if (op := self._watched.get(key)) is not None:
            self._forget(op)
            self._wheel.cancel(op)
        return op

    def pop_overdue(self, now_ms: int) -> list[E] | None:
        """Ends the one operation whose deadline came first and returns its events; None if none is overdue.

        One at a time, since what the first turns into may cancel the second. In the order of deadlines, ties in the
        order filed; an operation whose deadline has moved later is filed again, and the next one looked at.
        """
        wheel = self._wheel
        self._soonest_ms = None
        wheel.advance(now_ms)
        while (op := wheel.pop_due()) is not None:
            assert isinstance(op, DelayedOperation)
            deadline_ms = op.deadline_ms
            if deadline_ms <= op.filed_deadline_ms:
                return self._end(op, was_deadline=True)
            wheel.add(op, deadline_ms)
            if deadline_ms <= now_ms:  # still overdue, but others may come before it
                wheel.advance(now_ms)
        return None

    @property
    def next_deadline_ms(self) -> int | None:
        """When to call `pop_overdue` next; None while nothing waits. Possibly too early, never too late."""
        if self._soonest_ms is None:
            self._soonest_ms = self._wheel.next_deadline_ms
        return self._soonest_ms

    def _watch(self, op: DelayedOperation[E], nudged_by: tuple[Hashable, ...]) -> None:
        key = op.key
        for nudge in nudged_by:
            listening = self._listening.setdefault(nudge, {})
            if not listening and nudge in self._watched:
                listening[nudge] = self._watched[nudge]
            listening[key] = op
        if nudged_by:
            self._nudged_by[key] = nudged_by
        if self._listening and key in self._listening:
            self._listening[key][key] = op
        self._watched[key] = op
        self._wheel.add(op, op.deadline_ms)
        if self._soonest_ms is not None and op.deadline_ms <= self._soonest_ms:
            self._soonest_ms = None

    def _end(self, op: DelayedOperation[E], was_deadline: bool) -> list[E]:
        self._forget(op)
        self._wheel.cancel(op)
        return _events(op, was_deadline)

    def _forget(self, op: DelayedOperation[E]) -> None:
        key = op.key
        del self._watched[key]
        if not self._watched:
            self._soonest_ms = None
        if self._listening:
            for nudge in (*self._nudged_by.pop(key, ()), key):
                if (listening := self._listening.get(nudge)) is not None:
                    listening.pop(key, None)
                    if not listening:
                        del self._listening[nudge]


def _events(op: DelayedOperation[E], was_deadline: bool) -> list[E]:
    is_overdue = was_deadline and not op.is_satisfied()
    events = [op.completed()]
    if is_overdue:
        events.append(op.overdue())
    return [event for event in events if event is not None]
