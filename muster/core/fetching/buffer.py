"""Fetched records that the application has not got yet (docs/spec/consumer-client.md#B3)."""

from collections import deque
from typing import NamedTuple

from membership.topic_partition import TopicPartition
from muster.core.fetching.records import ConsumerRecord, FetchedRecords
from muster.core.positions import ConsumerPositions, Position
from muster.errors import MusterError

_ALL = 1 << 62

Taking = list[ConsumerRecord] | deque[ConsumerRecord]


class FailedFetch:
    """An answer, or a part of one, that is an error for the application to hear of once."""

    def __init__(self, one: TopicPartition, position: Position, error: MusterError) -> None:
        self.partition = one
        self.position = position
        self.error = error
        self.was_postponed = False
        self._offset, self._state = position.offset, position.state

    @property
    def is_stale(self) -> bool:
        return (self.position.offset, self.position.state) != (self._offset, self._state)


class TakenRecords(NamedTuple):
    """The records of one partition between two of its positions; and the error that comes next, if there is one."""

    partition: TopicPartition
    offset: int
    next_offset: int
    records: list[ConsumerRecord]
    error: MusterError | None


class FetchBuffer:
    """Completed fetches in the order in which they came; the first is the one in line.

    Positions move here and nowhere else by themselves: forward, from the offset the records were asked for. Whatever
    does not begin at the position is dropped.
    """

    def __init__(self, subscription: ConsumerPositions) -> None:
        self._subscription = subscription
        self._completed: deque[FetchedRecords | FailedFetch] = deque()
        self.made_progress = False
        """True if the newest `take` moved a position: past control records alone, perhaps."""

    def add(self, completed: FetchedRecords | FailedFetch) -> None:
        self._completed.append(completed)

    def partitions(self) -> set[TopicPartition]:
        """Return those that must not be fetched, because there is something of them here."""
        return {one.partition for one in self._completed}

    def drop_stale(self) -> None:
        """Make room: whatever was taken away, or sought away from, will not be handed out."""
        if any(self._is_stale(one) for one in self._completed):
            self._completed = deque(one for one in self._completed if not self._is_stale(one))

    @property
    def has_something(self) -> bool:
        """True if `take` has anything to do: what belongs to paused partitions does not count."""
        return any(not one.position.is_paused and not self._is_stale(one) for one in self._completed)

    def take_one(self) -> TakenRecords | None:
        """All that can be read of the first partition in line that is not paused; its position moves past it. The error
        is what comes next, where something cannot be read: it comes again unless the partition is paused. None: there
        is nothing.
        """
        self.drop_stale()
        completed = next((one for one in self._completed if not one.position.is_paused), None)
        if completed is None:
            return None
        self._completed.remove(completed)
        position, taken = completed.position, list[ConsumerRecord]()
        began_at = position.offset or 0
        if isinstance(completed, FetchedRecords):
            self._completed.appendleft(completed)
            self._drain(completed, _ALL, taken)
        return TakenRecords(completed.partition, began_at, position.offset or 0, taken, completed.error)

    def take(self, most: int, taken: Taking) -> None:
        """Put records into `taken`, up to so many there, and move the positions past them: whatever interrupts this, a
        record is behind its partition's position only if it is there. Raises what is in line, if no records are before
        it; an error of one partition lets the records of others past it once.
        """
        aside: list[FetchedRecords | FailedFetch] = []
        postponed: list[FailedFetch] = []
        self.made_progress = False
        try:
            while self._completed and len(taken) < most:
                completed = self._completed[0]
                if self._is_stale(completed):
                    self._completed.popleft()
                elif completed.position.is_paused:
                    aside.append(self._completed.popleft())
                elif isinstance(completed, FailedFetch) and not completed.was_postponed:
                    completed.was_postponed = True
                    postponed.append(completed)
                    self._completed.popleft()
                elif completed.error is not None:
                    if taken:
                        break
                    self._raise(completed)
                elif isinstance(completed, FetchedRecords):
                    self._drain(completed, most, taken)
        finally:
            self._completed.extendleft(reversed(postponed))
            self._completed.extend(aside)
        if postponed and not taken:
            self._raise(postponed[0])

    def _drain(self, completed: FetchedRecords, most: int, taken: Taking) -> None:
        position = completed.position
        try:
            taken.extend(completed.drain(most - len(taken)))
        except BaseException:  # a Ctrl-C: nobody knows how far it came, so it is fetched again
            self._completed.remove(completed)
            raise
        self.made_progress |= position.offset != completed.offset
        position.offset, position.offset_epoch = completed.offset, completed.epoch
        if completed.is_drained:
            self._completed.popleft()
            self._subscription.move_to_end(completed.partition)

    def _raise(self, completed: FetchedRecords | FailedFetch) -> None:
        """Raise what cannot be read: it stays in line, and is raised again, until the application seeks past it."""
        assert completed.error is not None
        if isinstance(completed, FailedFetch):
            self._completed.popleft()
        raise completed.error.with_traceback(None)

    def _is_stale(self, completed: FetchedRecords | FailedFetch) -> bool:
        position = completed.position
        if self._subscription.at(completed.partition) is not position:
            return True
        if isinstance(completed, FailedFetch):
            return completed.is_stale
        if position.is_pending_revocation or not position.is_valid or position.awaits_callback:
            return True
        return position.offset != completed.offset
