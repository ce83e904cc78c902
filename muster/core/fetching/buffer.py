"""Fetched records that were not returned to the application yet (docs/spec/consumer-client.md#B3)."""

from collections import deque
from typing import NamedTuple

from membership.topic_partition import TopicPartition
from muster.core.fetching.records import ConsumerRecord, FetchedRecords
from muster.core.positions import ConsumerPositions, Position
from muster.errors import MusterError

_ALL = 1 << 62

Taking = list[ConsumerRecord] | deque[ConsumerRecord]


class FailedFetch:
    """An error in a reply for one partition, to be raised once in the application's call."""

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
    """The records of one partition between two positions, and the error after them, if there is one."""

    partition: TopicPartition
    offset: int
    next_offset: int
    records: list[ConsumerRecord]
    error: MusterError | None


class FetchBuffer:
    """Completed fetches in the order of their arrival. Except by seeks, positions move only here: forward, from the
    offset of the request. Records that do not begin at the position are dropped.
    """

    def __init__(self, subscription: ConsumerPositions) -> None:
        self._subscription = subscription
        self._completed: deque[FetchedRecords | FailedFetch] = deque()
        self.made_progress = False
        """True if the last `take` moved a position, maybe only past control records."""

    def add(self, completed: FetchedRecords | FailedFetch) -> None:
        self._completed.append(completed)

    def partitions(self) -> set[TopicPartition]:
        """Return the partitions with buffered fetches, which must not be fetched."""
        return {one.partition for one in self._completed}

    def drop_stale(self) -> None:
        """Drop fetches that will not be returned, since their partition was revoked or sought elsewhere."""
        if any(self._is_stale(one) for one in self._completed):
            self._completed = deque(one for one in self._completed if not self._is_stale(one))

    @property
    def has_something(self) -> bool:
        """True if `take` has records or an error, not counting paused partitions."""
        return any(not one.position.is_paused and not self._is_stale(one) for one in self._completed)

    def take_one(self) -> TakenRecords | None:
        """Take all readable records of the first partition that is not paused, and move its position past them. The
        error is that of the next record, if it cannot be read; it is returned again unless the partition is paused.
        None if there is nothing.
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
        """Move records into `taken`, until it has `most`, and move the positions past them. Even if this is
        interrupted, a position is only past records that are in `taken`. Raises the error of the first partition if no
        records are before it; a failed fetch lets records of other partitions go first once.
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
        except BaseException:  # a Ctrl-C: the progress is unknown, so the records are fetched again
            self._completed.remove(completed)
            raise
        self.made_progress |= position.offset != completed.offset
        position.offset, position.offset_epoch = completed.offset, completed.epoch
        if completed.is_drained:
            self._completed.popleft()
            self._subscription.move_to_end(completed.partition)

    def _raise(self, completed: FetchedRecords | FailedFetch) -> None:
        """Raise the error of an unreadable record. The fetch stays in the buffer, and its error is raised again until
        the application seeks past it."""
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
