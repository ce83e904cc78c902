"""A member of a group for applications that read by themselves, in an event loop."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self, Unpack

from muster.aio.driver import Driver
from muster.aio.group_member import Audience
from muster.aio.group_member import GroupMember as Membership
from muster.aio.one_user import Listener, OneUser, said_to
from muster.aio.topics import Topics
from muster.dialects.bootstrap import parse_bootstrap
from muster.events import OffsetToCommit, Subscribed
from muster.fetching import FetchSettings
from muster.lookups import Lookups
from muster.member import MemberOptions
from muster.outcomes import Done, Partitions
from muster.security import SecurityLike
from muster.topic_partition import TopicPartition


class GroupMember(Topics):
    """Shares the partitions of `topics` with the other members of a group. Fetches nothing.

    Belongs to one event loop, where heartbeats go on from the first `poll` on while the application awaits whatever it
    awaits. Rebalances are served from `poll` alone, by one task at a time: there, and nowhere else but in `close`,
    `on_revoked`, `on_lost` and `on_assigned` are called, and awaited if they are coroutine functions. One that had
    begun goes on to its end, whoever is cancelled. Settings, errors and what is promised are those of
    `muster.GroupMember`.
    """

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        topics: Iterable[str],
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
        rack_id: str | None = None,
        client_id: str = "muster",
        dialect: str | None = None,
        security: SecurityLike | None = None,
        broker_security: SecurityLike | None = None,
        **member_settings: Unpack[MemberOptions],
    ) -> None:
        """As `muster.GroupMember`. Making one connects to nothing, and needs no event loop yet."""
        if isinstance(topics, str):
            raise ValueError(f"topics is {topics!r}: a list of names is wanted")
        driver = Driver(parse_bootstrap(bootstrap, dialect, security, broker_security), client_id)
        one_user = OneUser("member", driver.changed)
        super().__init__(Lookups(FetchSettings(), random.random), driver, one_user)
        audience = Audience(
            lambda ones: said_to(on_assigned, ones),
            lambda ones: said_to(on_revoked, ones),
            lambda ones: said_to(on_lost or on_revoked, ones),
            lambda _ones: None,
            lambda: None,
        )
        self._member = Membership(
            driver, one_user, group_id, audience, topics=topics, rack_id=rack_id, **member_settings
        )

    # -- who and where

    @property
    def assignment(self) -> Partitions:
        """What `on_assigned` named last, less what was taken away since."""
        return self._member.assignment

    @property
    def generation_id(self) -> int:
        """-1 outside of a generation."""
        return self._member.generation_id

    @property
    def member_id(self) -> str:
        """Empty before the coordinator gave one."""
        return self._member.member_id

    @property
    def is_steady(self) -> bool:
        """In the group, its share known, and no rebalance that `poll` would have to serve."""
        return self._member.is_steady

    @property
    def needs_poll(self) -> bool:
        """Whether `poll` has a rebalance to serve or something to tell."""
        return self._member.needs_poll

    # -- polling

    async def poll(self, timeout_s: float = 0.0) -> bool:
        """Serve what the group asks of this member, and wait until it has its share: at most `timeout_s`, not at all
        once it is steady. Says whether it is. Other tasks get their turn in any case.

        Raises `GroupRefused` or `Fenced` where the coordinator does not admit it, `WokenUp`, and `CannotConnect` when
        no node was ever reached in the time given (`request_timeout_ms` in all, for polls that do not wait).
        """
        with self._one_user.alone():
            loop, member = self._driver.loop, self._member
            deadline = loop.time() + timeout_s
            await asyncio.sleep(0)
            while True:
                self._one_user.check_open()
                member.errands.raise_wakeup()
                await member.errands.run_callbacks()
                await member.serve()
                if member.is_steady:
                    return True
                left_s = deadline - loop.time()
                if left_s <= 0:
                    if timeout_s > 0:
                        member.complain_if_nobody_is_there()
                    return False
                if not member.needs_poll:
                    await self._driver.changed.wait(left_s)

    def wakeup(self) -> None:
        """Interrupt a `poll` or a `commit` that waits, or the next one: it raises `WokenUp`."""
        self._member.errands.wake()

    def subscribe(self, topics: Iterable[str]) -> None:
        """Other topics from now on; the next `poll` serves the rebalance that follows."""
        self._one_user.check_open()
        self._member.tell(Subscribed(tuple(topics)))

    # -- offsets

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Store the next offset to read of each partition, and say which were stored: those of partitions this member
        does not hold are left out, because the coordinator would take them from anybody. Cancelled, it may be stored
        nevertheless.

        Raises `CommitRefused` (nothing was stored) and `RequestTimedOut` (unknown). ValueError for a negative offset.
        """
        self._one_user.check_open()
        return await self._member.commit(offsets, timeout_s)

    def commit_later(
        self, offsets: Mapping[TopicPartition, int], callback: Callable[[Done], object] = lambda _done: None
    ) -> None:
        """Send a commit once and do not wait; `callback` is called from a later `poll` or `close`, in the order in
        which commits ended, and awaited if it is a coroutine function. Raises ValueError for a negative offset.
        """
        self._one_user.check_open()
        self._member.commit_later(offsets, callback)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int | None]:
        """The group's offsets; None where there is none. Needs no membership. Raises `Refused`, `RequestTimedOut`,
        `CannotConnect`.
        """
        self._one_user.check_open()
        return await self._member.committed(partitions, timeout_s)

    # -- leaving

    async def close(self, timeout_s: float = 30.0) -> None:
        """Let go (`on_revoked` is called) and leave the group. A member with a `group_instance_id` does not leave: its
        place is kept for its return until the session times out. Closing twice is fine; a task that polls meanwhile
        gets ClientClosed.
        """
        if self._one_user.is_closed:
            return
        loop = self._driver.loop
        deadline = loop.time() + timeout_s
        if not await self._one_user.begin_to_close(timeout_s):
            return
        try:
            self._member.errands.sleep_through()
            await self._member.close(max(deadline - loop.time(), 0.001))
        finally:
            self._one_user.closed()
            await self._driver.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
