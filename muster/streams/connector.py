"""The queues-and-streams connector (docs/spec/consumer-client.md#D1): N streams for each topic, each for one thread."""

import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

from membership.core import Membership
from membership.events import CommitDone, MemberEffect, MemberEvent, SubscribedToPattern, TimePassed
from membership.topic_partition import TopicPartition
from muster.blocking.callbacks import Callbacks
from muster.core.completions import stored, to_commit
from muster.core.fetching.settings import Deserializer
from muster.errors import AuthenticationFailed, ClientClosed, MusterError, StreamsExist
from muster.net.bootstrap import parse_bootstrap
from muster.net.cores import Driven
from muster.net.dialects import ClientDialect
from muster.net.security import SecurityLike
from muster.net.thread import ThreadDriver
from muster.streams.assignment import Shares
from muster.streams.events import (
    Begin,
    CallBeforeReleasing,
    CallBeforeStarting,
    CommitEnded,
    CommitWanted,
    FeedMember,
    FetchWanted,
    ListenerDone,
    Owned,
    Report,
    Shut,
    Started,
    StreamsEnded,
)
from muster.streams.group_protocol import StreamsProtocol
from muster.streams.holdings import Holdings
from muster.streams.queue import DeliveryLease, StreamQueue
from muster.streams.rebalance import RebalancePhase
from muster.streams.settings import StreamsSettings, check_counts, check_listener, excluding
from muster.streams.steps import Steps
from muster.streams.stream import MessageStream
from muster.streams.stream_fetcher import StreamFetcher

_LOG = logging.getLogger("muster.streams")
_LOOK_S = 1.0
_LISTENER_ENDS_WITHIN_S = 1.0
"""Time for the listener's thread to end, even if a shutdown without a coordinator has used up its own time."""

Name = str | None
"""The name of a topic; None for the streams that all matching topics share."""


@dataclass(slots=True, frozen=True)
class Parts:
    """The parts of a connector once the streams are made: three cores and their data."""

    membership: Membership
    fetcher: StreamFetcher
    holdings: Holdings
    steps: Steps
    member: Driven
    fetching: Driven
    rebalancing: Driven


class RebalanceListener(Protocol):
    """Called at rebalances, in a thread of its own; `owned` is {topic: {partition: thread}}. An exception does not stop
    the rebalance: it is passed to `on_error`, or raised by the call that makes the streams.
    """

    def before_releasing(self, owned: Owned) -> None:
        """Called before these partitions are released: no more messages are returned, and consumed ones are
        committed."""

    def before_starting(self, owned: Owned, everyone: Shares | None) -> None:
        """Called when this connector owns these partitions, before they are fetched. `everyone` has the partitions by
        member; only a leader knows it."""


