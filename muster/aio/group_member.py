"""A consumer's membership of its group, served from its `poll` and `close` alone."""

import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import NamedTuple, Unpack

from muster.aio.driver import Driver
from muster.aio.errands import Errands
from muster.aio.one_user import OneUser
from muster.driven import Driven
from muster.errors import GroupRefused, WokenUp
from muster.events import (
    Assigned,
    Closed,
    Closing,
    CommitAsked,
    CommitDone,
    Effect,
    Lost,
    MemberEvent,
    OffsetsAsked,
    OffsetsDone,
    OffsetToCommit,
    Polled,
    Released,
    Revoked,
)
from muster.member import MemberOptions, MemberSettings, assignor_names
from muster.membership import Membership
from muster.outcomes import Done, Partitions, Told, found, stored, to_commit, without
from muster.topic_partition import TopicPartition

Tell = Callable[[Partitions], Coroutine[object, object, None]]


class Audience(NamedTuple):
    """Who is told. `prepare` comes before `revoked`, which waits for the errand that it gives, if it gives one, and
    `rejoin` before a cooperative rebalance begins: from then on, until it is over, nothing can be committed.
    """

    assigned: Tell
    revoked: Tell
    lost: Tell
    prepare: Callable[[Partitions], int | None]
    rejoin: Callable[[], None]


