"""The consumer people know: subscribe, poll, commit, close."""

import contextlib
import random
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self, Unpack

from muster.blocking.background import Background
from muster.blocking.commits import Commits, now_ms
from muster.blocking.group_member import GroupMember, Listener
from muster.checks import check_partitions
from muster.consuming import Consuming, Kind, Partitions, read_settings, topic_names
from muster.dialects.bootstrap import parse_bootstrap
from muster.errors import CannotConnect, MusterError, Refused, RequestTimedOut
from muster.events import (
    AssignedByHand,
    CommitAsked,
    OffsetsAsked,
    OffsetsDone,
    OffsetToCommit,
    RejoinAsked,
    Subscribed,
    SubscribedToPattern,
    Woke,
)
from muster.fetching import ConsumerRecord, Deserializer
from muster.member import MemberOptions
from muster.outcomes import Done
from muster.security import SecurityLike
from muster.topic_partition import TopicPartition

_OFFSETS_TIMEOUT_MS = 30_000
_LOOK_S = 1.0
"""Of one poll of iteration."""


class Consumer(Commits):
    """Reads records: of topics or a pattern, as the group decides (`subscribe`), or of partitions of your own choice
    (`assign`). From one thread at a time; `wakeup` may come from any.

    With `enable_auto_commit` everything that earlier polls returned counts as done, and is committed every
    `auto_commit_interval_ms`, before a rebalance takes a partition away, and at `close`. Further settings are those of
    `GroupMember` (`session_timeout_ms`, `assignors`, `group_instance_id`, ...) and `FetchSettings`.
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
        """`auto_offset_reset` says where to begin without a committed offset: "latest", "earliest", or "none" (an
        error). `isolation_level` "read_committed" hides what transactions have not committed. Without `group_id`
        there is `assign` alone, and no commit. Making one connects to nothing; raises ValueError for what cannot work.
        """
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
        parsed = parse_bootstrap(bootstrap, dialect, security, broker_security)
        self._listeners: tuple[Listener | None, Listener | None, Listener | None] = (None, None, None)
        member: GroupMember | None = None
        if group_id is not None:
            member = GroupMember(
                bootstrap,
                group_id,
                (),
                on_assigned=self._assigned,
                on_revoked=self._revoked,
                on_lost=self._lost,
                rack_id=rack_id,
                client_id=client_id,
                dialect=dialect,
                security=security,
                broker_security=broker_security,
                **member_settings,
            )
            member.before_revoking(self._before_revoking)
        background = member.background if member else Background(parsed, client_id)
        super().__init__(Consuming(fetch, commits, random.random), background, member)

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
        an earlier call. No topic at all is `unsubscribe`. The listeners are called from `poll` and `close`, with what
        is new or gone; without `on_lost`, `on_revoked` is called instead. Raises WrongSubscription, ValueError.
        """
        names = topic_names(topics, pattern)
        with self._one_user.entered():
            self._give_back()
            member = self.member
            if pattern is None and not names:
                self.unsubscribe()
                return
            self._consuming.choose(Kind.TOPICS if pattern is None else Kind.PATTERN)
            self._listeners = (on_assigned, on_revoked, on_lost or on_revoked)
            if pattern is None:
                member.tell(Subscribed(names))
                with self._changed:
                    self._consuming.drop_other_topics(names)
            else:
                member.tell(SubscribedToPattern(pattern, not exclude_internal_topics))

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these and no others, whatever the group does; none at all is `unsubscribe`. Positions begin at the
        group's committed offsets, if there is a group. Raises WrongSubscription.
        """
        chosen = check_partitions(partitions)
        with self._one_user.entered():
            self._give_back()
            if not chosen:
                self.unsubscribe()
                return
            self._consuming.choose(Kind.BY_HAND)
            self._commit_if_due()
            if self._member is not None:
                self._member.tell(AssignedByHand(chosen))
            with self._changed:
                self._consuming.assigned(chosen, now_ms())
                self._consuming.subscription.callback_returned()

    def unsubscribe(self) -> None:
        """Read nothing: listeners are told, the group is left, nothing is committed."""
        with self._one_user.entered():
            self._give_back()
            if self._member is not None:
                by_hand = self._consuming.kind is Kind.BY_HAND
                self._member.tell(AssignedByHand(()) if by_hand else Subscribed(()))
                self._member.before_revoking(lambda _partitions: None)
            try:
                if self._member is not None:
                    self._member.poll()
            finally:  # whatever a listener raises
                if self._member is not None:
                    self._member.before_revoking(self._before_revoking)
                with self._changed:
                    self._consuming.fetcher.assign(())
                self._consuming.kind = Kind.NOTHING

    # -- reading

    def poll(self, timeout_s: float = 1.0) -> list[ConsumerRecord]:
        """Records as soon as there are any, an empty list after `timeout_s`, or sooner if only what is not for the
        application was read. Raises as `GroupMember.poll` does, `WokenUp`, and what cannot be read: `OffsetOutOfRange`,
        `NoOffset`, `CorruptRecords`, `CannotDeserialize`, `Refused`. What a listener raises comes out of here too.
        """
        records: list[ConsumerRecord] = []
        try:
            with self._one_user.entered():
                self._read(timeout_s)
                self._consuming.hand_out(records)
        except BaseException:  # a Ctrl-C on the way out: the application has not got them
            self._consuming.get_back(records)
            raise
        return records

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Records one by one, for ever. What counts as done is what was handed out here: who breaks off and commits
        reads the next record next time. Raises as `poll` does.
        """
        unread = self._consuming.unread
        while True:
            with self._one_user.entered():
                self._read(_LOOK_S)
            try:
                while unread:
                    record = unread[0]
                    del unread[0]  # no call, after which a Ctrl-C could lose it
                    yield record
            finally:
                self._give_back()

    def wakeup(self) -> None:
        """Interrupt a `poll` or a `commit` that waits, or the next one: it raises `WokenUp`. From any thread."""
        self._errands.wake()

    # -- positions

    def position(self, partition: TopicPartition, timeout_s: float = 60.0) -> int:
        """The next offset to hand out, found out if need be. Raises ValueError if it is not assigned, and
        RequestTimedOut.
        """
        with self._one_user.entered():
            deadline = time.monotonic() + timeout_s
            while True:
                with self._changed:
                    at = self._consuming.position(partition)
                if at is not None:
                    return at
                self._serve()
                with self._changed:
                    self._background.feed(self._driven, Woke())
                    left_s = deadline - time.monotonic()
                    if left_s <= 0:
                        raise RequestTimedOut(f"the position of {partition} is not known after {timeout_s:g} s")
                    self._wait(min(left_s, 0.1))

    # -- offsets

    def enforce_rebalance(self, reason: str = "the application asked for it") -> None:
        """Have the group share out again, from the next poll on."""
        with self._one_user.entered():
            self.member.tell(RejoinAsked(reason))

    # -- the end

    def close(self, timeout_s: float = 30.0) -> None:
        """Commit if that is automatic, tell the listeners, leave the group. Closing twice is fine."""
        if self._one_user.is_closed:
            return
        deadline = time.monotonic() + timeout_s
        with self._one_user.entered():
            self._give_back()
            try:
                self._close(deadline)
            finally:
                self._background.stop()
                self._one_user.is_closed = True

    def _close(self, deadline: float) -> None:
        member = self._member
        with contextlib.ExitStack() as rest:  # whatever a callback raises: the rest is closed all the same
            if member is not None:
                rest.callback(lambda: member.close(max(deadline - time.monotonic(), 0.001)))
            rest.callback(self._background.carry_out, self._driven, self._consuming.fetcher.close)
            if member is not None:
                member.errands.sleep_through()
                self._commit_by_hand(member, deadline)
                member.errands.finish_later_ones(deadline - time.monotonic())

    def _commit_by_hand(self, member: GroupMember, deadline: float) -> None:
        """The last automatic commit, where no revocation brings one about."""
        positions = self.positions() if self._consuming.commits_itself else {}
        if self._consuming.kind is Kind.BY_HAND and positions:
            # What is not committed is read again: at least once is the promise.
            with contextlib.suppress(Refused, RequestTimedOut, CannotConnect):
                member.commit(positions, max(deadline - time.monotonic(), 0.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- between polls

    def _read(self, timeout_s: float) -> None:
        """Until something is unread, or so long."""
        self._give_back()
        if self._consuming.kind is Kind.NOTHING:
            raise MusterError("nothing is subscribed to yet: call subscribe or assign first")
        deadline = time.monotonic() + timeout_s
        while True:
            self._serve()
            with self._changed:
                is_done = self._consuming.take(self._max_poll_records) or self._consuming.fetcher.made_progress
                # What was handed out makes room: the next fetch is under way while the application works.
                self._background.feed(self._driven, Woke())
                left_s = deadline - time.monotonic()
                if is_done or left_s <= 0:
                    break
                self._wait(left_s)
        if not self._consuming.unread and timeout_s > 0:
            self._complain_if_nobody_is_there()

    def _serve(self) -> None:
        """One pass: the group, callbacks, where partitions begin, commits that are due
        (docs/spec/consumer-client.md#A7, #B1)."""
        consuming, member = self._consuming, self._member
        self._errands.raise_wakeup()
        if member is not None:
            self._run_callbacks()
            if consuming.kind is not Kind.BY_HAND:
                if member.rejoins_next:
                    self._commit_if_due(at_once=True)
                member.poll(0.0)
            with self._changed:
                asked = consuming.ask_for()
            if asked:
                number = member.errands.number_heard(self._hear_offsets)
                member.tell(OffsetsAsked(number, asked, now_ms() + _OFFSETS_TIMEOUT_MS))
        with self._changed:
            consuming.begin(has_group=member is not None)
        self._commit_if_due()

    def _hear_offsets(self, done: Done) -> None:
        assert isinstance(done, OffsetsDone)
        self._consuming.heard(done)

    def _wait(self, left_s: float) -> None:
        """Under the lock, until something happened or is due."""
        consuming = self._consuming
        if consuming.fetcher.has_something or self._has_news:
            return
        self._changed.wait(min(left_s, consuming.patience_s(now_ms())))

    @property
    def _has_news(self) -> bool:
        member, errands = self._member, self._errands
        is_asked = member is not None and self._consuming.kind is not Kind.BY_HAND and member.needs_poll
        return is_asked or errands.is_woken or errands.has_callbacks

    def _complain_if_nobody_is_there(self) -> None:
        if self._member is not None and self._consuming.kind is not Kind.BY_HAND:
            if not self._background.has_ever_connected:
                self._member.poll(0.001)  # says that nobody is there
        elif not self._background.has_ever_connected and (trouble := self._background.trouble):
            raise self._background.refusals.error(trouble)

    # -- called by the member, in poll and close

    def _before_revoking(self, partitions: Partitions) -> int | None:
        with self._changed:
            offsets = self._consuming.last_commit(partitions)
        if not offsets or self._member is None:
            return None
        number = self._member.errands.number()
        wanted = {one: OffsetToCommit(at) for one, at in offsets.items()}
        self._member.tell(CommitAsked(number, wanted, now_ms() + self._member.rebalance_timeout_ms))
        return number

    def _assigned(self, added: Partitions) -> None:
        with self._changed:
            self._consuming.assigned(self.member.assignment, now_ms())
        listener = self._listeners[0]
        try:
            if listener is not None:
                listener(added)
        finally:
            with self._changed:
                self._consuming.subscription.callback_returned()

    def _revoked(self, partitions: Partitions) -> None:
        self._take_away(self._listeners[1], partitions)

    def _lost(self, partitions: Partitions) -> None:
        self._take_away(self._listeners[2], partitions)

    def _take_away(self, listener: Listener | None, partitions: Partitions) -> None:
        with self._changed:
            self._consuming.subscription.mark_pending_revocation(partitions)
        try:
            if listener is not None:
                listener(partitions)
        finally:
            with self._changed:
                self._consuming.take_away(partitions)
