"""Bytes of classic members: subscriptions that they offer, assignments that they receive
(docs/spec/consumer-group-protocol.md#12.1, #12.2)."""

from collections.abc import Iterable, Mapping

from coordinator.groups.consumer.reconciliation import Owned
from coordinator.groups.consumer.topics import TopicImage
from coordinator.records.consumer_records import ConsumerMemberRecord
from protocol.consumer_protocol import (
    NEWEST_VERSION,
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
)


def first_protocol(line: ConsumerMemberRecord) -> str | None:
    """Return the protocol name in replies to a classic member: the first that it offers."""
    return line.classic.protocols[0][0] if line.classic is not None and line.classic.protocols else None


def metadata_for(line: ConsumerMemberRecord, protocol: str) -> bytes:
    """Return the bytes that a classic member offers for the protocol; empty if it does not offer it."""
    return dict(line.classic.protocols).get(protocol, b"") if line.classic is not None else b""


def owned_partitions(subscription: Subscription, topics: TopicImage) -> Owned:
    """Return the owned partitions in a member's subscription, of topics that exist. Before version 1 a subscription has
    none: its revocations count as done."""
    owned: dict[bytes, set[int]] = {}
    for name, numbers in subscription.owned_partitions:
        topic = topics.find(name)
        if topic is not None:
            owned.setdefault(topic.topic_id, set()).update(numbers)
    return owned


def encoded(assigned: Mapping[bytes, Iterable[int]], topics: TopicImage, like: bytes) -> bytes:
    """Encode partitions of topics that exist, in the version of the member's subscription `like`."""
    named = []
    for topic_id, numbers in assigned.items():
        name = topics.name_of(topic_id)
        if name is not None:
            named.append(TopicPartitions(name, tuple(sorted(numbers))))
    version = min(max(int.from_bytes(like[:2], "big", signed=True), 0), NEWEST_VERSION)
    return encode_assignment(Assignment(tuple(sorted(named))), version)
