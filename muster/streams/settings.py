"""Settings of a streams connector. Names and defaults are those of docs/spec/consumer-client.md#D1."""

import re
from collections.abc import Collection, Mapping

import msgspec

from membership.member import MemberSettings
from muster.core.fetching.settings import FetchSettings
from muster.core.positions import OffsetReset

_RESETS = {
    "smallest": OffsetReset.EARLIEST,
    "earliest": OffsetReset.EARLIEST,
    "largest": OffsetReset.LATEST,
    "latest": OffsetReset.LATEST,
}
_NEVER_MS = 1 << 40
"""Poll interval without a limit, since the connector polls its membership itself."""


class StreamsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`consumed_on`: a message counts as consumed when the next one is requested ("next"), so that a crash repeats the
    one in hand and loses none, or when it is returned ("return"). `hand_over_wait_ms`: longest time for which a
    rebalance waits for the messages in hand, so that none is repeated. `consumer_timeout_ms` below 0: a stream waits
    for ever. Raises ValueError for invalid settings.
    """

    queued_max_message_chunks: int = 2
    rebalance_max_retries: int = 4
    rebalance_backoff_ms: int = 2_000
    auto_commit_enable: bool = True
    auto_commit_interval_ms: int = 60_000
    consumer_timeout_ms: int = -1
    auto_offset_reset: str = "largest"
    fetch_message_max_bytes: int = 1_048_576
    fetch_wait_max_ms: int = 100
    fetch_min_bytes: int = 1
    refresh_leader_backoff_ms: int = 200
    offsets_commit_max_retries: int = 5
    session_timeout_ms: int = 6_000
    partition_assignment_strategy: str = "range"
    consumed_on: str = "next"
    hand_over_wait_ms: int = 1_000
    heartbeat_interval_ms: int | None = None
    rebalance_timeout_ms: int = 60_000
    request_timeout_ms: int = 30_000
    metadata_max_age_ms: int = 300_000

    def __post_init__(self) -> None:
        _one_of("auto_offset_reset", self.auto_offset_reset, _RESETS)
        _one_of("partition_assignment_strategy", self.partition_assignment_strategy, ("range", "roundrobin"))
        _one_of("consumed_on", self.consumed_on, ("next", "return"))
        for name in ("queued_max_message_chunks", "rebalance_max_retries", "rebalance_timeout_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be 1 or more")
        for name in ("rebalance_backoff_ms", "auto_commit_interval_ms", "offsets_commit_max_retries"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be 0 or more")

    def member(self, group_id: str) -> MemberSettings:
        """Return the settings of the membership. Raises ValueError."""
        beat_ms = self.session_timeout_ms // 3 if self.heartbeat_interval_ms is None else self.heartbeat_interval_ms
        return MemberSettings(
            group_id=group_id,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=beat_ms,
            max_poll_interval_ms=_NEVER_MS,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            metadata_max_age_ms=self.metadata_max_age_ms,
        )

    def fetch(self) -> FetchSettings:
        return FetchSettings(
            reset=_RESETS[self.auto_offset_reset],
            min_bytes=self.fetch_min_bytes,
            max_wait_ms=self.fetch_wait_max_ms,
            partition_max_bytes=self.fetch_message_max_bytes,
            request_timeout_ms=self.request_timeout_ms,
            retry_backoff_ms=self.refresh_leader_backoff_ms,
            metadata_max_age_ms=self.metadata_max_age_ms,
        )


def _one_of(name: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}, it must be one of {', '.join(map(repr, known))}")


def check_counts(counts: Mapping[str, int]) -> None:
    """Raise TypeError or ValueError unless each topic has a name and at least one stream."""
    if not isinstance(counts, Mapping):
        raise TypeError(f"counts is {counts!r}: {{topic: number of streams}} is wanted")
    if not counts:
        raise ValueError("no topic is named: {topic: number of streams} is wanted")
    for topic, count in counts.items():
        if not topic.strip() or count < 1:
            raise ValueError(f"{count} streams of {topic!r} cannot be made: a name, and 1 or more, are wanted")


def check_listener(listener: object) -> None:
    """Raise TypeError for an invalid listener, before a rebalance would."""
    for name in ("before_releasing", "before_starting"):
        if not callable(getattr(listener, name, None)):
            raise TypeError(f"the listener {listener!r} has no method {name}")


def excluding(pattern: str) -> str:
    """Return a pattern for all topics whose whole name does not match this one."""
    re.compile(pattern)
    return rf"(?!(?:{pattern})\Z).*"