class StreamsConnector:
    """Shares the partitions of topics with the other connectors of a group, and hands out their messages in streams:

        with StreamsConnector("127.0.0.1:9390", "billing") as connector:
            streams = connector.create_message_streams({"orders": 4})["orders"]

    Iterate each stream in a thread of its own. A partition belongs to one stream of the whole group at every instant:
    the coordinator's registry grants it, and nobody fetches without a grant. Settings are those of `StreamsSettings`.
    All methods may be called from any thread.
    """

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        *,
        on_error: Callable[[Exception], None] | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        client_id: str = "muster",
        security: SecurityLike | None = None,
        broker_security: SecurityLike | None = None,
        **settings: Any,
    ) -> None:
        """`on_error` is called, in the listener's thread, with errors that no call raises; without it they are logged.
        The constructor opens no connection. Raises ValueError for invalid settings; the registry needs the native
        protocol.
        """
        where = parse_bootstrap(bootstrap, None, security, broker_security)
        if where.dialect is not ClientDialect.NATIVE:
            raise ValueError(
                f"bootstrap is {bootstrap!r}: the ownership registry is not part of Kafka's protocol; "
                "HOST:PORT of musterd's native listener is wanted"
            )
        self._settings = StreamsSettings(**settings)
        self._settings.member(group_id)
        self._group_id = group_id
        self._on_error = on_error
        self._deserializers = key_deserializer, value_deserializer
        self._driver = ThreadDriver(where, client_id)
        self._driver.on_refusal = self._refused
        self._changed = self._driver.changed
        self._callbacks = Callbacks(self._changed)
        self._listener: RebalanceListener | None = None
        self._parts: Parts | None = None
        self._streams: list[MessageStream] = []
        self._started: Started | None = None
        self._is_shut = self._has_ended = self._calls_nobody = False
        self._commits: dict[int, CommitEnded | None] = {}
        self._commits_asked = 0

    # -- public methods

    def set_rebalance_listener(self, listener: RebalanceListener) -> None:
        """Set the listener, before the streams are made. Raises StreamsExist; TypeError for an invalid listener."""
        check_listener(listener)
        with self._changed.lock:
            self._must_be_new()
            self._listener = listener

    def create_message_streams(self, counts: Mapping[str, int]) -> dict[str, list[MessageStream]]:
        """Make this number of streams for each topic, and return them after the group's first assignment; once for each
        connector. Raises StreamsExist; RebalanceFailed, GroupRefused, CannotConnect, AuthenticationFailed; exceptions
        of the listener; ValueError.
        """
        check_counts(counts)
        kind = StreamsProtocol(self._settings.partition_assignment_strategy, dict(counts))
        with self._changed.lock:
            streams = self._make(kind, tuple(counts), counts.items())
            self._begin()
        return {topic: streams[topic] for topic in counts}

    def create_message_streams_by_filter(
        self, pattern: str, count: int = 1, *, is_excluding: bool = False, exclude_internal_topics: bool = True
    ) -> list[MessageStream]:
        """Make streams that share all topics whose whole name matches, or does not if `is_excluding`, including future
        topics. Raises as `create_message_streams`.
        """
        check_counts({pattern: count})
        wanted = excluding(pattern) if is_excluding else re.compile(pattern).pattern
        kind = StreamsProtocol(self._settings.partition_assignment_strategy, pattern=wanted, count=count)
        with self._changed.lock:
            streams = self._make(kind, (), ((None, count),))
            self._feed_member(SubscribedToPattern(wanted, not exclude_internal_topics))
            self._begin()
        return streams[None]

    def commit_offsets(self, *, retry: bool = True, timeout_s: float = 60.0) -> dict[TopicPartition, int]:
        """Commit the consumed offsets of all owned partitions, in up to `offsets_commit_max_retries` attempts, or one
        without `retry`. The last message of the calling thread counts as consumed. Raises CommitRefused,
        RequestTimedOut.
        """
        with self._changed.lock:
            if self._parts is None or self._is_shut:
                return {}
            self._finish_here()
            self._commits_asked += 1
            number = self._commits_asked
            self._commits[number] = None
            tries = self._settings.offsets_commit_max_retries if retry else 1
            self._feed_steps(CommitWanted(number, tries))
            refusals = self._driver.refusals
            self._changed.wait_for(
                lambda: self._commits[number] is not None or self._has_ended or refusals.has_failed, timeout_s
            )
            ended = self._commits.pop(number)
            refusals.raise_failure()
        return stored(
            None if ended is None else CommitDone(number, ended.error_code, to_commit(ended.offsets), ended.reason),
            f"the commit was not answered within {timeout_s:g} s",
        )

    def shutdown(self, timeout_s: float = 30.0) -> None:
        """Stop fetching, end the streams, commit if commits are automatic, release the partitions, leave the group. The
        last message of the calling thread counts as consumed; other threads get a short time to finish theirs. May be
        called more than once.
        """
        with self._changed.lock:
            if not self._is_shut:
                self._finish_here()
        self._shut_down(timeout_s)

    def _shut_down(self, timeout_s: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_s
        refusals = self._driver.refusals
        with self._changed.lock:
            if self._is_shut:
                return
            self._is_shut = True
            if self._parts is not None and not refusals.has_failed:
                self._feed_steps(Shut())
                self._changed.wait_for(lambda: self._has_ended or refusals.has_failed, timeout_s)
            if self._parts is not None:
                self._parts.holdings.end()
            if self._parts is not None and not refusals.has_failed:
                self._driver.carry_out(self._parts.fetching, self._parts.fetcher.close)
            self._has_ended = True
            self._changed.notify_all()
        self._calls_nobody = True
        self._callbacks.stop(max(deadline - time.monotonic(), _LISTENER_ENDS_WITHIN_S))
        self._driver.stop()
        refusals.raise_failure()

    @property
    def owned(self) -> Owned:
        """Partitions that this connector reads at present: {topic: {partition: thread}}."""
        with self._changed.lock:
            return {} if self._parts is None else self._parts.holdings.owned()

    @property
    def member_id(self) -> str:
        """Member id; empty before the coordinator has assigned one."""
        with self._changed.lock:
            return "" if self._parts is None else self._parts.membership.member_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Shut down; after an error, the message in hand does not count as consumed, and is read again."""
        if error is None:
            self.shutdown()
        else:
            self._shut_down()

    # -- creation

    def _must_be_new(self) -> None:
        if self._is_shut:
            raise ClientClosed("this connector was shut down")
        if self._parts is not None:
            raise StreamsExist(
                "this connector has made its streams: the listener comes before, and other streams need another one"
            )

    def _make(
        self, kind: StreamsProtocol, topics: Iterable[str], counts: Iterable[tuple[Name, int]]
    ) -> dict[Name, list[MessageStream]]:
        self._must_be_new()
        membership = Membership(self._settings.member(self._group_id), topics, random.random, kind)
        lease = DeliveryLease(lambda: membership.lease_from_ms, self._settings.session_timeout_ms)
        queues = {name: tuple(self._queue(lease) for _ in range(count)) for name, count in counts}
        fetcher = StreamFetcher(self._settings.fetch(), lease, random.random)
        holdings = Holdings(self._group_id, lease, fetcher, queues)
        steps = Steps(membership, kind, holdings, self._settings, has_listener=self._listener is not None)
        self._parts = Parts(
            membership,
            fetcher,
            holdings,
            steps,
            Driven(membership, steps.note),
            Driven(fetcher, steps.note),
            Driven(steps, self._carry_out),
        )
        for driven in (self._parts.member, self._parts.fetching, self._parts.rebalancing):
            self._driver.add(driven)
        return {name: [self._stream(one) for one in ones] for name, ones in queues.items()}

    def _queue(self, lease: DeliveryLease) -> StreamQueue:
        is_at_once = self._settings.consumed_on == "return"
        return StreamQueue(
            lease, self._settings.queued_max_message_chunks, consumed_on_return=is_at_once, report=self._report
        )

    def _stream(self, queue: StreamQueue) -> MessageStream:
        condition, timeout_ms = self._driver.condition(), self._settings.consumer_timeout_ms
        stream = MessageStream(queue, condition, self._has_taken, timeout_ms, *self._deserializers)
        self._streams.append(stream)
        return stream

    def _begin(self) -> None:
        """Begin, and wait until the first rebalance is over; called with the lock."""
        self._feed_steps(Begin())
        unreached_at = time.monotonic() + self._settings.request_timeout_ms / 1000
        while self._started is None:
            self._changed.wait(_LOOK_S)
            self._driver.refusals.raise_last()
            if not self._driver.has_ever_connected and time.monotonic() >= unreached_at:
                raise self._driver.refusals.error(self._driver.last_failure)
        if self._started.error is not None:
            raise self._started.error

    # -- effects, under the lock, in any thread

    def _carry_out(self, effect: MemberEffect) -> None:
        match effect:
            case FeedMember():
                self._feed_member(effect.event)
            case FetchWanted():
                self._resume_fetching()
            case CallBeforeReleasing():
                self._call_listener(lambda listener: listener.before_releasing(effect.owned))
            case CallBeforeStarting():
                self._call_listener(lambda listener: listener.before_starting(effect.owned, effect.everyone))
            case Started():
                self._started = effect
            case Report():
                self._report(effect.error)
            case CommitEnded():
                if effect.number in self._commits:  # otherwise its caller no longer waits
                    self._commits[effect.number] = effect
            case StreamsEnded():
                self._has_ended = True

    def _feed_member(self, event: MemberEvent) -> None:
        assert self._parts is not None
        self._driver.feed(self._parts.member, event)

    def _feed_steps(self, event: MemberEvent) -> None:
        assert self._parts is not None
        if not self._has_ended:
            self._driver.feed(self._parts.rebalancing, event)

    def _resume_fetching(self) -> None:
        assert self._parts is not None
        if not self._has_ended:
            self._driver.feed(self._parts.fetching, TimePassed())

    def _has_taken(self, *, made_room: bool) -> None:
        """Note that a stream took a message: its queue may have space, and a rebalance may wait for that."""
        assert self._parts is not None
        if not self._is_shut:
            self._driver.refusals.raise_failure()
        if made_room:
            self._resume_fetching()
        if self._parts.steps.phase is RebalancePhase.FINISHING:
            self._feed_steps(TimePassed())

    def _finish_here(self) -> None:
        for stream in self._streams:
            stream.finish_here()

    # -- the application's callbacks

    def _call_listener(self, method: Callable[[RebalanceListener], None]) -> None:
        listener = self._listener
        assert listener is not None

        def call() -> None:
            error: Exception | None = None
            try:
                method(listener)
            except BaseException as raised:  # noqa: BLE001  (whatever the application's code raises, a sys.exit too)
                error = raised if isinstance(raised, Exception) else MusterError(f"the listener raised {raised!r}")
            with self._changed.lock:
                self._feed_steps(ListenerDone(error))

        self._call(call)

    def _refused(self, error: AuthenticationFailed) -> None:
        """Report a refusal, unless the call that makes the streams raises it."""
        if self._started is not None and not self._is_shut:
            self._report(error)

    def _report(self, error: Exception) -> None:
        self._call(partial(self._on_error or partial(_LOG.warning, "%s"), error))

    def _call(self, call: Callable[[], object]) -> None:
        if not self._calls_nobody:
            self._callbacks.put(call)
