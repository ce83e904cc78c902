"""The client's side of a membership: rebalances are served, and listeners called, in `poll` and `close`."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from membership.events import (
    Assigned,
    Closed,
    Closing,
    CommitAsked,
    CommitDone,
    LostPartitions,
    MemberEffect,
    MemberEvent,
    OffsetsAsked,
    OffsetsDone,
    OffsetToCommit,
    Polled,
    Released,
    Revoked,
)
from membership.member import MemberOptions, MemberSettings, assignor_names
from membership.server_driven import make_membership
from membership.topic_partition import TopicPartition
from muster.client.operations import Operations
from muster.client.steps import FINISH_SHIELDED, Procedure, Shield, Wait, call_application
from muster.core.completions import Completion, Partitions, RebalanceQueue, found, stored, to_commit, without
from muster.core.metrics.consumer import ConsumerMetrics
from muster.core.metrics.measured import MeasuredCore
from muster.errors import GroupRefused, WokenUp
from muster.net.cores import Driven, DrivenCore
from muster.net.driver import Driver

DEFAULT_ASSIGNORS = ("range", "cooperative-sticky")
Listener = Callable[[Partitions], object]

ListenerProcedure = Callable[[Partitions], Procedure[None]]


class RebalanceCallbacks(NamedTuple):
    """Callbacks for rebalances. `prepare` is called before a revocation, which waits for the operation whose number it
    returns, if any; `rejoin` before a cooperative rebalance, during which no commit is possible.
    """

    assigned: ListenerProcedure
    revoked: ListenerProcedure
    lost: ListenerProcedure
    prepare: Callable[[Partitions], int | None] = lambda _partitions: None
    rejoin: Callable[[], None] = lambda: None


def listeners(
    on_assigned: Listener | None = None, on_revoked: Listener | None = None, on_lost: Listener | None = None
) -> RebalanceCallbacks:
    """Return the listeners of an application; without `on_lost`, `on_revoked` is called instead."""
    return RebalanceCallbacks(
        partial(call_application, on_assigned),
        partial(call_application, on_revoked),
        partial(call_application, on_lost or on_revoked),
    )


def member_settings_of(group_id: str, rack_id: str | None, options: MemberOptions) -> MemberSettings:
    """Return the settings for the core. Raises ValueError for invalid settings."""
    assignors = options["assignors"] = assignor_names(options.get("assignors", DEFAULT_ASSIGNORS))
    protocol = options.get("group_protocol", "classic")
    if assignors != DEFAULT_ASSIGNORS and protocol == "consumer":
        raise ValueError("assignors are of the classic protocol; with group_protocol='consumer' set server_assignor")
    if assignors != DEFAULT_ASSIGNORS and protocol == "auto":
        options["group_protocol"] = "classic"
    return MemberSettings(group_id=group_id, rack_id=rack_id, **options)  # type: ignore[arg-type]


class MemberProcedures:
    """The procedures of a group's member. Its callers hold the guard of its core."""

    def __init__(
        self,
        driver: Driver[Any],
        settings: MemberSettings,
        topics: Iterable[str],
        audience: RebalanceCallbacks,
        metrics: ConsumerMetrics | None = None,
    ) -> None:
        self.settings = settings
        self.membership = make_membership(settings, topics, driver.jitter)
        self.operations = Operations(driver.changed.notify_all, driver.refusals)
        self.assignment: Partitions = ()
        """Partitions in the last `on_assigned`, without those revoked or lost since."""
        self._driver = driver
        core: DrivenCore = self.membership if metrics is None else MeasuredCore(self.membership, metrics)
        self._driven = Driven(core, self._take)
        driver.add(self._driven)
        self._audience = audience
        self._rebalances = RebalanceQueue(self.operations)
        self._served_first_s: float | None = None

    @property
    def is_steady(self) -> bool:
        """True if it is in the group with its assignment, and a poll would have nothing to serve."""
        return self.membership.is_steady and not self._rebalances

    @property
    def needs_poll(self) -> bool:
        """True if a poll has a rebalance to serve, or something to report."""
        return not self._rebalances.is_held_up and (bool(self._rebalances) or self.membership.needs_poll)

    def feed(self, event: MemberEvent) -> None:
        """Pass an event of the application to the core."""
        self._driver.feed(self._driven, event)

    # -- polling

    def poll(self, timeout_s: float, check_open: Callable[[], None]) -> Procedure[bool]:
        """Serve the group until this member is steady, for at most `timeout_s`; return whether it is."""
        deadline = self._driver.time() + timeout_s
        while True:
            check_open()
            self.operations.raise_wakeup()
            yield from self.operations.run_callbacks()
            yield from self.serve()
            if self.is_steady:
                return True
            left_s = deadline - self._driver.time()
            if left_s <= 0:
                if timeout_s > 0:
                    self.complain_if_nobody_is_there()
                return False
            if not self.needs_poll:
                yield Wait(left_s)

    def serve(self) -> Procedure[None]:
        """Serve the group once. Raises GroupRefused, Fenced; and CannotConnect when no node was ever reached in
        `request_timeout_ms`.
        """
        self._served_first_s = self._served_first_s or self._driver.time()
        yield from self._run_listeners()
        if self.membership.rejoins_next and not self._rebalances:
            self._audience.rejoin()
        self.feed(Polled())
        yield from self._run_listeners()
        is_late = (self._driver.time() - self._served_first_s) * 1000 > self.settings.request_timeout_ms
        if is_late and not self.is_steady:
            self.complain_if_nobody_is_there()

    def complain_if_nobody_is_there(self) -> None:
        """Raise CannotConnect if no node was ever reached in time, or AuthenticationFailed."""
        if not self._driver.has_ever_connected and (trouble := self._driver.trouble):
            raise self._driver.refusals.error(trouble)

    # -- offsets

    def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit], timeout_s: float
    ) -> Procedure[dict[TopicPartition, int]]:
        wanted = to_commit(offsets)
        number = self.operations.number()
        self.feed(CommitAsked(number, wanted, self._deadline_ms(timeout_s)))
        ended = yield from self.operations.wait_for(number, CommitDone, timeout_s)
        return stored(ended, self._explained(f"the commit was not answered within {timeout_s:g} s"))

    def commit_later(self, offsets: Mapping[TopicPartition, int], completion: Completion) -> int:
        wanted = to_commit(offsets)
        number = self.operations.number_with_callback(completion)
        deadline_ms = self._deadline_ms(self.settings.request_timeout_ms / 1000)
        self.feed(CommitAsked(number, wanted, deadline_ms, once=True))
        return number

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> Procedure[dict[TopicPartition, int | None]]:
        number = self.operations.number()
        self.feed(OffsetsAsked(number, tuple(partitions), self._deadline_ms(timeout_s)))
        done = yield from self.operations.wait_for(number, OffsetsDone, timeout_s)
        unreached = None if self._driver.has_ever_connected else self._driver.last_failure
        return found(done, self._explained(f"no committed offsets came within {timeout_s:g} s"), unreached)

    # -- leaving

    def close(self, timeout_s: float) -> Procedure[None]:
        """Release partitions, and leave the group. Exceptions of listeners are raised at the end."""
        deadline = self._driver.time() + timeout_s
        self.feed(Closing())
        failure: Exception | None = None
        while True:
            try:
                yield from self.operations.run_callbacks()
                yield from self._run_listeners()
            except GroupRefused:
                continue  # the member is leaving in any case
            except Exception as error:  # noqa: BLE001  (the application's own; raised below, once everything is closed)
                failure = failure or error
            left_s = deadline - self._driver.time()
            if left_s <= 0:
                self._rebalances.hurry()
            is_idle = not self._rebalances or self._rebalances.is_held_up
            if is_idle and (self.membership.is_closed or left_s <= 0 or self.operations.has_failed):
                break
            if is_idle:
                yield Wait(left_s)
        yield from self.operations.run_callbacks()
        if failure is not None:
            raise failure
        self._driver.refusals.raise_failure()

    # -- listeners

    def _run_listeners(self) -> Procedure[None]:
        yield FINISH_SHIELDED
        while (effect := self._rebalances.next(self._audience.prepare)) is not None:
            yield Shield(self._run_listener(effect))

    def _run_listener(self, effect: Revoked | LostPartitions | Assigned) -> Procedure[None]:
        match effect:
            case Revoked(partitions):
                yield from self._take_away(self._audience.revoked, partitions)
            case LostPartitions(partitions):
                yield from self._take_away(self._audience.lost, partitions)
            case Assigned(partitions, _generation, added):
                self.assignment = partitions
                try:
                    yield from self._audience.assigned(added)
                except WokenUp:
                    self._rebalances.add_again(effect)
                    raise

    def _take_away(self, notify: ListenerProcedure, partitions: Partitions) -> Procedure[None]:
        try:
            yield from notify(partitions)
        finally:
            self.assignment = without(self.assignment, partitions)
            self.feed(Released())

    def _take(self, effect: MemberEffect) -> None:
        if isinstance(effect, CommitDone | OffsetsDone):
            self.operations.ended(effect)
        elif not isinstance(effect, Closed):
            self._rebalances.add(effect)

    def _deadline_ms(self, timeout_s: float) -> int:
        return self._driver.now_ms() + int(timeout_s * 1000)

    def _explained(self, sentence: str) -> str:
        return f"{sentence}; {self._driver.last_failure}" if self._driver.last_failure else sentence
