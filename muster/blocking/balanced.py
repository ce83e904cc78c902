"""The consumer of client-balanced groups: the application chooses its partitions
(docs/spec/client-balanced-groups.md#5)."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from membership.events import MemberEffect, MemberEvent
from muster.blocking.identity import CLIENT_VERSION, new_consumer_id
from muster.core.balancing import BalancedConfig, BalancedMembership, OffsetInfo, Result
from muster.core.balancing.events import (
    ConfirmAsked,
    ConnectAsked,
    DescribeAsked,
    DisconnectAsked,
    Fetched,
    GaveUp,
    Handed,
    MessageAsked,
    MetaAsked,
    Noted,
    OperationEnded,
    PassedOver,
    ReadyAsked,
    ShutdownAsked,
    StartAsked,
)
from muster.core.balancing.records import ReadBatch, read
from muster.core.balancing.results import Code
from muster.core.fetching.settings import Deserializer, FetchSettings
from muster.errors import AuthenticationFailed, ClientFailed
from muster.net.bootstrap import parse_bootstrap
from muster.net.cores import Driven
from muster.net.dialects import ClientDialect
from muster.net.security import SecurityLike
from muster.net.thread import ThreadDriver

_LOOK_S = 1.0
_LOG = logging.getLogger("muster.balanced")


class ClientBalancedConsumer:
    """Reads the partitions that it is told to connect, of a group whose coordinator shares nothing out: it grants a
    partition to the first who asks, and frees it when its owner gives it up or is silent for a session.

    What can be refused comes back as a `Result`; only values of the wrong type raise, TypeError or ValueError. Any
    number of threads may use it at once: a partition is with one of them at a time, until its batch is confirmed.
    Heartbeats run in a thread of its own from `start` on. Making one connects to nothing.
    """

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        config: BalancedConfig | None = None,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        client_id: str = "muster",
        security: SecurityLike | None = None,
        broker_security: SecurityLike | None = None,
    ) -> None:
        """Raises ValueError for an empty `group_id`, and for Kafka's protocol: it has no such groups. Where a server
        does not let us in, what is asked fails with 415, and an `AuthenticationFailed` as its `data`.
        """
        where = parse_bootstrap(bootstrap, None, security, broker_security)
        if where.dialect is not ClientDialect.NATIVE:
            raise ValueError(
                f"bootstrap is {bootstrap!r}: Kafka's protocol has no client-balanced groups; "
                "HOST:PORT of musterd's native listener is wanted"
            )
        if not group_id.strip():
            raise ValueError("group_id is empty: a member needs the name of its group")
        self._config = config or BalancedConfig()
        self._consumer_id = new_consumer_id(group_id)
        self._core = BalancedMembership(group_id, self._consumer_id, self._config)
        self._settings = FetchSettings(key_deserializer=key_deserializer, value_deserializer=value_deserializer)
        self._driver = ThreadDriver(where, client_id)
        self._driven = Driven(self._core, self._on_effect)
        self._driver.add(self._driven)
        self._changed = self._driver.changed
        self._asked = 0
        self._ended: dict[int, Result] = {}
        self._is_given_up = self._is_ending = False

    # -- identity and settings

    def client_version(self) -> str:
        """TubeMQ: getClientVersion."""
        return CLIENT_VERSION

    def consumer_id(self) -> str:
        """Fixed for the life of this object. TubeMQ: getConsumerId."""
        return self._consumer_id

    def is_shutdown(self) -> bool:
        """Tell whether it is not running: before `start`, and from `shutdown` on. TubeMQ: isShutdown."""
        with self._changed.lock:
            return self._core.is_shutdown

    def is_filter_consume(self, topic: str) -> bool:
        """Tell whether it was started with filters for this topic. TubeMQ: isFilterConsume."""
        _expect(topic, str, "topic")
        with self._changed.lock:
            return bool(self._core.targets.get(topic.strip()))

    def config(self) -> BalancedConfig:
        """TubeMQ: getConsumerConfig."""
        return self._config

    def source_count(self) -> int | None:
        """The number of members there are to be; None before `start`, and where that is not checked. TubeMQ:
        getSourceCount.
        """
        with self._changed.lock:
            return self._core.source_count

    def node_id(self) -> int | None:
        """The number of this one among them. TubeMQ: getNodeId."""
        with self._changed.lock:
            return self._core.node_id

    # -- start and shutdown

    def start(
        self, targets: Mapping[str, Iterable[str] | None] | None, source_count: int = -1, node_id: int = -1
    ) -> Result:
        """Become a member that reads these topics, of each the records that one of its filters matches, or all. With a
        `source_count` of 1 or more this is node `node_id` of so many, which the coordinator checks. Nothing is
        delivered before a partition is connected. TubeMQ: start.
        """
        _check_targets(targets)
        _expect(source_count, int, "source_count")
        _expect(node_id, int, "node_id")
        return self._ask(lambda number: StartAsked(number, targets, source_count, node_id))

    def shutdown(self) -> None:
        """Give up every partition (what was not confirmed is delivered again, to others), leave, end the thread. It
        does not start again; shutting down twice is fine. TubeMQ: shutdown.
        """
        self._is_ending = True
        if not self._core.is_shutdown:
            self._ask(ShutdownAsked)
        if self._core.is_ended:
            self._driver.stop()
        elif self._asked:
            self._give_up()

    # -- partitions

    def partition_meta(self) -> Result:
        """Every configured partition of the topics, as `data`: a dict of keys, with whether each can be subscribed to.
        Asks the coordinator every `meta_check_period_ms` at most. What is owned and cannot be read any more is given up
        by itself. TubeMQ: getPartitionMetaInfo.
        """
        return self._ask(MetaAsked)

    def partitions_ready(self, max_wait_ms: int) -> bool:
        """Tell whether a partition is registered, or is in that time. TubeMQ: isPartitionsReady."""
        _expect(max_wait_ms, int, "max_wait_ms")
        return self._ask(lambda number: ReadyAsked(number, max_wait_ms)).ok

    def registered_partitions(self) -> list[str]:
        """The keys owned at this moment, sorted by topic and numbers. TubeMQ: getCurRegisteredPartSet."""
        with self._changed.lock:
            return self._core.registered

    def connect_partition(self, key: str, bootstrap_offset: int = -1) -> Result:
        """Own a partition, and begin at that offset, or with -1 where the group stands. Whoever owns it already keeps
        reading where it is. `data` is an `OffsetInfo`. TubeMQ: connect2Partition.
        """
        _expect(key, str, "key")
        _expect(bootstrap_offset, int, "bootstrap_offset")
        said = self._ask(lambda number: ConnectAsked(number, key, bootstrap_offset))
        return replace(said, data=_by_the_clock(said.data)) if said.ok else said

    def disconnect_partition(self, key: str) -> Result:
        """Give it up. A batch that is not confirmed is waited for, up to `confirm_wait_ms`, then it will be delivered
        again. TubeMQ: disconnectFromPartition.
        """
        _expect(key, str, "key")
        return self._ask(lambda number: DisconnectAsked(number, key))

    def partition_offsets(self) -> dict[str, OffsetInfo]:
        """Return where each owned partition is read, and where its log ends, as last heard. TubeMQ:
        getCurPartitionOffsetInfos.
        """
        with self._changed.lock:
            offsets = self._core.offsets
        return {key: _by_the_clock(info) for key, info in offsets.items()}

    # -- records

    def get_message(self) -> Result:
        """The next batch of the partition that has waited for longest, as `data`: a `Batch`. Codes 404 to 408 say that
        there is none at the moment: call again. Nothing more comes of that partition before `confirm_consume`. What
        cannot be read is a 500 whose `data` is the error. TubeMQ: getMessage.
        """
        said = self._ask(MessageAsked)
        while said.ok:
            fetched: Fetched = said.data
            found = self._read(fetched)
            if found.records:
                if self._hands_out(fetched, found):
                    return Result(True, data=found.batch(fetched))
            else:
                is_stuck = found.error is not None and found.next_offset <= fetched.position
                self._feed(PassedOver(fetched.key, fetched.token, found.next_offset, not is_stuck))
                if is_stuck:
                    past = f"to go on, disconnect {fetched.key} and connect it at {found.next_offset + 1}"
                    return Result(False, Code.INTERNAL, f"{found.error}; {past}", found.error)
            said = self._ask_on(fetched)
        return said

    def confirm_consume(self, confirm_ctx: str, consumed: bool = True) -> Result:
        """Say what became of a batch: the group's offset goes past it, or it will be delivered again. `data` is a
        `Confirm`. TubeMQ: confirmConsume.
        """
        _expect(confirm_ctx, str, "confirm_ctx")
        if not isinstance(consumed, bool):
            raise TypeError(f"consumed is {consumed!r}: True or False is wanted")
        return self._ask(lambda number: ConfirmAsked(number, confirm_ctx, consumed))

    # -- beyond TubeMQ's methods

    def describe_group(self) -> Result:
        """Ask what the coordinator says of the group, as `data`: a `BalancedGroupView` with members, partitions,
        their owners and lag.
        """
        return self._ask(DescribeAsked)

    def oldest_unconfirmed_ms(self) -> int | None:
        """For how long the application has had the batch that it has had for longest; None: it has none."""
        with self._changed.lock:
            taken_ms = self._core.oldest_unconfirmed_ms
        return None if taken_ms is None else time.monotonic_ns() // 1_000_000 - taken_ms

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self._give_up()
        self._driver.stop()

    # --

    def _give_up(self) -> None:
        """Give up a consumer that did not start, or whose thread failed: end the thread, and let operations fail at
        once."""
        with self._changed.lock:
            self._is_given_up = self._core.is_new or self._driver.refusals.has_failed
            self._changed.notify_all()
        if self._is_given_up:
            self._driver.stop()

    def _ask(self, make: Callable[[int], MemberEvent]) -> Result:
        """Start an operation and wait for its end, which the core guarantees. If the wait is interrupted, a later batch
        is given back."""
        with self._changed.lock:
            if self._is_given_up:
                return Result(False, Code.CLIENT_SHUTDOWN, "this consumer was shut down: make another one")
            self._asked += 1
            number = self._asked
            try:
                self._driver.feed(self._driven, make(number))
                while number not in self._ended:
                    self._changed.wait_for(lambda: number in self._ended or self._is_refused, _LOOK_S)
                    if number not in self._ended and self._is_refused:
                        self._driver.refusals.raise_last()
            except ClientFailed as failed:
                self._is_given_up = True
                return Result(False, Code.INTERNAL, str(failed), failed)
            except AuthenticationFailed as failed:
                self._driver.feed(self._driven, GaveUp(number))
                return Result(False, Code.CERTIFICATE, str(failed), failed)
            except BaseException:
                self._ended.pop(number, None)
                self._driver.feed(self._driven, GaveUp(number))
                raise
            return self._ended.pop(number)

    @property
    def _is_refused(self) -> bool:
        refusals = self._driver.refusals
        return refusals.has_failed or not (self._is_ending or refusals.is_clear)

    def _hands_out(self, fetched: Fetched, found: ReadBatch) -> bool:
        """Return whether the partition is still owned, after the time for decoding the records."""
        return self._ask(lambda number: Handed(number, fetched.key, fetched.token, found.next_offset)).ok

    def _ask_on(self, fetched: Fetched) -> Result:
        """Request the next batch in the remaining time."""
        return self._ask(lambda number: MessageAsked(number, fetched.deadline_ms, is_rest=True))

    def _feed(self, event: MemberEvent) -> None:
        self._driver.feed(self._driven, event)

    def _read(self, fetched: Fetched) -> ReadBatch:
        try:
            return read(fetched, self._settings)
        except BaseException:
            self._feed(PassedOver(fetched.key, fetched.token, fetched.position, consumed=False))
            raise

    def _on_effect(self, effect: MemberEffect) -> None:
        """Handle an effect, in any thread, under the lock."""
        if isinstance(effect, OperationEnded):
            self._ended[effect.operation] = effect.result
        elif isinstance(effect, Noted):
            said = ", ".join(f"{name}: {value}" for name, value in effect.fields.items())
            _LOG.warning("%s (%s)", effect.event, said)


def _by_the_clock(info: OffsetInfo) -> OffsetInfo:
    """Convert the core's monotonic time to wall time."""
    ahead_ms = (time.time_ns() - time.monotonic_ns()) // 1_000_000
    return replace(info, updated_ms=info.updated_ms + ahead_ms)


def _check_targets(targets: object) -> None:
    """Check that names and filters are texts; `start` checks their values."""
    if targets is None:
        return
    _expect(targets, Mapping, "targets")
    assert isinstance(targets, Mapping)
    for topic, filters in targets.items():
        _expect(topic, str, "a topic")
        if filters is None:
            continue
        if isinstance(filters, str) or not isinstance(filters, Iterable):
            raise TypeError(f"the filters of topic {topic} are {filters!r}: a set of texts is wanted, or None")
        for one in filters:
            _expect(one, str, f"a filter of topic {topic}")


def _expect(value: object, kind: type, name: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, of type {type(value).__name__}: {kind.__name__} is wanted")
