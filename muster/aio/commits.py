"""Storing how far a consumer has come: at once, in the background, by itself. Part of `Consumer`."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from muster.aio.driver import Driver
from muster.aio.errands import Errands
from muster.aio.group_member import GroupMember
from muster.aio.one_user import OneUser, said_to
from muster.aio.places import Places
from muster.consuming import Consuming
from muster.errors import Fenced, MusterError
from muster.events import CommitDone, OffsetToCommit
from muster.outcomes import Done, failure, refusal
from muster.topic_partition import TopicPartition
from protocol.errors import ErrorCode

CommitCallback = Callable[[Mapping[TopicPartition, int], MusterError | None], Awaitable[Any] | None]


class Commits(Places):
    """With a member; without one there is nowhere to store anything."""

    def __init__(self, consuming: Consuming, driver: Driver, one_user: OneUser, member: GroupMember | None) -> None:
        super().__init__(consuming, driver, one_user)
        self._member = member
        self._errands = Errands(driver.changed, one_user, driver.refusals) if member is None else member.errands
        self._fenced: Fenced | None = None

    @property
    def member(self) -> GroupMember:
        """The membership beneath. Raises MusterError without a `group_id`."""
        if self._member is None:
            raise MusterError("this consumer has no group_id: it can `assign` partitions, not subscribe or commit")
        return self._member

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit] | None = None, timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Store `offsets`, or the position after everything polled so far, and say what was stored. Commits asked for
        earlier have ended by then, and their callbacks were called. Cancelled, it may be stored nevertheless. Raises
        `CommitRefused` (nothing was stored), `RequestTimedOut` (unknown), ValueError for a negative offset.
        """
        self._one_user.check_open()
        loop, member = self._driver.loop, self.member
        deadline = loop.time() + timeout_s
        await self._run_callbacks()
        wanted = self.positions() if offsets is None else offsets
        stored = await member.commit(wanted, timeout_s) if wanted else {}
        await member.errands.finish_later_ones(deadline - loop.time())
        return stored

    def commit_async(
        self, offsets: Mapping[TopicPartition, int] | None = None, callback: CommitCallback | None = None
    ) -> None:
        """Send a commit once, and go on. `callback(offsets, error)` is called from a later `poll`, `commit` or `close`,
        in the order in which commits ended. Raises ValueError for a negative offset.
        """
        self._one_user.check_open()
        wanted = dict(self.positions() if offsets is None else offsets)
        self.member.commit_later(wanted, lambda done: self._tell_commit(done, wanted, callback))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int | None]:
        """The group's offsets; None where there is none. Raises `Refused`, `RequestTimedOut`, `CannotConnect`."""
        self._one_user.check_open()
        return await self.member.committed(partitions, timeout_s)

    def _commit_if_due(self, *, at_once: bool = False) -> None:
        due = dict((self._consuming.commit_now if at_once else self._consuming.commit_due)(self._driver.now_ms()))
        if due:
            self.member.commit_later(due, self._auto_commit_ended)

    def _auto_commit_ended(self, done: Done) -> None:
        assert isinstance(done, CommitDone)
        self._note_fencing(done)
        self._consuming.commit_ended(done.error_code, self._driver.now_ms())

    async def _tell_commit(
        self, done: Done, offsets: Mapping[TopicPartition, int], callback: CommitCallback | None
    ) -> None:
        assert isinstance(done, CommitDone)
        self._note_fencing(done)
        error = None if done.error_code == ErrorCode.NONE else failure(done)
        await said_to(callback, offsets, error)

    def _note_fencing(self, done: CommitDone) -> None:
        if done.error_code == ErrorCode.FENCED_INSTANCE_ID:
            self._fenced = Fenced(done.error_code, str(refusal(done)))

    async def _run_callbacks(self) -> None:
        await self.member.errands.run_callbacks()
        fenced, self._fenced = self._fenced, None
        if fenced is not None:
            raise fenced
