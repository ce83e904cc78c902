"""Input and interface of an assignor."""

from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple, Protocol

Targets = dict[str, dict[bytes, frozenset[int]]]
"""Partitions of every member, by topic id; without empty sets."""
Computation = Generator[int, object, Targets]
"""Work in pieces. Yields the estimated cost of each piece in microseconds, and ignores sent values."""


class SubscribedMember(NamedTuple):
    """A member: the ids of the existing topics it subscribes to, and its previous target by topic id, in the order of
    its record. Members with the same topics should share one set object."""

    member_id: str
    instance_id: str | None
    topics: frozenset[bytes]
    target: Mapping[bytes, frozenset[int]]


class SubscribedTopic(Protocol):
    """A topic that exists."""

    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> int: ...


class ServerAssignor(Protocol):
    """Assigns every partition of the topics to one of its subscribers."""

    def __call__(
        self, members: Sequence[SubscribedMember], topics: Mapping[bytes, SubscribedTopic], is_homogeneous: bool, /
    ) -> Computation:
        """Compute the partitions of every member. `topics`: at least all that are subscribed to, by id.
        `is_homogeneous`: all members subscribe alike (docs/spec/consumer-group-protocol.md#3.4)."""


def run(computation: Computation) -> Targets:
    """Run the whole computation at once."""
    try:
        while True:
            next(computation)
    except StopIteration as done:
        targets: Targets = done.value
        return targets
