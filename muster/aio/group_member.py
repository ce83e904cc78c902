"""A member of a group for applications that read by themselves, in an event loop."""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from membership.events import OffsetToCommit
from membership.topic_partition import TopicPartition
from muster.aio.runner import LoopRunner
from muster.aio.topics import LoopTopics
from muster.client.group_member import GroupMemberProcedures


class GroupMember(LoopTopics, GroupMemberProcedures):
    """Shares the partitions of `topics` with the other members of a group. Fetches nothing.

    Belongs to one event loop, where heartbeats are sent from the first `poll` on while the application awaits.
    Rebalances are served only by `poll`, in one task at a time, and by `close`, which call `on_revoked`, `on_lost` and
    `on_assigned`, and await them if they are coroutine functions; so are callbacks of `commit_later`. A started
    callback runs to its end, even if its caller is cancelled. Settings, errors and guarantees are those of
    `muster.GroupMember`. The constructor opens no connection, and needs no running event loop.
    """

    _runner_of = LoopRunner

    async def poll(self, timeout_s: float = 0.0) -> bool:
        """Serve rebalances, and wait until this member has its assignment: at most `timeout_s`, not at all once it is
        steady. Return whether it is. Other tasks run in any case.

        Raises `GroupRefused` or `Fenced` if the coordinator refuses it, `WokenUp`, and `CannotConnect` when no node was
        ever reached in the time given (`request_timeout_ms` in all, for polls that do not wait).
        """
        is_steady: bool = await self._runner.run_alone(self._poll(timeout_s))
        return is_steady

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Store the next offset to read of each partition, and return the stored ones: partitions that this member does
        not own are skipped, because the coordinator does not check that. Cancelled, it may be stored nevertheless.

        Raises `CommitRefused` (nothing was stored) and `RequestTimedOut` (unknown). ValueError for a negative offset.
        """
        return await self._ask(self._member.commit(offsets, timeout_s))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int | None]:
        """The group's offsets; None for a partition without one. Needs no membership. Raises `Refused`,
        `RequestTimedOut`, `CannotConnect`.
        """
        return await self._ask(self._member.committed(partitions, timeout_s))

    async def close(self, timeout_s: float = 30.0) -> None:
        """Revoke all partitions (`on_revoked` is called) and leave the group. A member with a `group_instance_id` does
        not leave: it may return until its session expires. Closing twice is fine; a task that polls meanwhile gets
        ClientClosed.
        """
        await self._runner.close(self._close, timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
