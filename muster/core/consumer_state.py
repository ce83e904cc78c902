"""The state of a consumer besides its membership and its fetcher, without I/O: start positions of partitions, times of
automatic commits (docs/spec/consumer-client.md#A8, #B5). Both edges use it.
"""

import enum
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from math import isnan, nan
from typing import Any

import msgspec

from membership.checks import check_number
from membership.events import OffsetsDone
from membership.member import MemberOptions
from membership.topic_partition import TopicPartition
from muster.core.fetching.fetcher import Fetcher
from muster.core.fetching.records import ConsumerRecord
from muster.core.fetching.settings import Deserializer, FetchSettings, Isolation, isolation
from muster.core.lookups import Lookups
from muster.core.metrics.consumer import ConsumerMetrics
from muster.core.positions import ConsumerPositions, OffsetReset
from muster.errors import Refused, WrongSubscription
from protocol.errors import ErrorCode

Partitions = tuple[TopicPartition, ...]

_LOOK_S = 1.0


class SubscriptionKind(enum.Enum):
    """Kinds of subscriptions (docs/spec/consumer-client.md#A9)."""

    NOTHING = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    BY_HAND = "partitions of its own choice"


class CommitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of commits, with the names and defaults of docs/spec/consumer-client.md#A1. Raises ValueError for
    invalid settings."""

    is_automatic: bool = True
    interval_ms: int = 5_000
    retry_backoff_ms: int = 100

    def __post_init__(self) -> None:
        check_number("auto_commit_interval_ms", self.interval_ms, 0)


def offset_reset(name: str) -> OffsetReset:
    """Parse the name of a reset policy. Raises ValueError with the valid names."""
    try:
        return OffsetReset(name)
    except ValueError:
        known = ", ".join(repr(one.value) for one in OffsetReset)
        raise ValueError(f"auto_offset_reset is {name!r}, it must be one of {known}") from None


_SHARED = ("request_timeout_ms", "retry_backoff_ms", "retry_backoff_max_ms", "metadata_max_age_ms")
"""Settings that the member and fetching share."""


def read_settings(
    *,
    is_member: bool,
    auto_offset_reset: str,
    enable_auto_commit: bool,
    auto_commit_interval_ms: int,
    max_poll_records: int,
    isolation_level: str,
    key_deserializer: Deserializer | None,
    value_deserializer: Deserializer | None,
    fetch_min_bytes: int,
    fetch_max_wait_ms: int,
    fetch_max_bytes: int,
    max_partition_fetch_bytes: int,
    rack_id: str | None,
    member_settings: Mapping[str, Any],
) -> tuple[FetchSettings, CommitSettings]:
    """Return the settings of a `Consumer` of either edge for the cores. Raises ValueError for invalid settings, and
    TypeError for an unknown setting.
    """
    for name in member_settings:
        if name not in MemberOptions.__annotations__:
            raise TypeError(f"a consumer has no setting {name!r}{_suggestion(name)}")
    for name, deserializer in (("key_deserializer", key_deserializer), ("value_deserializer", value_deserializer)):
        if deserializer is not None and not callable(deserializer):
            raise ValueError(f"{name} is {deserializer!r}, it must be a function that takes bytes")
    check_number("max_poll_records", max_poll_records, 1)
    fetch = FetchSettings(
        reset=offset_reset(auto_offset_reset),
        min_bytes=fetch_min_bytes,
        max_wait_ms=fetch_max_wait_ms,
        max_bytes=fetch_max_bytes,
        partition_max_bytes=max_partition_fetch_bytes,
        isolation=isolation(isolation_level),
        rack=rack_id or "",
        key_deserializer=key_deserializer,
        value_deserializer=value_deserializer,
        **{name: member_settings[name] for name in _SHARED if name in member_settings},
    )
    return fetch, CommitSettings(is_automatic=enable_auto_commit and is_member, interval_ms=auto_commit_interval_ms)


_ELSEWHERE = ("bootstrap", "group_id", "client_id", "dialect", "security", "broker_security")
_OF_NOBODY = {"is_member", "member_settings", "return"}


def _suggestion(name: str) -> str:
    known = {*_ELSEWHERE, *read_settings.__annotations__, *MemberOptions.__annotations__} - _OF_NOBODY
    near = get_close_matches(name, sorted(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


class ConsumerState:
    """The state between two polls."""

    def __init__(self, fetch: FetchSettings, commits: CommitSettings, jitter: Callable[[], float]) -> None:
        self.subscription = ConsumerPositions()
        self.fetcher = Fetcher(self.subscription, fetch, jitter)
        self.lookups = Lookups(fetch, jitter)
        self.kind = SubscriptionKind.NOTHING
        self.unread: deque[ConsumerRecord] = deque()
        """Records that were taken from the buffer but not returned yet; positions to commit do not include them."""
        self.metrics = ConsumerMetrics()
        self._taken = 0
        self._isolation = fetch.isolation
        self._commits = commits
        self._commit_at_ms = 0
        self._asked: frozenset[TopicPartition] = frozenset()
        self._found: dict[TopicPartition, int | None] = {}
        self._failure = ErrorCode.NONE

    def choose(self, kind: SubscriptionKind) -> None:
        """Set the kind of subscription. Raises WrongSubscription if another kind is set."""
        if self.kind not in {SubscriptionKind.NOTHING, kind}:
            raise WrongSubscription(f"this consumer reads {self.kind.value}: unsubscribe before it reads {kind.value}")
        self.kind = kind

    def assigned(self, partitions: Partitions, now_ms: int) -> None:
        """Read these partitions and no others; new ones are not fetched before the application's callback for them."""
        self.fetcher.assign(partitions, awaits_callback=True)
        self._commit_at_ms = now_ms + self._commits.interval_ms

    def drop_other_topics(self, names: Iterable[str]) -> None:
        """Drop buffered records of other topics."""
        keep = set(names)
        self.subscription.mark_pending_revocation([one for one in self.subscription.assigned if one.topic not in keep])

    def take_away(self, partitions: Partitions) -> None:
        gone = set(partitions)
        self.fetcher.assign(one for one in self.subscription.assigned if one not in gone)

    # -- start positions

    def ask_for(self) -> Partitions:
        """Return the partitions whose committed offsets are needed and not requested yet; `on_offsets` takes the
        reply."""
        missing = tuple(one for one in self.subscription.missing() if one not in self._found)
        if not missing or self._asked.issuperset(missing):
            return ()
        self._asked = frozenset(missing)
        return missing

    def on_offsets(self, done: OffsetsDone) -> None:
        """Store the reply to `ask_for`; `begin` raises its errors, in the application's call."""
        self._asked = frozenset()
        if done.error_code == ErrorCode.NONE:
            self._found.update(done.offsets)
        elif not done.error_code.retriable and done.error_code != ErrorCode.NETWORK_EXCEPTION:
            self._failure = done.error_code

    def begin(self, *, has_group: bool) -> None:
        """Set positions that are known now; without a group, only by the reset policy. Raises NoOffset, and once
        Refused if the coordinator has refused the request.
        """
        failure, self._failure = self._failure, ErrorCode.NONE
        if has_group:
            found, self._found = self._found, {}
        else:
            found = dict.fromkeys(self.subscription.missing())
        if found:
            self.fetcher.begin(found)
        if failure != ErrorCode.NONE:
            raise Refused(failure, f"the group's committed offsets were refused: {failure.name}")

    # -- commits

    def positions(self) -> Mapping[TopicPartition, int]:
        """Return the positions after all records returned so far."""
        return {**self.subscription.positions(), **self._first_unread()}

    def position(self, partition: TopicPartition) -> int | None:
        """Same as `ConsumerPositions.position`."""
        offset = self.subscription.position(partition)
        return offset if offset is None else self._first_unread().get(partition, offset)

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Same as `Fetcher.current_lag`."""
        lag, offset = self.fetcher.current_lag(partition), self.subscription.position(partition)
        return lag if lag is None or offset is None else lag + offset - self._first_unread().get(partition, offset)

    def give_back(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Rewind to the first unread records, of these partitions or of all, so that they are read again."""
        first = self._first_unread()
        for one in tuple(first) if partitions is None else partitions:
            position = self.subscription.at(one)
            if one in first and position is not None and position.offset is not None:
                position.go(first[one])
            self.drop_unread((one,))

    def drop_unread(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop unread records of these partitions, or of all if none are named, since the application has sought
        elsewhere."""
        if self.unread:
            gone = set(partitions)
            keep = [one for one in self.unread if gone and (one.topic, one.partition) not in gone]
            self._taken -= len(self.unread) - len(keep)
            self.replace_unread(keep)

    def replace_unread(self, records: Iterable[ConsumerRecord]) -> None:
        """Return these records instead."""
        self.unread.clear()
        self.unread.extend(records)

    def _first_unread(self) -> dict[TopicPartition, int]:
        first: dict[TopicPartition, int] = {}
        for one in self.unread:
            first.setdefault(TopicPartition(one.topic, one.partition), one.offset)
        return first

    def commit_due(self, now_ms: int) -> Mapping[TopicPartition, int]:
        """Return the offsets of an automatic commit, if it is due. The interval restarts at once, before the reply."""
        if not self._commits.is_automatic or now_ms < self._commit_at_ms:
            return {}
        self._commit_at_ms = now_ms + self._commits.interval_ms
        return self.positions()

    def commit_now(self, now_ms: int) -> Mapping[TopicPartition, int]:
        """Return the offsets of an automatic commit, due or not."""
        self._commit_at_ms = min(now_ms, self._commit_at_ms)
        return self.commit_due(now_ms)

    def commit_ended(self, code: ErrorCode, now_ms: int) -> None:
        """Note the end of an automatic commit; after a retriable error another one follows soon, with the positions of
        that time."""
        if code.retriable or code == ErrorCode.NETWORK_EXCEPTION:
            self._commit_at_ms = now_ms + self._commits.retry_backoff_ms

    def last_commit(self, partitions: Partitions) -> Mapping[TopicPartition, int]:
        """Return the offsets of the last commit of these partitions before they are revoked. Their records are no
        longer returned, so that no position overtakes its commit (docs/spec/consumer-client.md#B6.G6)."""
        self.subscription.mark_pending_revocation(partitions)
        if not self._commits.is_automatic:
            return {}
        going = set(partitions)
        return {one: offset for one, offset in self.positions().items() if one in going}

    @property
    def commits_itself(self) -> bool:
        return self._commits.is_automatic

    @property
    def next_commit_ms(self) -> int | None:
        return self._commit_at_ms if self._commits.is_automatic else None

    def patience_s(self, now_ms: int) -> float:
        """Return the longest time to wait for an event before checking again."""
        due_ms = self.next_commit_ms
        return _LOOK_S if due_ms is None else min(max((due_ms - now_ms) / 1000, 0.0) + 0.001, _LOOK_S)

    def take(self, max_records: int) -> bool:
        """Fill `unread` by `Fetcher.take_into`; return true if there are records."""
        before = len(self.unread)
        try:
            self.fetcher.take_into(self.unread, max_records)
        finally:
            self._taken += len(self.unread) - before
        return bool(self.unread)

    def hand_out(self, records: list[ConsumerRecord]) -> None:
        """Move all unread records into `records`; `get_back` takes them back if the application does not get them."""
        records.extend(self.unread)
        self.unread.clear()

    def get_back(self, records: list[ConsumerRecord]) -> None:
        """Put records that were not returned after all back at the front."""
        self.unread.extendleft(reversed(records))

    # -- metrics

    def measured(self, now_ms: int) -> dict[str, float]:
        """Return the metrics of fetching, by Kafka's names."""
        first = self._first_unread()
        of_partitions = [self._distances(one, first) for one in self.subscription.assigned]
        lags = [one["records-lag"] for one in of_partitions if not isnan(one["records-lag"])]
        leads = [one["records-lead"] for one in of_partitions if not isnan(one["records-lead"])]
        return {
            **self.metrics.of_fetching(now_ms),
            "records-consumed-total": self._taken - len(self.unread),
            "records-lag-max": max(lags, default=nan),
            "records-lead-min": min(leads, default=nan),
        }

    def measured_of(self, partition: TopicPartition) -> dict[str, float]:
        """Return the distances of the position from both ends of the log, as of the last fetch; NaN if unknown. Raises
        ValueError for a partition that is not assigned."""
        return self._distances(partition, self._first_unread())

    def _distances(self, partition: TopicPartition, first_unread: Mapping[TopicPartition, int]) -> dict[str, float]:
        offset, position = self.subscription.position(partition), self.subscription.at(partition)
        offset = first_unread.get(partition, offset)
        if offset is None or position is None:
            return {"records-lag": nan, "records-lead": nan}
        end = position.end(is_committed=self._isolation is Isolation.READ_COMMITTED)
        return {
            "records-lag": nan if end < 0 else max(0, end - offset),
            "records-lead": nan if position.log_start_offset < 0 else max(0, offset - position.log_start_offset),
        }
