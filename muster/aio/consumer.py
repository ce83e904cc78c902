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
from muster.core.fetching import ConsumerRecord
from muster.core.fetching.records import group_by_partition
from muster.errors import ClientClosed


class Consumer(LoopTopics, ConsumerProcedures):
    """Reads records: of topics or a pattern, as the group decides (`subscribe`), or of partitions of your own choice
    (`assign`). Belongs to one event loop; heartbeats go on there while the application awaits whatever it awaits, and
    no other than `poll` serves rebalances. One task at a time polls; from others of the same loop everything else may
    be called, `close` too: then the task that polls gets ClientClosed.

    Cancelling loses nothing: a cancelled `poll` leaves the records for the next, a listener that had begun goes on to
    its end (the next `poll` or `close` waits for it), and a commit that was sent may be stored.

    With `enable_auto_commit` everything that earlier polls returned counts as done, and is committed every
    `auto_commit_interval_ms`, before a rebalance takes a partition away, and at `close`. Settings, errors and what is
    promised are those of `muster.Consumer`, but `subscribe` and `assign` raise ValueError where nothing is named: that
    is `unsubscribe`, which waits. Making one connects to nothing, and needs no event loop yet.
    """

    _runner_of = LoopRunner

    @property
    def member(self) -> GroupMember:
        """The membership beneath. Raises MusterError without a `group_id`."""
        return GroupMember.of(self, self._group)

    async def unsubscribe(self) -> None:
        """Read nothing: listeners are told, the group is left, nothing is committed."""
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
        """Records as soon as there are any, an empty list after `timeout_s`, or sooner if only what is not for the
        application was read; with `by_partition` a dict of them, a list for each partition. Other tasks get their turn
        even where records are there at once.

        Raises `GroupRefused`, `Fenced`, `CannotConnect`, `WokenUp`, and what cannot be read: `OffsetOutOfRange`,
        `NoOffset`, `CorruptRecords`, `CannotDeserialize`, `Refused`. What a listener raises comes out of here too.
        """
        records: list[ConsumerRecord] = []
        await self._runner.run_alone(self._poll(timeout_s, records))
        return group_by_partition(records) if by_partition else records

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Records one by one, until another task closes the consumer. What counts as done is what was given, not what
        was fetched with it.
        """
        self._runner.check_open()
        return _Records(self._consuming.unread, self.poll)

    async def position(self, partition: TopicPartition, timeout_s: float = 60.0) -> int:
        """The next offset to hand out, found out if need be. Raises ValueError if it is not assigned, and
        RequestTimedOut.
        """
        position: int = await self._runner.run_alone(self._position(partition, timeout_s))
        return position

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit] | None = None, timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Store `offsets`, or the position after everything polled so far, and say what was stored. Commits asked for
        earlier have ended by then, and their callbacks were called. Cancelled, it may be stored nevertheless. Raises
        `CommitRefused` (nothing was stored), `RequestTimedOut` (unknown), ValueError for a negative offset.
        """
        return await self._ask(self._commit(offsets, timeout_s))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int | None]:
        """The group's offsets; None where there is none. Raises `Refused`, `RequestTimedOut`, `CannotConnect`."""
        return await self._ask(self._committed(partitions, timeout_s))

    async def close(self, timeout_s: float = 30.0) -> None:
        """Commit if that is automatic, tell the listeners, leave the group. Closing twice is fine. A task that polls
        meanwhile gets ClientClosed.
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
    """The iterator of `async for`: what a poll gives, one by one. What is `unread` counts in no position, and whoever
    polls or goes elsewhere in the meantime has it read again.
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
