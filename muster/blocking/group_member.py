"""A member of a group for applications that read by themselves: a Spark query, a database export, a batch job."""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from muster.blocking.background import Background, Core, Driven
from muster.blocking.cluster import EARLIEST, LATEST, Cluster
from muster.blocking.errands import Errands
from muster.blocking.one_user import OneUser
from muster.dialects.bootstrap import parse_bootstrap
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
    Subscribed,
)
from muster.member import MemberSettings, assignor_names
from muster.membership import Membership
from muster.outcomes import Done, Partitions, Told, found, stored, to_commit, without
from muster.security import SecurityLike
from muster.topic_partition import TopicPartition

Listener = Callable[[Partitions], None]


class GroupMember:
    """Shares the partitions of `topics` with the other members of a group. Fetches nothing.

    Heartbeats run in a thread of their own from the first `poll` on. Rebalances are served from `poll` alone: there,
    and nowhere else but in `close`, `on_revoked` (commit what is done: it still counts), `on_lost` (others may have
    these already) and `on_assigned` are called, each with what is gone or new: everything in an eager rebalance, what
    moves in a cooperative one (`assignors` of nothing but "cooperative-sticky"). A member not polled for
    `max_poll_interval_ms` leaves its group.

    Making one connects to nothing. Use it from one thread at a time, and not across a fork.
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
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        metadata_max_age_ms: int = 300_000,
        assignors: Iterable[str] = ("range", "cooperative-sticky"),
        group_instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "muster",
        dialect: str | None = None,
        security: SecurityLike | None = None,
        broker_security: SecurityLike | None = None,
    ) -> None:
        """`on_lost` None: `on_revoked` is called instead. `dialect` is "native" or "kafka"; without it the bootstrap
        says which ("kafka://HOST:PORT"). `security` says how the bootstrap is reached, and what speaks as it does;
        `broker_security` how Kafka's brokers beside musterd are, if otherwise. Raises ValueError for what cannot work.
        """
        if isinstance(topics, str):
            raise ValueError(f"topics is {topics!r}: a list of names is wanted")
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost or on_revoked
        self._request_timeout_s = request_timeout_ms / 1000
        self._rebalance_timeout_ms = max_poll_interval_ms
        self._membership = Membership(
            MemberSettings(
                group_id=group_id,
                group_instance_id=group_instance_id,
                assignors=assignor_names(assignors),
                session_timeout_ms=session_timeout_ms,
                heartbeat_interval_ms=heartbeat_interval_ms,
                max_poll_interval_ms=max_poll_interval_ms,
                request_timeout_ms=request_timeout_ms,
                retry_backoff_ms=retry_backoff_ms,
                retry_backoff_max_ms=retry_backoff_max_ms,
                metadata_max_age_ms=metadata_max_age_ms,
                rack_id=rack_id,
            ),
            topics,
            random.random,
        )
        self._background = Background(parse_bootstrap(bootstrap, dialect, security, broker_security), client_id)
        self._driven = Driven(self._membership, self._take)
        self._background.add(self._driven)
        self._cluster = Cluster(
            bootstrap, dialect=dialect, client_id=client_id, security=security, broker_security=broker_security
        )
        self._changed = self._background.changed
        self._errands = Errands(self._changed, self._background.refusals)
        self._told = Told(self._errands)
        self._assignment: Partitions = ()
        self._one_user = OneUser("member")
        self._entered = self._one_user.entered
        self._before_revoking: Callable[[Partitions], int | None] = lambda _partitions: None
        self._polled_first_s: float | None = None

    # -- who and where

    @property
    def assignment(self) -> Partitions:
        """What `on_assigned` named last, less what was taken away since."""
        return self._assignment

    @property
    def generation_id(self) -> int:
        """-1 outside of a generation."""
        with self._changed:
            return self._membership.generation_id

    @property
    def member_id(self) -> str:
        """Empty before the coordinator gave one."""
        with self._changed:
            return self._membership.member_id

    @property
    def is_steady(self) -> bool:
        """In the group, its share known, and no rebalance that `poll` would have to serve."""
        with self._changed:
            return self._membership.is_steady and not self._told

    @property
    def needs_poll(self) -> bool:
        """Whether `poll` has a rebalance to serve or something to tell."""
        with self._changed:
            return not self._told.is_held_up and (bool(self._told) or self._membership.needs_poll)

    @property
    def rejoins_next(self) -> bool:
        """Whether the next `poll` begins a cooperative rebalance: from then on, until it is over, nothing can be
        committed.
        """
        with self._changed:
            return not self._told and self._membership.rejoins_next

    # -- polling

    def poll(self, timeout_s: float = 0.0) -> bool:
        """Serve what the group asks of this member, and wait until it has its share: at most `timeout_s`, not at all
        once it is steady. Says whether it is.

        Raises `GroupRefused` or `Fenced` where the coordinator does not admit it, `AuthenticationFailed` where a server
        does not let us in, and `CannotConnect` when no node was ever reached in the time given (`request_timeout_ms` in
        all, for polls that do not wait).
        """
        with self._entered():
            deadline = time.monotonic() + timeout_s
            self._polled_first_s = self._polled_first_s or time.monotonic()
            while True:
                self._errands.raise_refusal()
                self._serve()
                self._background.feed(self._driven, Polled())
                self._serve()
                with self._changed:
                    if self.is_steady:
                        return True
                    left_s = deadline - time.monotonic()
                    if left_s <= 0:
                        self._complain_if_nobody_is_there(timeout_s)
                        return False
                    if not self.needs_poll:
                        self._changed.wait(left_s)
                self._errands.raise_wakeup()

    def wakeup(self) -> None:
        """Interrupt whatever this member waits for, or waits for next: it raises `WokenUp`. From any thread."""
        self._errands.wake()

    def subscribe(self, topics: Iterable[str]) -> None:
        """Other topics from now on; the next `poll` serves the rebalance that follows."""
        with self._entered():
            self._background.feed(self._driven, Subscribed(tuple(topics)))

    # -- offsets

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int]:
        """Store the next offset to read of each partition, and say which were stored: those of partitions this member
        does not hold are left out, because the coordinator would take them from anybody.

        Raises `CommitRefused` (nothing was stored) and `RequestTimedOut` (unknown). ValueError for a negative offset.
        """
        wanted = to_commit(offsets)
        with self._entered():
            errand = self._errands.number()
            self._background.feed(self._driven, CommitAsked(errand, wanted, _now_ms() + int(timeout_s * 1000)))
            ended = self._errands.wait_for(errand, CommitDone, timeout_s)
        return stored(ended, self._explained(f"the commit was not answered within {timeout_s:g} s"))

    def commit_later(
        self, offsets: Mapping[TopicPartition, int], callback: Callable[[Done], None] = lambda _done: None
    ) -> int:
        """Send a commit once and do not wait; `callback` is called from a later `poll`, `commit` or `close`, in the
        order in which commits ended. Its number. Raises ValueError for a negative offset.
        """
        wanted = to_commit(offsets)
        with self._entered():
            deadline_ms = _now_ms() + int(self._request_timeout_s * 1000)
            errand = self._errands.number_later(callback)
            self._background.feed(self._driven, CommitAsked(errand, wanted, deadline_ms, once=True))
        return errand

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 60.0
    ) -> dict[TopicPartition, int | None]:
        """The group's offsets; None where there is none. Needs no membership. Raises `Refused`, `RequestTimedOut`,
        `CannotConnect`.
        """
        with self._entered():
            errand = self._errands.number()
            asked = OffsetsAsked(errand, tuple(partitions), _now_ms() + int(timeout_s * 1000))
            self._background.feed(self._driven, asked)
            done = self._errands.wait_for(errand, OffsetsDone, timeout_s)
        unreached = None if self._background.has_ever_connected else self._background.last_failure
        return found(done, self._explained(f"no committed offsets came within {timeout_s:g} s"), unreached)

    def end_offsets(self, partitions: Iterable[TopicPartition], timeout_s: float = 30.0) -> dict[TopicPartition, int]:
        """The offset the next record of each partition will have. From any thread. Raises `Refused` for what does not
        exist, `CannotConnect`, `RequestTimedOut`.
        """
        return dict(self._cluster.offsets(partitions, LATEST, timeout_s))

    def begin_offsets(self, partitions: Iterable[TopicPartition], timeout_s: float = 30.0) -> dict[TopicPartition, int]:
        """The first offset each partition still has. Raises as `end_offsets` does."""
        return dict(self._cluster.offsets(partitions, EARLIEST, timeout_s))

    # -- leaving

    def close(self, timeout_s: float = 30.0) -> None:
        """Let go (`on_revoked` is called), leave the group, end the thread. A member with a `group_instance_id` does
        not leave: its place is kept for its return until the session times out. Closing twice is fine.
        """
        if self._one_user.is_closed:
            self._cluster.close()
            return
        with self._entered():
            self._errands.sleep_through()
            deadline = time.monotonic() + timeout_s
            self._background.feed(self._driven, Closing())
            failure: Exception | None = None
            while True:
                try:
                    self._serve()
                except GroupRefused:
                    continue  # it is leaving anyhow
                except Exception as error:  # noqa: BLE001  (the application's own; raised below, once everything is closed)
                    failure = failure or error
                with self._changed:
                    left_s = deadline - time.monotonic()
                    if left_s <= 0:
                        self._told.hurry()
                    is_idle = not self._told or self._told.is_held_up
                    if is_idle and (self._membership.is_closed or left_s <= 0 or self._errands.has_failed):
                        break
                    if is_idle:
                        self._changed.wait(left_s)
            self._errands.run_callbacks()
            self._one_user.is_closed = True
            self._background.stop()
            self._cluster.close()
            if failure is not None:
                raise failure
            self._background.refusals.raise_failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- for what is built on a member

    def drive(self, core: Core, tell: Callable[[Effect], None]) -> Driven:
        """Have this member's thread drive another core beside it."""
        driven = Driven(core, tell)
        self._background.add(driven)
        return driven

    @property
    def background(self) -> Background:
        return self._background

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the others wait for this member in a rebalance."""
        return self._rebalance_timeout_ms

    @property
    def errands(self) -> Errands:
        return self._errands

    def tell(self, event: MemberEvent) -> None:
        """Let the core know what the application wants."""
        self._background.feed(self._driven, event)

    def before_revoking(self, prepare: Callable[[Partitions], int | None]) -> None:
        """Have `prepare` called before partitions are revoked; `on_revoked` waits until the errand has ended whose
        number it gives, if it gives one: a commit.
        """
        self._before_revoking = prepare

    def _serve(self) -> None:
        """Tell the application what there is to tell, without the lock: it may take long, heartbeats go on."""
        while True:
            with self._changed:
                effect = self._told.next(self._before_revoking)
            match effect:
                case None:
                    return
                case Revoked(partitions):
                    self._take_away(self._on_revoked, partitions)
                case Lost(partitions):
                    self._take_away(self._on_lost, partitions)
                case Assigned(partitions, _generation, added):
                    self._assignment = partitions
                    if self._on_assigned is not None:
                        self._tell_again_if_woken(effect, self._on_assigned, added)

    def _tell_again_if_woken(self, effect: Effect, listener: Listener, partitions: Partitions) -> None:
        try:
            listener(partitions)
        except WokenUp:
            with self._changed:
                self._told.add_again(effect)
            raise

    def _take_away(self, listener: Listener | None, partitions: Partitions) -> None:
        try:
            if listener is not None:
                listener(partitions)
        finally:
            self._assignment = without(self._assignment, partitions)
            self._background.feed(self._driven, Released())

    def _take(self, effect: Effect) -> None:
        """In the thread, under the lock."""
        if isinstance(effect, CommitDone | OffsetsDone):
            self._errands.ended(effect)
        elif not isinstance(effect, Closed):
            self._told.add(effect)

    def _explained(self, sentence: str) -> str:
        return f"{sentence}; {self._background.last_failure}" if self._background.last_failure else sentence

    def _complain_if_nobody_is_there(self, timeout_s: float) -> None:
        trouble = self._background.trouble
        if self._background.has_ever_connected or not trouble:
            return
        assert self._polled_first_s is not None
        if timeout_s > 0 or time.monotonic() - self._polled_first_s > self._request_timeout_s:
            raise self._background.refusals.error(trouble)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