class GroupMember:
    """What `muster.GroupMember` is to programs with threads, as far as a consumer needs it."""

    def __init__(
        self,
        driver: Driver,
        one_user: OneUser,
        group_id: str,
        audience: Audience,
        *,
        topics: Iterable[str] = (),
        rack_id: str | None = None,
        **settings: Unpack[MemberOptions],
    ) -> None:
        """Raises ValueError for what cannot work."""
        settings["assignors"] = assignor_names(settings.get("assignors", ("range", "cooperative-sticky")))
        self._settings = MemberSettings(group_id=group_id, rack_id=rack_id, **settings)  # type: ignore[arg-type]
        self._membership = Membership(self._settings, topics, random.random)
        self._driver = driver
        self._driven = Driven(self._membership, self._take)
        driver.add(self._driven)
        self._one_user = one_user
        self._audience = audience
        self.errands = Errands(driver.changed, one_user, driver.refusals)
        self._told = Told(self.errands)
        self._assignment: Partitions = ()
        self._served_first_s: float | None = None

    # -- who and where

    @property
    def assignment(self) -> Partitions:
        """What the application was told last that it has, less what was taken away since."""
        return self._assignment

    @property
    def generation_id(self) -> int:
        """-1 outside of a generation."""
        return self._membership.generation_id

    @property
    def member_id(self) -> str:
        """Empty before the coordinator gave one."""
        return self._membership.member_id

    @property
    def is_steady(self) -> bool:
        """In the group, its share known, and no rebalance that a poll would have to serve."""
        return self._membership.is_steady and not self._told

    @property
    def needs_poll(self) -> bool:
        """Whether a poll has a rebalance to serve or something to tell."""
        return not self._told.is_held_up and (bool(self._told) or self._membership.needs_poll)

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the others wait for this member in a rebalance."""
        return self._settings.max_poll_interval_ms

    def tell(self, event: MemberEvent) -> None:
        """Let the core know what the application wants."""
        self._driver.feed(self._driven, event)

    async def serve(self) -> None:
        """One pass of what the group asks of this member. Raises GroupRefused, Fenced; and CannotConnect when no node
        was ever reached in `request_timeout_ms`.
        """
        loop = self._driver.loop
        self._served_first_s = self._served_first_s or loop.time()
        await self._tell_all()
        if self._membership.rejoins_next and not self._told:
            self._audience.rejoin()
        self.tell(Polled())
        await self._tell_all()
        is_late = (loop.time() - self._served_first_s) * 1000 > self._settings.request_timeout_ms
        if is_late and not self.is_steady:
            self.complain_if_nobody_is_there()

    def complain_if_nobody_is_there(self) -> None:
        """Raises CannotConnect."""
        if not self._driver.has_ever_connected and (trouble := self._driver.trouble):
            raise self._driver.refusals.error(trouble)

    # -- offsets

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit], timeout_s: float
    ) -> dict[TopicPartition, int]:
        """As that of `muster.GroupMember`. Cancelled, it is not undone."""
        wanted = to_commit(offsets)
        errand = self.errands.number()
        self.tell(CommitAsked(errand, wanted, self._deadline_ms(timeout_s)))
        ended = await self.errands.wait_for(errand, CommitDone, timeout_s)
        return stored(ended, self._explained(f"the commit was not answered within {timeout_s:g} s"))

    def commit_later(
        self, offsets: Mapping[TopicPartition, int], callback: Callable[[Done], object] = lambda _done: None
    ) -> None:
        """As that of `muster.GroupMember`."""
        wanted = to_commit(offsets)
        errand = self.errands.number_later(callback)
        self.tell(CommitAsked(errand, wanted, self._deadline_ms(self._settings.request_timeout_ms / 1000), once=True))

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, int | None]:
        """As that of `muster.GroupMember`."""
        errand = self.errands.number()
        self.tell(OffsetsAsked(errand, tuple(partitions), self._deadline_ms(timeout_s)))
        done = await self.errands.wait_for(errand, OffsetsDone, timeout_s)
        unreached = None if self._driver.has_ever_connected else self._driver.last_failure
        return found(done, self._explained(f"no committed offsets came within {timeout_s:g} s"), unreached)

    # -- leaving

    async def close(self, timeout_s: float) -> None:
        """Let go, and leave the group. What a listener raises comes once that is done."""
        loop = self._driver.loop
        deadline = loop.time() + timeout_s
        self.tell(Closing())
        failure: Exception | None = None
        while True:
            try:
                await self._tell_all()
            except GroupRefused:
                continue  # it is leaving anyhow
            except Exception as error:  # noqa: BLE001  (the application's own; raised below, once everything is closed)
                failure = failure or error
            left_s = deadline - loop.time()
            if left_s <= 0:
                self._told.hurry()
            is_idle = not self._told or self._told.is_held_up
            if is_idle and (self._membership.is_closed or left_s <= 0 or self.errands.has_failed):
                break
            if is_idle:
                await self._driver.changed.wait(left_s)
        await self.errands.run_callbacks()
        if failure is not None:
            raise failure
        self._driver.refusals.raise_failure()

    # -- telling

    async def _tell_all(self) -> None:
        await self._one_user.finish()
        while (effect := self._told.next(self._audience.prepare)) is not None:
            await self._one_user.call(self._tell(effect))

    async def _tell(self, effect: Revoked | Lost | Assigned) -> None:
        match effect:
            case Revoked(partitions):
                await self._take_away(self._audience.revoked, partitions)
            case Lost(partitions):
                await self._take_away(self._audience.lost, partitions)
            case Assigned(partitions, _generation, added):
                self._assignment = partitions
                try:
                    await self._audience.assigned(added)
                except WokenUp:
                    self._told.add_again(effect)
                    raise

    async def _take_away(self, tell: Tell, partitions: Partitions) -> None:
        try:
            await tell(partitions)
        finally:
            self._assignment = without(self._assignment, partitions)
            self.tell(Released())

    def _take(self, effect: Effect) -> None:
        if isinstance(effect, CommitDone | OffsetsDone):
            self.errands.ended(effect)
        elif not isinstance(effect, Closed):
            self._told.add(effect)

    def _deadline_ms(self, timeout_s: float) -> int:
        return self._driver.now_ms() + int(timeout_s * 1000)

    def _explained(self, sentence: str) -> str:
        return f"{sentence}; {self._driver.last_failure}" if self._driver.last_failure else sentence
