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

    Belongs to one event loop, where heartbeats go on from the first `poll` on while the application awaits whatever it
    awaits. Rebalances are served from `poll` alone, by one task at a time: there, and nowhere else but in `close`,
    `on_revoked`, `on_lost` and `on_assigned` are called, and awaited if they are coroutine functions; so are callbacks
    of `commit_later`. One that had begun goes on to its end, whoever is cancelled. Settings, errors and what is
    promised are those of `muster.GroupMember`. Making one connects to nothing, and needs no event loop yet.
    """

    _runner_of = LoopRunner

    async def poll(self, timeout_s: float = 0.0) -> bool:
        """Serve what the group asks of this member, and wait until it has its share: at most `timeout_s`, not at all
        once it is steady. Says whether it is. Other tasks get their turn in any case.

        Raises `GroupRefused` or `Fenced` where the coordinator does not admit it, `WokenUp`, and `CannotConnect` when
        no node was ever reached in the time given (`request_timeout_ms` in all, for polls that do not wait).
        """
        is_steady: bool = await self._runner.run_alone(self._poll(timeout_s))
        return is_steady

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Store the next offset to read of each partition, and say which were stored: those of partitions this member
        does not hold are left out, because the coordinator would take them from anybody. Cancelled, it may be stored
        nevertheless.

        Raises `CommitRefused` (nothing was stored) and `RequestTimedOut` (unknown). ValueError for a negative offset.
        """
        return await self._ask(self._member.commit(offsets, timeout_s))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int | None]:
        """The group's offsets; None where there is none. Needs no membership. Raises `Refused`, `RequestTimedOut`,
        `CannotConnect`.
        """
        return await self._ask(self._member.committed(partitions, timeout_s))

    async def close(self, timeout_s: float = 30.0) -> None:
        """Let go (`on_revoked` is called) and leave the group. A member with a `group_instance_id` does not leave: its
        place is kept for its return until the session times out. Closing twice is fine; a task that polls meanwhile
        gets ClientClosed.
        """
        await self._runner.close(self._close, timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
