"""The interface by which tests use a Kafka client, with three libraries behind it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

Part = tuple[str, int]
"""A topic's name and the number of one of its partitions."""


class Got(NamedTuple):
    """A record returned by a consumer."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def part(self) -> Part:
        return self.topic, self.partition


class Committed(NamedTuple):
    offset: int
    metadata: str = ""


class GroupSeen(NamedTuple):
    """A group as an admin client describes it."""

    state: str
    protocol_type: str
    members: int


@dataclass(frozen=True, slots=True)
class Membership:
    """Group settings of a consumer; without a group it only reads partitions that it assigns itself."""

    group: str | None = None
    assignor: str = "range"
    instance: str | None = None
    session_ms: int = 6_000
    reset: str = "earliest"
    metadata_age_ms: int = 300_000
    """Interval at which the client looks for new topics and partitions."""
    longest_wait_ms: int = 500
    """Time that a fetch asks the server to wait for records."""


class Consumer(Protocol):
    """A consumer, used from one thread at a time. `poll` must be called regularly, or it loses its place in the
    group."""

    def subscribe(self, topics: Sequence[str]) -> None: ...
    def subscribe_to_names_like(self, pattern: str) -> None: ...
    def assign(self, parts: Sequence[Part]) -> None: ...
    def poll(self, seconds: float) -> list[Got]: ...
    def assignment(self) -> frozenset[Part]: ...
    def commit(self, offsets: Mapping[Part, Committed] | None = None) -> None: ...
    def commit_later(self) -> None: ...
    def committed(self, part: Part) -> Committed | None: ...
    def position(self, part: Part) -> int: ...
    def seek(self, part: Part, offset: int) -> None: ...
    def bounds(self, part: Part) -> tuple[int, int]: ...
    def offset_at(self, part: Part, timestamp_ms: int) -> int | None: ...
    def pause(self, part: Part) -> None: ...
    def resume(self, part: Part) -> None: ...

    def close(self) -> None:
        """Close the consumer; may be called more than once."""
        ...


class Producer(Protocol):
    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None: ...

    def flush(self) -> list[tuple[Part, int]]:
        """Return the positions of the records sent since the last flush, in the order of sending."""
        ...

    def close(self) -> None: ...


class Admin(Protocol):
    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> None: ...
    def delete_topic(self, name: str) -> None: ...
    def add_partitions(self, name: str, total: int) -> None: ...
    def topics(self) -> set[str]: ...
    def partitions(self, name: str) -> int: ...
    def settings(self, topic: str) -> dict[str, str | None]: ...
    def change(self, topic: str, key: str, value: str) -> None: ...
    def groups(self) -> set[str]: ...
    def group(self, name: str) -> GroupSeen: ...
    def delete_group(self, name: str) -> None: ...
    def offsets(self, group: str) -> dict[Part, int]: ...
    def alter_offsets(self, group: str, offsets: Mapping[Part, int]) -> None: ...
    def delete_offsets(self, group: str, parts: Iterable[Part]) -> None: ...
    def cluster(self) -> tuple[str, int]:
        """Its id and how many nodes it has."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Library:
    """A client library: its constructors, and the features that it lacks."""

    name: str
    producer: Callable[..., Producer]
    """Called with the bootstrap address, `codec` and `idempotent`."""
    consumer: Callable[[str, Membership], Consumer]
    admin: Callable[[str], Admin]
    refusals: tuple[type[Exception], ...]
    """Exceptions of refused requests, for instance of a commit during a rebalance."""
    codecs: tuple[str, ...] = ("gzip", "snappy", "lz4", "zstd")
    assignors: tuple[str, ...] = ("range", "roundrobin", "cooperative-sticky")
    lacks: frozenset[str] = field(default_factory=frozenset)
