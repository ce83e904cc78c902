"""The consumer for programs with an event loop: subscribe, poll, commit, close."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Literal, Self, overload

from membership.events import OffsetToCommit
from membership.topic_partition import TopicPartition
from muster.aio.group_member import GroupMember
from muster.aio.runner import LoopRunner
from muster.aio.topics import LoopTopics
from muster.client.consumer import ConsumerProcedures
from muster.core.fetching.records import ConsumerRecord, group_by_partition
from muster.errors import ClientClosed


class Consumer(LoopTopics, ConsumerProcedures):
    """Reads records: of topics or a pattern, as the group decides (`subscribe`), or of partitions of your own choice
    (`assign`). Belongs to one event loop; heartbeats are sent there while the application awaits, and only `poll`
    serves rebalances. One task at a time polls; other tasks of the same loop may call everything else, `close` too:
    then the task that polls gets ClientClosed.

    Cancelling loses no records: a cancelled `poll` leaves the records for the next, a started listener runs to its end
    (the next `poll` or `close` waits for it), and a commit that was sent may be stored.

    With `enable_auto_commit` all records that earlier polls returned count as done, and are committed every
    `auto_commit_interval_ms`, before a rebalance revokes a partition, and at `close`. Settings, errors and guarantees
    are those of `muster.Consumer`, but `subscribe` and `assign` raise ValueError without topics or partitions: use
    `unsubscribe`, which waits. The constructor opens no connection, and needs no running event loop.
    """

    _runner_of = LoopRunner

    @property
    def member(self) -> GroupMember:
        """The member of the group. Raises MusterError without a `group_id`."""
        return GroupMember.of(self, self._group)

    async def unsubscribe(self) -> None:
        """Stop reading: call the listeners and leave the group, without a commit."""
        await self._runner.run_alone(self._unsubscribe())

    @overload
    async def poll(self, timeout_s: float = 1.0, *, by_partition: Literal[False] = False) -> list[ConsumerRecord]: ...

    @overload
    async def poll(
        self, timeout_s: float = 1.0, *, by_partition: Literal[True]
    ) -> dict[TopicPartition, list[ConsumerRecord]]: ...

    async def poll(
        self, timeout_s: float = 1.0, *, by_partition: bool = False
    ) -> list[ConsumerRecord] | dict[TopicPartition, list[ConsumerRecord]]:
        """Records as soon as there are any, an empty list after `timeout_s`, or sooner if only control records were
        read; with `by_partition` a dict with a list for each partition. Other tasks run even if records are available
        at once.

        Raises `GroupRefused`, `Fenced`, `CannotConnect`, `WokenUp`, and for records that cannot be read
        `OffsetOutOfRange`, `NoOffset`, `CorruptRecords`, `CannotDeserialize`, `Refused`. Exceptions of listeners are
        raised here too.
        """
        records: list[ConsumerRecord] = []
        await self._runner.run_alone(self._poll(timeout_s, records))
        return group_by_partition(records) if by_partition else records

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Records one by one, until another task closes the consumer. Only records returned here count as done, not
        those fetched with them.
        """
        self._runner.check_open()
        return _Records(self._consuming.unread, self.poll)

    async def position(self, partition: TopicPartition, timeout_s: float = 60.0) -> int:
        """The offset of the next record to return, requested if necessary. Raises ValueError if it is not assigned, and
        RequestTimedOut.
        """
        position: int = await self._runner.run_alone(self._position(partition, timeout_s))
        return position

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit] | None = None, timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Store `offsets`, or the position after all records polled so far, and return the stored offsets. Earlier
        commits have ended by then, and their callbacks were called. Cancelled, it may be stored nevertheless. Raises
        `CommitRefused` (nothing was stored), `RequestTimedOut` (unknown), ValueError for a negative offset.
        """
        return await self._ask(self._commit(offsets, timeout_s))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int | None]:
        """The group's offsets; None if there is none. Raises `Refused`, `RequestTimedOut`, `CannotConnect`."""
        return await self._ask(self._committed(partitions, timeout_s))

    async def close(self, timeout_s: float = 30.0) -> None:
        """Commit if commits are automatic, call the listeners, leave the group. Closing twice is fine. A task that
        polls meanwhile gets ClientClosed.
        """
        await self._runner.close(self._close, timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _read_nothing(self, what: str) -> None:
        raise ValueError(f"no {what} are named: await unsubscribe() to read nothing")


class _Records:
    """The iterator of `async for`, which returns the records of a poll one by one. No position includes the `unread`
    ones, so a poll or seek in between returns them again.
    """

    def __init__(self, unread: deque[ConsumerRecord], poll: Callable[[], Awaitable[list[ConsumerRecord]]]) -> None:
        self._unread = unread
        self._poll = poll

    def __aiter__(self) -> "_Records":
        return self

    async def __anext__(self) -> ConsumerRecord:
        try:
            while not self._unread:
                self._unread.extend(await self._poll())
        except ClientClosed:
            raise StopAsyncIteration from None
        return self._unread.popleft()
