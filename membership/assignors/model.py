"""Inputs and results of assignors. An assignor is a name and pure functions; what a member must remember between two
rebalances (its last assignment and that one's generation) the member remembers, and hands to `user_data`.
"""

import enum
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Protocol

import msgspec

from membership.topic_partition import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Member id -> what it gets, in the order of topics and numbers."""

Racks = Mapping[str, Sequence[AbstractSet[str]]]
"""Topic -> for each of its partitions, by number, the racks that hold a replica. A topic may be missing."""

NO_RACKS: Racks = MappingProxyType({})
UNKNOWN_GENERATION = -1


class RebalanceProtocol(enum.IntEnum):
    """EAGER: a member lets go of everything before it joins. COOPERATIVE: it keeps what it has, and lets go of what
    the assignment takes away (KIP-429).
    """

    EAGER = 0
    COOPERATIVE = 1


class Subscriber(msgspec.Struct, frozen=True):
    """A member as an assignor sees it: what its subscription says."""

    member_id: str
    topics: tuple[str, ...]
    group_instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = UNKNOWN_GENERATION
    user_data: bytes | None = None
    rack_id: str | None = None


class Assign(Protocol):
    """Shares out. A topic missing from `partition_counts` is skipped; every member has an entry, possibly empty."""

    def __call__(
        self, partition_counts: Mapping[str, int], subscribers: Sequence[Subscriber], racks: Racks = NO_RACKS, /
    ) -> Assignment: ...


class UserData(Protocol):
    """The bytes a member adds to its subscription, of the last assignment it was given and that one's generation (an
    eager member holds nothing any more by the time it joins, and still says what it had). -1: never given one.
    """

    def __call__(self, last_assigned: Sequence[TopicPartition], generation_id: int, /) -> bytes | None: ...


def no_user_data(_last_assigned: Sequence[TopicPartition], _generation_id: int, /) -> None:
    """Encode nothing, for an assignor that looks at subscriptions alone."""


class Assignor(msgspec.Struct, frozen=True):
    """One way of sharing out, under the name members agree on."""

    name: str
    assign: Assign
    rebalance_protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)
    user_data: UserData = no_user_data


def in_member_order(subscribers: Sequence[Subscriber]) -> list[Subscriber]:
    """Static members first, by instance id, so that a restart moves nothing; then the others by member id."""
    return sorted(
        subscribers,
        key=lambda one: (one.group_instance_id is None, one.group_instance_id or one.member_id, one.member_id),
    )


def nothing(subscribers: Sequence[Subscriber]) -> Assignment:
    """An empty list for each."""
    return {subscriber.member_id: [] for subscriber in subscribers}


def places_by_topic(partition_counts: Mapping[str, int], members: Sequence[Subscriber]) -> dict[str, list[int]]:
    """Topic -> places in `members` of those subscribed to it, ascending; topics that have partitions, by name."""
    found: dict[str, list[int]] = {}
    for place, member in enumerate(members):
        for topic in dict.fromkeys(member.topics):
            found.setdefault(topic, []).append(place)
    return {topic: found[topic] for topic in sorted(found) if partition_counts.get(topic, 0) > 0}
