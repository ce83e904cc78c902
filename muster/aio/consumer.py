"""The consumer people know, for programs with an event loop: subscribe, poll, commit, close."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self, Unpack

from muster.aio.commits import Commits
from muster.aio.driver import Driver
from muster.aio.group_member import Audience, GroupMember
from muster.aio.one_user import Listener, OneUser, said_to
from muster.checks import check_partitions
from muster.consuming import Consuming, Kind, Partitions, read_settings, topic_names
from muster.dialects.bootstrap import parse_bootstrap
from muster.errors import CannotConnect, ClientClosed, MusterError, Refused, RequestTimedOut
from muster.events import (
    AssignedByHand,
    CommitAsked,
    OffsetsAsked,
    OffsetsDone,
    OffsetToCommit,
    RejoinAsked,
    Subscribed,
    SubscribedToPattern,
)
from muster.fetching import ConsumerRecord, Deserializer
from muster.member import MemberOptions
from muster.outcomes import Done
from muster.security import SecurityLike
from muster.topic_partition import TopicPartition

_OFFSETS_TIMEOUT_MS = 30_000


class Consumer(Commits):
    """Reads records: of topics or a pattern, as the group decides (`subscribe`), or of partitions of your own choice
    (`assign`). Belongs to one event loop; heartbeats go on there while the application awaits whatever it awaits, and
    no other than `poll` serves rebalances. One task at a time polls; from others of the same loop everything else may
    be called, `close` too: then the task that polls gets ClientClosed.

    Cancelling loses nothing: a cancelled `poll` leaves the records for the next, a listener that had begun goes on to
    its end (the next `poll` or `close` waits for it), and a commit that was sent may be stored.

    With `enable_auto_commit` everything that earlier polls returned counts as done, and is committed every
    `auto_commit_interval_ms`, before a rebalance takes a partition away, and at `close`. Settings, errors and what is
    promised are those of `muster.Consumer`.
    """

    def __init__(
        self,
        bootstrap: str,
        group_id: str | None = None,
        *,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        max_poll_records: int = 500,
        isolation_level: str = "read_uncommitted",
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int = 1_048_576,
        rack_id: str | None = None,
        client_id: str = "muster",
        dialect: str | None = None,
        security: SecurityLike | None = None,
        broker_security: SecurityLike | None = None,
        **member_settings: Unpack[MemberOptions],
    ) -> None:
        """As `muster.Consumer`. Making one connects to nothing, and needs no event loop yet."""
        fetch, commits = read_settings(
            is_member=group_id is not None,
            auto_offset_reset=auto_offset_reset,
            enable_auto_commit=enable_auto_commit,
            auto_commit_interval_ms=auto_commit_interval_ms,
            max_poll_records=max_poll_records,
            isolation_level=isolation_level,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_max_bytes=fetch_max_bytes,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            rack_id=rack_id,
            member_settings=member_settings,
        )
        self._max_poll_records = max_poll_records
        self._listeners: tuple[Listener | None, Listener | None, Listener | None] = (None, None, None)
        self._is_letting_go = False
        driver = Driver(parse_bootstrap(bootstrap, dialect, security, broker_security), client_id)
        one_user = OneUser("consumer", driver.changed)
        member: GroupMember | None = None
        if group_id is not None:
            audience = Audience(
                self._assigned, self._revoked, self._lost, self._before_revoking, self._before_rejoining
            )
            member = GroupMember(driver, one_user, group_id, audience, rack_id=rack_id, **member_settings)
        super().__init__(Consuming(fetch, commits, random.random), driver, one_user, member)

    # -- what is read

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        exclude_internal_topics: bool = True,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Read these topics, or all whose whole name matches `pattern`, from the next poll on; they replace those of
        an earlier call. The listeners are called from `poll` and `close`, with what is new or gone; without `on_lost`,
        `on_revoked` is called instead. Raises WrongSubscription; ValueError, also for no topic at all: that is
        `unsubscribe`, which waits.
        """
        names = topic_names(topics, pattern)
        self._one_user.check_open()
        self._consuming.give_back()
        member = self.member
        if pattern is None and not names:
            raise ValueError("no topics are named: await unsubscribe() to read nothing")
        self._consuming.choose(Kind.TOPICS if pattern is None else Kind.PATTERN)
        self._listeners = (on_assigned, on_revoked, on_lost or on_revoked)
        if pattern is None:
            member.tell(Subscribed(names))
            self._consuming.drop_other_topics(names)
        else:
            member.tell(SubscribedToPattern(pattern, not exclude_internal_topics))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these and no others, whatever the group does. Positions begin at the group's committed offsets, if there
        is a group. Raises WrongSubscription; ValueError for none at all: that is `unsubscribe`.
        """
        chosen = check_partitions(partitions)
        self._one_user.check_open()
        self._consuming.give_back()
        if not chosen:
            raise ValueError("no partitions are named: await unsubscribe() to read nothing")
        self._consuming.choose(Kind.BY_HAND)
        self._commit_if_due()
        if self._member is not None:
            self._member.tell(AssignedByHand(chosen))
        self._consuming.assigned(chosen, self._driver.now_ms())
        self._consuming.subscription.callback_returned()

    async def unsubscribe(self) -> None:
        """Read nothing: listeners are told, the group is left, nothing is committed."""
        with self._one_user.alone():
            self._consuming.give_back()
            if self._member is not None:
                by_hand = self._consuming.kind is Kind.BY_HAND
                self._member.tell(AssignedByHand(()) if by_hand else Subscribed(()))
            self._is_letting_go = True
            try:
                if self._member is not None:
                    await self._member.serve()
            finally:  # whatever a listener raises
                self._is_letting_go = False
                self._consuming.fetcher.assign(())
                self._consuming.kind = Kind.NOTHING

    # -- reading

    async def poll(self, timeout_s: float = 1.0) -> list[ConsumerRecord]:
        """Records as soon as there are any, an empty list after `timeout_s`, or sooner if only what is not for the
        application was read. Other tasks get their turn even where records are there at once.

        Raises `GroupRefused`, `Fenced`, `CannotConnect`, `WokenUp`, and what cannot be read: `OffsetOutOfRange`,
        `NoOffset`, `CorruptRecords`, `CannotDeserialize`, `Refused`. What a listener raises comes out of here too.
        """
        with self._one_user.alone():
            self._consuming.give_back()
            if self._consuming.kind is Kind.NOTHING:
                raise MusterError("nothing is subscribed to yet: call subscribe or assign first")
            loop = self._driver.loop
            deadline = loop.time() + timeout_s
            await asyncio.sleep(0)
            while True:
                self._one_user.check_open()
                await self._serve()
                # From here on nothing is awaited if there are records: whoever is cancelled has not got them.
                is_done = self._consuming.take(self._max_poll_records) or self._consuming.fetcher.made_progress
                # What was handed out makes room: the next fetch is under way while the application works.
                self._look()
                left_s = deadline - loop.time()
                if is_done or left_s <= 0:
                    break
                await self._wait(left_s)
            if not self._consuming.unread and timeout_s > 0:
                self._complain_if_nobody_is_there()
            records: list[ConsumerRecord] = []
            self._consuming.hand_out(records)
            return records

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Records one by one, until another task closes the consumer. What counts as done is what was given, not what
        was fetched with it.
        """
        self._one_user.check_open()
        return _Records(self._consuming.unread, self.poll)

    def wakeup(self) -> None:
        """Interrupt a `poll` or a `commit` that waits, or the next one: it raises `WokenUp`."""
        self._errands.wake()

    # -- positions

    async def position(self, partition: TopicPartition, timeout_s: float = 60.0) -> int:
        """The next offset to hand out, found out if need be. Raises ValueError if it is not assigned, and
        RequestTimedOut.
        """
        with self._one_user.alone():
            loop = self._driver.loop
            deadline = loop.time() + timeout_s
            while (at := self._consuming.position(partition)) is None:
                self._one_user.check_open()
                await self._serve()
                self._look()
                left_s = deadline - loop.time()
                if left_s <= 0:
                    raise RequestTimedOut(f"the position of {partition} is not known after {timeout_s:g} s")
                if self._consuming.subscription.position(partition) is None:
                    await self._driver.changed.wait(min(left_s, 0.1))
            return at

    def enforce_rebalance(self, reason: str = "the application asked for it") -> None:
        """Have the group share out again, from the next poll on."""
        self._one_user.check_open()
        self.member.tell(RejoinAsked(reason))

    # -- the end

    async def close(self, timeout_s: float = 30.0) -> None:
        """Commit if that is automatic, tell the listeners, leave the group. Closing twice is fine. A task that polls
        meanwhile gets ClientClosed.
        """
        if self._one_user.is_closed:
            return
        loop = self._driver.loop
        deadline = loop.time() + timeout_s
        if not await self._one_user.begin_to_close(timeout_s):
            return
        self._consuming.give_back()
        try:
            await self._close(deadline)
        finally:
            self._one_user.closed()
            await self._driver.stop()

    async def _close(self, deadline: float) -> None:
        member, loop = self._member, self._driver.loop
        failure: Exception | None = None
        if member is not None:
            try:
                member.errands.sleep_through()
                await self._commit_by_hand(member, deadline)
                await member.errands.finish_later_ones(deadline - loop.time())
            except Exception as error:  # noqa: BLE001  (the application's own; raised below, once everything is closed)
                failure = error
        self._driver.carry_out(self._driven, self._consuming.fetcher.close)
        if member is not None:
            await member.close(max(deadline - loop.time(), 0.001))
        if failure is not None:
            raise failure

    async def _commit_by_hand(self, member: GroupMember, deadline: float) -> None:
        """The last automatic commit, where no revocation brings one about."""
        positions = self.positions() if self._consuming.commits_itself else {}
        if self._consuming.kind is Kind.BY_HAND and positions:
            # What is not committed is read again: at least once is the promise.
            with suppress(Refused, RequestTimedOut, CannotConnect):
                await member.commit(positions, max(deadline - self._driver.loop.time(), 0.0))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- between polls

    async def _serve(self) -> None:
        """One pass: the group, callbacks, where partitions begin, commits that are due
        (docs/spec/consumer-client.md#A7, #B1)."""
        consuming, member = self._consuming, self._member
        self._errands.raise_wakeup()
        if member is not None:
            await self._run_callbacks()
            if consuming.kind is not Kind.BY_HAND:
                await member.serve()
            asked = consuming.ask_for()
            if asked:
                number = member.errands.number_heard(self._hear_offsets)
                member.tell(OffsetsAsked(number, asked, self._driver.now_ms() + _OFFSETS_TIMEOUT_MS))
        consuming.begin(has_group=member is not None)
        self._commit_if_due()

    def _hear_offsets(self, done: Done) -> None:
        assert isinstance(done, OffsetsDone)
        self._consuming.heard(done)

    async def _wait(self, left_s: float) -> None:
        """Until something happened or is due."""
        if self._consuming.fetcher.has_something or self._has_news:
            await asyncio.sleep(0)
        else:
            await self._driver.changed.wait(min(left_s, self._consuming.patience_s(self._driver.now_ms())))

    @property
    def _has_news(self) -> bool:
        member, errands = self._member, self._errands
        is_asked = member is not None and self._consuming.kind is not Kind.BY_HAND and member.needs_poll
        return self._one_user.is_being_closed or is_asked or errands.is_woken or errands.has_callbacks

    def _complain_if_nobody_is_there(self) -> None:
        if not self._driver.has_ever_connected and (trouble := self._driver.trouble):
            raise self._driver.refusals.error(trouble)

    # -- called by the member, in poll and close

    def _before_revoking(self, partitions: Partitions) -> int | None:
        if self._is_letting_go:
            return None
        offsets = self._consuming.last_commit(partitions)
        if not offsets:
            return None
        number = self.member.errands.number()
        wanted = {one: OffsetToCommit(at) for one, at in offsets.items()}
        self.member.tell(CommitAsked(number, wanted, self._driver.now_ms() + self.member.rebalance_timeout_ms))
        return number

    def _before_rejoining(self) -> None:
        self._commit_if_due(at_once=True)

    async def _assigned(self, added: Partitions) -> None:
        self._consuming.assigned(self.member.assignment, self._driver.now_ms())
        try:
            await said_to(self._listeners[0], added)
        finally:
            self._consuming.subscription.callback_returned()

    async def _revoked(self, partitions: Partitions) -> None:
        await self._take_away(self._listeners[1], partitions)

    async def _lost(self, partitions: Partitions) -> None:
        await self._take_away(self._listeners[2], partitions)

    async def _take_away(self, listener: Listener | None, partitions: Partitions) -> None:
        self._consuming.subscription.mark_pending_revocation(partitions)
        try:
            await said_to(listener, partitions)
        finally:
            self._consuming.take_away(partitions)


class _Records:
    """Of `async for`: what a poll gives, one by one. What is `unread` counts in no position, and whoever polls or goes
    elsewhere in the meantime has it read again.
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
