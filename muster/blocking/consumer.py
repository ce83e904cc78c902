"""The consumer for programs with threads: subscribe, poll, commit, close."""

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Literal, Self, overload

from membership.events import OffsetToCommit
from membership.topic_partition import TopicPartition
from muster.blocking.group_member import GroupMember
from muster.blocking.runner import ThreadRunner
from muster.blocking.topics import ThreadTopics
from muster.client.consumer import ConsumerProcedures
from muster.core.fetching.records import ConsumerRecord, group_by_partition

_LOOK_S = 1.0
"""Longest wait of a poll during iteration."""


class Consumer(ThreadTopics, ConsumerProcedures):
    """Reads records: of topics or a pattern, as the group assigns them (`subscribe`), or of partitions of your choice
    (`assign`). Use it from one thread at a time; `wakeup` may be called from any.

    With `enable_auto_commit` all records that earlier polls returned count as done, and are committed every
    `auto_commit_interval_ms`, before a rebalance revokes a partition, and at `close`. Further settings are those of
    `GroupMember` (`session_timeout_ms`, `assignors`, `group_instance_id`, ...) and `FetchSettings`.
    """

    _runner_of = ThreadRunner

    @property
    def member(self) -> GroupMember:
        """The member of the group. Raises MusterError without a `group_id`."""
        return GroupMember.of(self, self._group)

    def unsubscribe(self) -> None:
        """Stop reading: call the listeners and leave the group, without a commit."""
        self._runner.run_alone(self._unsubscribe())

    @overload
    def poll(self, timeout_s: float = 1.0, *, by_partition: Literal[False] = False) -> list[ConsumerRecord]: ...

    @overload
    def poll(
        self, timeout_s: float = 1.0, *, by_partition: Literal[True]
    ) -> dict[TopicPartition, list[ConsumerRecord]]: ...

    def poll(
        self, timeout_s: float = 1.0, *, by_partition: bool = False
    ) -> list[ConsumerRecord] | dict[TopicPartition, list[ConsumerRecord]]:
        """Records as soon as there are any, an empty list after `timeout_s`, or sooner if only control records were
        read; with `by_partition` a dict with a list for each partition. Raises as `GroupMember.poll` does, `WokenUp`,
        and for records that cannot be read `OffsetOutOfRange`, `NoOffset`, `CorruptRecords`, `CannotDeserialize`,
        `Refused`. Exceptions of listeners are raised here too.
        """
        records: list[ConsumerRecord] = []
        try:
            self._runner.run_alone(self._poll(timeout_s, records))
            return group_by_partition(records) if by_partition else records
        except BaseException:  # a Ctrl-C before the return: the application has not got the records
            self._consuming.get_back(records)
            raise

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records one by one, for ever. Only records returned here count as done: after leaving the loop and a commit,
        reading continues with the next record. Raises as `poll` does.
        """
        unread = self._consuming.unread
        while True:
            self._runner.run_alone(self._read(_LOOK_S))
            try:
                while unread:
                    record = unread[0]
                    del unread[0]  # not a call, after which a Ctrl-C could lose the record
                    yield record
            finally:
                with self._runner.locked():
                    self._consuming.give_back()

    def position(self, partition: TopicPartition, timeout_s: float = 60.0) -> int:
        """The offset of the next record to return, requested if necessary. Raises ValueError if it is not assigned, and
        RequestTimedOut.
        """
        position: int = self._runner.run_alone(self._position(partition, timeout_s))
        return position

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit] | None = None, timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Store `offsets`, or the position after all records polled so far, and return the stored offsets. Earlier
        commits have ended by then, and their callbacks were called. Raises as `GroupMember.commit` does.
        """
        return self._ask(self._commit(offsets, timeout_s))

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int | None]:
        """The group's offsets; None for a partition without one."""
        return self._ask(self._committed(partitions, timeout_s))

    def close(self, timeout_s: float = 30.0) -> None:
        """Commit if commits are automatic, call the listeners, leave the group. Closing twice is fine."""
        self._runner.close(self._close, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read_nothing(self, what: str) -> None:
        self.unsubscribe()
