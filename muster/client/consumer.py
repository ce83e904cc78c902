"""The consumer's procedures: subscribe, poll, commit, close."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Unpack

from membership.events import (
    CommitAsked,
    OffsetsAsked,
    OffsetsDone,
    OffsetToCommit,
)
from membership.member import MemberOptions
from membership.topic_partition import TopicPartition
from muster.client.interceptors import ConsumerInterceptor, ConsumerInterceptors
from muster.client.member import ListenerProcedure, MemberProcedures, RebalanceCallbacks, member_settings_of
from muster.client.steps import LET_OTHERS_RUN, Procedure, Step, Wait
from muster.client.subscribing import SubscriptionProcedures
from muster.core.completions import Done
from muster.core.consumer_state import (
    ConsumerState,
    Partitions,
    SubscriptionKind,
    read_settings,
)
from muster.core.fetching.records import ConsumerRecord
from muster.core.fetching.settings import Deserializer
from muster.errors import CannotConnect, MusterError, Refused, RequestTimedOut
from muster.net.bootstrap import parse_bootstrap
from muster.net.security import SecurityLike

_OFFSETS_TIMEOUT_MS = 30_000


class ConsumerProcedures(SubscriptionProcedures):
    """The procedures that consumers of both edges share: everything except waiting."""

    _runner_of: ClassVar[type[Any]]
    """The runner of the edge."""

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
        interceptors: Sequence[ConsumerInterceptor] = (),
        **member_settings: Unpack[MemberOptions],
    ) -> None:
        """`auto_offset_reset` is the start position without a committed offset: "latest", "earliest", or "none" (an
        error). `isolation_level` "read_committed" hides records of transactions that are not committed. Without
        `group_id` only `assign` works, and no commit. The constructor opens no connection; it raises ValueError for
        settings that cannot work.
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
        chain = ConsumerInterceptors(interceptors)
        where = parse_bootstrap(bootstrap, dialect, security, broker_security)
        runner = self._runner_of(where, client_id, "consumer")
        consuming = ConsumerState(fetch, commits, runner.driver.jitter)
        membership: MemberProcedures | None = None
        if group_id is not None:
            settings = member_settings_of(group_id, rack_id, member_settings)
            audience = RebalanceCallbacks(
                self._assigned, self._revoked, self._lost, self._before_revoking, self._before_rejoining
            )
            membership = MemberProcedures(runner.driver, settings, (), audience, consuming.metrics)
        super().__init__(runner, consuming, membership, chain)

    @property
    def driver(self) -> Any:
        """The consumer's driver, for clients built on a consumer."""
        return self._driver

    def wakeup(self) -> None:
        """Interrupt a `poll` or a `commit` that waits, or the next one: it raises `WokenUp`. May be called from any
        thread."""
        with self._runner.locked():
            self._operations.wake()

    # -- reading

    def _poll(self, timeout_s: float, records: list[ConsumerRecord]) -> Procedure[None]:
        """Move readable records into `records`; the caller gives back those that the application does not get."""
        yield from self._read(timeout_s)
        self._consuming.hand_out(records)

    def _read(self, timeout_s: float) -> Procedure[None]:
        """Wait until there are unread records, for at most `timeout_s`."""
        self._consuming.give_back()
        if self._consuming.kind is SubscriptionKind.NOTHING:
            raise MusterError("nothing is subscribed to yet: call subscribe or assign first")
        deadline = self._driver.time() + timeout_s
        yield LET_OTHERS_RUN
        while True:
            self._runner.check_open()
            yield from self._serve()
            # From here on nothing is awaited if there are records, since a caller that was cancelled would not get
            # them.
            is_done = self._consuming.take(self._max_poll_records) or self._consuming.fetcher.made_progress
            # Returned records free space in the buffer, so the next fetch runs while the application works.
            self._look()
            left_s = deadline - self._driver.time()
            if is_done or left_s <= 0:
                break
            yield self._wait(left_s)
        if self._consuming.unread and self._interceptors:
            yield from self._interceptors.on_consume(self._consuming)
        elif not self._consuming.unread and timeout_s > 0:
            self._complain_if_nobody_is_there()

    def _position(self, partition: TopicPartition, timeout_s: float) -> Procedure[int]:
        deadline = self._driver.time() + timeout_s
        while (at := self._consuming.position(partition)) is None:
            self._runner.check_open()
            yield from self._serve()
            self._look()
            left_s = deadline - self._driver.time()
            if left_s <= 0:
                raise RequestTimedOut(f"the position of {partition} is not known after {timeout_s:g} s")
            if self._consuming.subscription.position(partition) is None:
                yield Wait(min(left_s, 0.1))
        return at

    def _serve(self) -> Procedure[None]:
        """Serve once: the group, callbacks, start positions, and due commits (docs/spec/consumer-client.md#A7, #B1)."""
        consuming, group = self._consuming, self._membership
        self._operations.raise_wakeup()
        if group is not None:
            yield from self._run_callbacks()
            if consuming.kind is not SubscriptionKind.BY_HAND:
                yield from group.serve()
            asked = consuming.ask_for()
            if asked:
                number = group.operations.number_with_receiver(self._on_offsets)
                group.feed(OffsetsAsked(number, asked, self._driver.now_ms() + _OFFSETS_TIMEOUT_MS))
        consuming.begin(has_group=group is not None)
        self._commit_if_due()

    def _on_offsets(self, done: Done) -> None:
        assert isinstance(done, OffsetsDone)
        self._consuming.on_offsets(done)

    def _wait(self, left_s: float) -> Step:
        """Return a wait for the next event or deadline."""
        if self._consuming.fetcher.has_something or self._has_news:
            return LET_OTHERS_RUN
        return Wait(min(left_s, self._consuming.patience_s(self._driver.now_ms())))

    @property
    def _has_news(self) -> bool:
        group, operations = self._membership, self._operations
        is_asked = group is not None and self._consuming.kind is not SubscriptionKind.BY_HAND and group.needs_poll
        return self._runner.is_closing or is_asked or operations.is_woken or operations.has_callbacks

    def _complain_if_nobody_is_there(self) -> None:
        if not self._driver.has_ever_connected and (trouble := self._driver.trouble):
            raise self._driver.refusals.error(trouble)

    # -- close

    def _close(self, timeout_s: float) -> Procedure[None]:
        try:
            yield from self._leave(timeout_s)
        except GeneratorExit:
            raise
        except BaseException:
            yield from self._interceptors.close()
            raise
        yield from self._interceptors.close()

    def _leave(self, timeout_s: float) -> Procedure[None]:
        deadline, group = self._driver.time() + timeout_s, self._membership
        self._consuming.give_back()
        failure: BaseException | None = None
        if group is not None:
            try:
                group.operations.sleep_through()
                yield from self._commit_by_hand(group, deadline)
                yield from group.operations.finish_later_ones(deadline - self._driver.time())
            except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001  (raised below, once all is closed)
                failure = error
        self._driver.carry_out(self._driven, self._consuming.fetcher.close)
        if group is not None:
            yield from group.close(max(deadline - self._driver.time(), 0.001))
        if failure is not None:
            raise failure

    def _commit_by_hand(self, group: MemberProcedures, deadline: float) -> Procedure[None]:
        """Make the last automatic commit for partitions chosen by hand, which no revocation commits."""
        positions = self._consuming.positions() if self._consuming.commits_itself else {}
        if self._consuming.kind is SubscriptionKind.BY_HAND and positions:
            # Uncommitted records are read again, as at-least-once delivery allows.
            with suppress(Refused, RequestTimedOut, CannotConnect):
                yield from group.commit(positions, max(deadline - self._driver.time(), 0.0))

    # -- rebalances, in poll and close

    def _before_revoking(self, partitions: Partitions) -> int | None:
        if self._is_letting_go:
            return None
        offsets = self._consuming.last_commit(partitions)
        if not offsets:
            return None
        number = self._group.operations.number()
        wanted = {one: OffsetToCommit(at) for one, at in offsets.items()}
        self._group.feed(CommitAsked(number, wanted, self._driver.now_ms() + self._group.settings.max_poll_interval_ms))
        return number

    def _before_rejoining(self) -> None:
        self._commit_if_due(at_once=True)

    def _assigned(self, added: Partitions) -> Procedure[None]:
        self._consuming.assigned(self._group.assignment, self._driver.now_ms())
        try:
            yield from self._listeners.assigned(added)
        finally:
            self._consuming.subscription.callback_returned()

    def _revoked(self, partitions: Partitions) -> Procedure[None]:
        yield from self._take_away(self._listeners.revoked, partitions)

    def _lost(self, partitions: Partitions) -> Procedure[None]:
        yield from self._take_away(self._listeners.lost, partitions)

    def _take_away(self, notify: ListenerProcedure, partitions: Partitions) -> Procedure[None]:
        self._consuming.subscription.mark_pending_revocation(partitions)
        try:
            yield from notify(partitions)
        finally:
            self._consuming.take_away(partitions)
