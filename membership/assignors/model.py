"""Inputs and results of assignors. An assignor is a name and pure functions. The member stores its last assignment and
the generation of that between rebalances, and passes both to `user_data`.
"""

import enum
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Protocol

import msgspec

from membership.topic_partition import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""Member id -> its partitions, in the order of topics and numbers."""

Racks = Mapping[str, Sequence[AbstractSet[str]]]
"""Topic -> for each of its partitions, by number, the racks that hold a replica. A topic may be missing."""

NO_RACKS: Racks = MappingProxyType({})
UNKNOWN_GENERATION = -1


class RebalanceProtocol(enum.IntEnum):
    """EAGER: a member releases all partitions before it joins. COOPERATIVE: it keeps its partitions, and releases those
    that its new assignment lacks (KIP-429).
    """

    EAGER = 0
    COOPERATIVE = 1


class Subscriber(msgspec.Struct, frozen=True):
    """Subscription of a member: the input of assignors."""

    member_id: str
    topics: tuple[str, ...]
    group_instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = UNKNOWN_GENERATION
    user_data: bytes | None = None
    rack_id: str | None = None


class Assign(Protocol):
    """Assigns partitions. Topics missing from `partition_counts` are skipped; every member has an entry, possibly
    empty."""

    def __call__(
        self, partition_counts: Mapping[str, int], subscribers: Sequence[Subscriber], racks: Racks = NO_RACKS, /
    ) -> Assignment: ...


class UserData(Protocol):
    """Encodes user data of a subscription from the last assignment and its generation; -1: there was none. So an eager
    member, which owns nothing when it joins, can still name its last partitions.
    """

    def __call__(self, last_assigned: Sequence[TopicPartition], generation_id: int, /) -> bytes | None: ...


def no_user_data(_last_assigned: Sequence[TopicPartition], _generation_id: int, /) -> None:
    """Encode nothing, for assignors without user data."""


class Assignor(msgspec.Struct, frozen=True):
    """An assignor, under the name that members agree on."""

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
    """Return an empty assignment for each member."""
    return {subscriber.member_id: [] for subscriber in subscribers}


def places_by_topic(partition_counts: Mapping[str, int], members: Sequence[Subscriber]) -> dict[str, list[int]]:
    """Return the ascending places of subscribers in `members` by topic, for topics with partitions, sorted by name."""
    found: dict[str, list[int]] = {}
    for place, member in enumerate(members):
        for topic in dict.fromkeys(member.topics):
            found.setdefault(topic, []).append(place)
    return {topic: found[topic] for topic in sorted(found) if partition_counts.get(topic, 0) > 0}
