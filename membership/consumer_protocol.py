"""Subscriptions and assignments of consumers, in `TopicPartition`s. The bytes are `protocol.consumer_protocol`'s; here
topics and partitions are sorted and grouped as Kafka's clients do it (docs/spec/group-protocol.md#6.1).
"""

from collections.abc import Iterable
from itertools import groupby

import msgspec

from membership.topic_partition import TopicPartition
from protocol import consumer_protocol as wire
from protocol.consumer_protocol import PROTOCOL_TYPE

__all__ = [
    "PROTOCOL_TYPE",
    "ConsumerAssignment",
    "ConsumerSubscription",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
]


class ConsumerSubscription(msgspec.Struct, frozen=True):
    """Subscription that a member sends when it joins."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = wire.UNKNOWN_GENERATION
    rack_id: str | None = None


class ConsumerAssignment(msgspec.Struct, frozen=True):
    """The partitions that the leader gives a member."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


def encode_subscription(subscription: ConsumerSubscription) -> bytes:
    """Encode the newest version, sorted."""
    return wire.encode_subscription(
        wire.Subscription(
            tuple(sorted(subscription.topics)),
            subscription.user_data,
            _grouped(subscription.owned),
            subscription.generation_id,
            subscription.rack_id,
        )
    )


def decode_subscription(data: bytes) -> ConsumerSubscription:
    """Decode any version. Raises ProtocolViolation."""
    read = wire.decode_subscription(data)
    owned = _single(read.owned_partitions)
    return ConsumerSubscription(read.topics, read.user_data, owned, read.generation_id, read.rack_id)


def encode_assignment(assignment: ConsumerAssignment) -> bytes:
    """Encode the newest version, sorted."""
    return wire.encode_assignment(wire.Assignment(_grouped(assignment.partitions), assignment.user_data))


def decode_assignment(data: bytes) -> ConsumerAssignment:
    """Decode any version. Empty bytes are the assignment of a member that the leader left out. Raises
    ProtocolViolation.
    """
    read = wire.decode_assignment(data)
    return ConsumerAssignment(_single(read.partitions), read.user_data)


def _grouped(partitions: Iterable[TopicPartition]) -> tuple[wire.TopicPartitions, ...]:
    return tuple(
        wire.TopicPartitions(topic, tuple(one.partition for one in ones))
        for topic, ones in groupby(sorted(partitions), lambda one: one.topic)
    )


def _single(topics: Iterable[wire.TopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for topic, numbers in topics for number in numbers)
