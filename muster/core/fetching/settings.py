"""Settings of fetching."""

import enum
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from membership.checks import check_name, check_number
from membership.topic_partition import TopicPartition
from muster.core.positions import OffsetReset

Deserializer = Callable[[bytes], Any]
"""Converts the bytes of a key or a value for the application; None stays None."""


class Isolation(enum.IntEnum):
    """Isolation levels: records of open or aborted transactions are returned or not. Numbers are the wire's."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


def isolation(name: str) -> Isolation:
    """Parse the name of an isolation level. Raises ValueError with the valid names."""
    try:
        return Isolation[name.upper()]
    except KeyError:
        known = " or ".join(repr(one.name.lower()) for one in Isolation)
        raise ValueError(f"isolation_level is {name!r}, it must be {known}") from None


class Grants(msgspec.Struct, frozen=True):
    """Grants of a group's registry by which a member reads: the epoch of each partition
    (docs/spec/consumer-client.md#E2)."""

    group_id: str = ""
    member_id: str = ""
    epochs: Mapping[TopicPartition, int] = {}


class FetchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of fetching, with the names and defaults of docs/spec/consumer-client.md#A1. `rack`: read from a
    follower in this rack if the leader names one (KIP-392). Without `sessions` every request has all its partitions
    (KIP-227). Without `check_crcs` damaged bytes may be returned as records. With `validates_positions` a new leader is
    asked whether it has the records that were read before (KIP-320).
    """

    reset: OffsetReset = OffsetReset.LATEST
    min_bytes: int = 1
    max_wait_ms: int = 500
    max_bytes: int = 52_428_800
    partition_max_bytes: int = 1_048_576
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    rack: str = ""
    sessions: bool = True
    check_crcs: bool = True
    validates_positions: bool = True
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for invalid settings, with the names that applications use."""
        check_number("fetch_min_bytes", self.min_bytes, 0)
        check_number("fetch_max_wait_ms", self.max_wait_ms, 0)
        check_number("fetch_max_bytes", self.max_bytes, 1)
        check_number("max_partition_fetch_bytes", self.partition_max_bytes, 1)
        check_number("request_timeout_ms", self.request_timeout_ms, 1)
        for name in ("retry_backoff_ms", "retry_backoff_max_ms", "metadata_max_age_ms"):
            check_number(name, getattr(self, name), 0)
        check_name("rack_id", self.rack)
