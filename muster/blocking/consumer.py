"""The consumer people know: subscribe, poll, commit, close."""

import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from muster.blocking.group_member import GroupMember, Partitions
from muster.errors import CommitRefused, MusterError, NoOffset, RequestTimedOut
from muster.events import Effect, Woke
from muster.fetching import ConsumerRecord, Fetcher, FetchSettings
from muster.subscription import OffsetReset, Subscription
from muster.topic_partition import TopicPartition
from protocol.errors import ErrorCode

_LAST_COMMIT_S = 5.0
"""How long a rebalance or a close waits for the commit that precedes it."""


class Consumer:
    """Reads the partitions of its topics that its group gives it. From one thread at a time.

    `auto_offset_reset` says where to begin without a committed offset: "latest", "earliest", or "none" (an error). With
    `enable_auto_commit` everything that earlier polls returned counts as done, and is committed every
    `auto_commit_interval_ms`, before a rebalance, and at `close`. Other settings are those of `GroupMember`.
    """

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        *,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        max_poll_records: int = 500,
        **settings: Any,
    ) -> None:
        if max_poll_records < 1:
            raise ValueError(f"max_poll_records is {max_poll_records}, it must be 1 or more")
        try:
            reset = OffsetReset(auto_offset_reset)
        except ValueError:
            known = ", ".join(repr(one.value) for one in OffsetReset)
            raise ValueError(f"auto_offset_reset is {auto_offset_reset!r}, it must be one of {known}") from None
        self._bootstrap = bootstrap
        self._group_id = group_id
        self._settings = settings
        self._reset = reset
        self._auto_commits = enable_auto_commit
        self._commit_interval_s = auto_commit_interval_ms / 1000
        self._max_poll_records = max_poll_records
        self._subscription = Subscription()
        self._fetcher = Fetcher(self._subscription, FetchSettings(reset=reset))
        self._next_commit_s = 0.0
        self._member: GroupMember | None = None
        # Before anything is subscribed to there is no member; making one checks the settings.
        GroupMember(bootstrap, group_id, ("-",), **settings)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these from now on; they replace those of an earlier call at the next poll."""
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names or not all(names):
            raise ValueError(f"cannot subscribe to {names}: name one topic at least")
        if self._member is not None:
            self._member.subscribe(names)
            return
        self._member = GroupMember(
            self._bootstrap,
            self._group_id,
            names,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
            **self._settings,
        )
        self._driven = self._member.drive(self._fetcher, _ignore)

    @property
    def assignment(self) -> Partitions:
        return self._member.assignment if self._member else ()

    @property
    def member(self) -> GroupMember:
        """The membership beneath. Raises MusterError before `subscribe`."""
        if self._member is None:
            raise MusterError("nothing is subscribed to yet: call subscribe first")
        return self._member

    def poll(self, timeout_s: float = 1.0) -> list[ConsumerRecord]:
        """Records as soon as there are any, an empty list after `timeout_s`. Raises as `GroupMember.poll` does, and
        `OffsetOutOfRange`, `NoOffset`, `CorruptRecords`, `Refused`.
        """
        member, deadline = self.member, time.monotonic() + timeout_s
        background = member.background
        while True:
            member.poll(0.0)
            self._commit_if_due(member)
            with background.changed:
                records = self._fetcher.take(self._max_poll_records)
                if records or self._subscription.assigned:
                    # What was handed out makes room: the next fetch is under way while the application works.
                    background.feed(self._driven, Woke())
                left_s = deadline - time.monotonic()
                if records or left_s <= 0:
                    break
                if not self._fetcher.has_something and not member.needs_poll:
                    background.changed.wait(min(left_s, self._next_commit_s - time.monotonic() + 0.001, 1.0))
        if not records and timeout_s > 0 and not background.has_ever_connected:
            member.poll(0.001)  # says that nobody is there
        return records

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records one by one, for ever."""
        while True:
            yield from self.poll()

    def commit(
        self, offsets: Mapping[TopicPartition, int] | None = None, timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Store `offsets`, or the position after everything polled so far. Raises as `GroupMember.commit` does."""
        return self.member.commit(self.positions() if offsets is None else offsets, timeout_s)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        return self.member.committed(partitions)

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to hand out of each assigned partition that has one."""
        with self.member.background.changed:
            return dict(self._subscription.positions())

    def troubles(self) -> dict[TopicPartition, tuple[int, ErrorCode]]:
        """The assigned partitions that cannot be read at present, with the offset they stand at and why: `poll` gives
        records of the others meanwhile, and of these as soon as they can be read.
        """
        with self.member.background.changed:
            return self._subscription.troubles()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from there."""
        with self.member.background.changed:
            self._subscription.seek(partition, offset)

    def close(self, timeout_s: float = 30.0) -> None:
        """Commit if that is automatic, leave the group. Closing twice is fine."""
        if self._member is not None:
            self._member.close(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- called by the member, in poll and close

    def _assigned(self, partitions: Partitions) -> None:
        member = self.member
        found = member.committed(partitions)
        with member.background.changed:
            self._subscription.assign(partitions)
            for one, offset in found.items():
                if offset is not None:
                    self._subscription.seek(one, offset)
                elif self._reset is not OffsetReset.NONE:
                    self._subscription.await_reset(one, self._reset)
            self._next_commit_s = time.monotonic() + self._commit_interval_s
        missing = self._subscription.missing()
        if missing:
            names = ", ".join(map(str, missing))
            raise NoOffset(f"group {self._group_id} has no offset for {names}, and auto_offset_reset is 'none'")

    def _revoked(self, _partitions: Partitions) -> None:
        if self._auto_commits:
            self._commit_quietly()
        self._lost(())

    def _lost(self, _partitions: Partitions) -> None:
        with self.member.background.changed:
            self._subscription.assign(())

    def _commit_quietly(self) -> None:
        positions = self.positions()
        if not positions:
            return
        try:
            self.member.commit(positions, _LAST_COMMIT_S)
        except (CommitRefused, RequestTimedOut):
            return  # the next owner repeats what was not committed: at least once is the promise

    def _commit_if_due(self, member: GroupMember) -> None:
        now_s = time.monotonic()
        if self._next_commit_s <= now_s:
            self._next_commit_s = now_s + self._commit_interval_s
            positions = self.positions()
            if self._auto_commits and positions:
                member.commit_later(positions)


def _ignore(_effect: Effect) -> None:
    """A fetcher asks for calls only."""
