"""The user data of the sticky assignors in a subscription, in Kafka's bytes
(docs/spec/group-protocol.md#6.5 and #6.6)."""

from collections.abc import Sequence
from itertools import groupby

from membership.assignors.model import UNKNOWN_GENERATION
from membership.assignors.ownership import FormerClaim
from membership.topic_partition import TopicPartition
from protocol import consumer_protocol as wire
from protocol.errors import ProtocolViolation


def sticky_user_data(last_assigned: Sequence[TopicPartition], generation_id: int, /) -> bytes | None:
    """Encode version 1: the last assignment and its generation. None for a member that never had one."""
    if generation_id == UNKNOWN_GENERATION and not last_assigned:
        return None
    grouped = tuple(
        wire.TopicPartitions(topic, tuple(one.partition for one in ones))
        for topic, ones in groupby(sorted(last_assigned), lambda one: one.topic)
    )
    return wire.encode_previous_assignment(grouped, generation_id)


def decode_sticky_user_data(data: bytes | None) -> FormerClaim:
    """Decode version 1, or 0, which has no generation. Invalid data claims no partitions."""
    try:
        topics, generation_id = wire.decode_previous_assignment(data or b"")
    except ProtocolViolation:
        return FormerClaim()
    return FormerClaim(
        [TopicPartition(topic, number) for topic, numbers in topics for number in numbers], generation_id
    )


def cooperative_user_data(_last_assigned: Sequence[TopicPartition], generation_id: int, /) -> bytes:
    """Encode the generation alone, for leaders that do not know the subscription's own field (before KIP-792)."""
    return generation_id.to_bytes(4, "big", signed=True)


def decode_cooperative_user_data(data: bytes | None) -> int:
    """Return the generation; -1 if there is none."""
    return int.from_bytes(data[:4], "big", signed=True) if data and len(data) >= 4 else UNKNOWN_GENERATION
