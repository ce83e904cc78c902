"""Purgatory: delayed operations, each with a key, a deadline, a condition and the event it completes with.

Kafka's `DelayedOperationPurgatory` (docs/spec/group-protocol.md#3.1) without its locks: nothing here runs concurrently,
so "completed" needs no flag: an operation is watched until it completes or expires, once.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from typing import ClassVar, Generic, TypeVar

from purgatory.wheel import Entry, TimingWheel

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)


class DelayedOperation(Entry, ABC, Generic[E_co]):
    """Waits until its condition holds or its deadline passes, then yields events. Subclasses are slotted.

    It is its own entry in the purgatory's wheel. It ends exactly once, and only then are `completed` and `overdue`
    called. A superseded or cancelled operation ends without either.
    """

    __slots__ = ()

    kind: ClassVar[str] = "other"
    """Kind of the operation; gauges count the operations of each kind."""

    # No slots here: a subclass declares these as its own slots, or as properties.
    key: Hashable
    """Key of the operation; one operation is watched under a key at a time. Must not change while it is watched."""

    deadline_ms: int
    """Deadline of the operation.

    May move *later* while the operation is watched, which costs nothing: the deadline is checked again when the wheel
    returns the operation. A move *nearer* is not noticed; watch the operation again.
    """

    @abstractmethod
    def is_satisfied(self) -> bool:
        """Return true if the condition holds now. Pure, and cheap: called after every notification."""

    @abstractmethod
    def completed(self) -> E_co | None:
        """Return the event of the operation's end, satisfied or overdue. Must not call the purgatory."""

    def overdue(self) -> E_co | None:
        """Return a further event if the deadline ended the operation. Must not call the purgatory."""
        return None


class DelayedOperationPurgatory(Generic[E]):
    """Watches delayed operations and returns the events they end with. It knows nothing of their meaning."""

    def __init__(self, start_ms: int) -> None:
        self._wheel = TimingWheel(start_ms)
        self._watched: dict[Hashable, DelayedOperation[E]] = {}
        # Notification key -> own keys of the operations that listen to it, in the order watched. If a notification key
        # is also an operation's own key, that operation is among them: so one dictionary has the order of all.
        self._listening: dict[Hashable, dict[Hashable, DelayedOperation[E]]] = {}
        self._notified_by: dict[Hashable, tuple[Hashable, ...]] = {}  # by operation; only those that have extra keys
        self._by_kind: dict[str, int] = {}
        # The wheel's last answer, which every step reads. It is updated only when it could be too late.
        self._soonest_ms: int | None = None

    def __contains__(self, key: Hashable) -> bool:
        return key in self._watched

    def __len__(self) -> int:
        return len(self._watched)

    @property
    def by_kind(self) -> Mapping[str, int]:
        """Number of operations watched, by kind; 0 for a kind that was watched earlier."""
        return self._by_kind

    def get(self, key: Hashable) -> DelayedOperation[E] | None:
        """Return the operation watched under its own key."""
        return self._watched.get(key)

    def try_complete_else_watch(self, op: DelayedOperation[E], notified_by: Iterable[Hashable] = ()) -> list[E]:
        """Return the operation's events if it is satisfied now; else watch it until a notification or its deadline, and
        return [].

        The operation supersedes the one watched under its key, which ends without completing. Watching the same object
        again updates its deadline in the wheel and its notification keys.
        """
        key = op.key
        if key in self._watched:
            self.cancel(key)
        if op.is_satisfied():
            return _events(op, was_deadline=False)
        if notified_by or self._listening:
            self._listen(op, tuple(notified_by))
        self._watched[key] = op
        self._by_kind[op.kind] = self._by_kind.get(op.kind, 0) + 1
        deadline_ms = op.deadline_ms
        self._wheel.add(op, deadline_ms)
        if self._soonest_ms is not None and deadline_ms <= self._soonest_ms:
            self._soonest_ms = None
        return []

    def check_and_complete(self, key: Hashable) -> list[E]:
        """Complete the satisfied operations among those that have this key, or are notified by it.

        Return their events, in the order the operations were watched. An unknown key has none.
        """
        listening = self._listening.get(key)
        if listening is None:
            op = self._watched.get(key)
            return [] if op is None or not op.is_satisfied() else self._complete(op)
        events: list[E] = []
        for op in list(listening.values()):
            if op.is_satisfied():
                events += self._complete(op)
        return events

    def listening_to(self, key: Hashable) -> list[Hashable]:
        """Return the own keys of the operations that have this key, or are notified by it: to be completed a few at a
        time."""
        listening = self._listening.get(key)
        if listening is None:
            return [key] if key in self._watched else []
        return list(listening)

    def cancel(self, key: Hashable) -> DelayedOperation[E] | None:
        """Stop watching the operation of this key, without completing it, and return it."""
        if (op := self._watched.get(key)) is not None:
            self._forget(op)
            self._wheel.cancel(op)
        return op

    def pop_overdue(self, now_ms: int) -> list[E] | None:
        """End the operation with the earliest deadline and return its events; None if none is overdue.

        Operations end one at a time, since the events of the first may cancel the second, in the order of deadlines,
        ties in the order filed. An operation whose deadline has moved later is filed again, and the next one checked.
        """
        wheel = self._wheel
        self._soonest_ms = None
        wheel.advance(now_ms)
        while (op := wheel.pop_due()) is not None:
            assert isinstance(op, DelayedOperation)
            deadline_ms = op.deadline_ms
            if deadline_ms <= op.filed_deadline_ms:
                self._forget(op)
                return _events(op, was_deadline=True)
            wheel.add(op, deadline_ms)
            if deadline_ms <= now_ms:  # still overdue, but others may be due before it
                wheel.advance(now_ms)
        return None

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when to call `pop_overdue` next; None while nothing is watched. Possibly too early, never too late."""
        if self._soonest_ms is None:
            self._soonest_ms = self._wheel.next_deadline_ms
        return self._soonest_ms

    def _listen(self, op: DelayedOperation[E], notified_by: tuple[Hashable, ...]) -> None:
        key = op.key
        for key_of_notice in notified_by:
            listening = self._listening.setdefault(key_of_notice, {})
            if not listening and key_of_notice in self._watched:
                listening[key_of_notice] = self._watched[key_of_notice]
            listening[key] = op
        if notified_by:
            self._notified_by[key] = notified_by
        if key in self._listening:
            self._listening[key][key] = op

    def _complete(self, op: DelayedOperation[E]) -> list[E]:
        self._forget(op)
        self._wheel.cancel(op)
        return _events(op, was_deadline=False)

    def _forget(self, op: DelayedOperation[E]) -> None:
        key = op.key
        del self._watched[key]
        self._by_kind[op.kind] -= 1
        if not self._watched:
            self._soonest_ms = None
        if self._listening:
            for key_of_notice in (*self._notified_by.pop(key, ()), key):
                if (listening := self._listening.get(key_of_notice)) is not None:
                    listening.pop(key, None)
                    if not listening:
                        del self._listening[key_of_notice]


def _events(op: DelayedOperation[E], was_deadline: bool) -> list[E]:
    is_overdue = was_deadline and not op.is_satisfied()
    events = []
    if (event := op.completed()) is not None:
        events.append(event)
    if is_overdue and (event := op.overdue()) is not None:
        events.append(event)
    return events
