"""The bytes consumers leave with the coordinator, which does not look into them (group-protocol 6.1).

    version  since                     adds
    0        the classic consumer      topics, user data; the assignment
    1        KIP-429                   owned partitions
    2        KIP-792                   the generation they were owned in
    3        KIP-881                   the rack

We write 3 and read every version; a higher one is read as 3, because fields are only ever appended. An assignment is
the same in all of them.
"""

import struct
from collections.abc import Iterable
from itertools import groupby

import msgspec

from muster.topic_partition import TopicPartition

PROTOCOL_TYPE = "consumer"
VERSION = 3


class MalformedMemberData(ValueError):
    """Bytes that are no subscription, or no assignment, of the consumer protocol."""


class Subscription(msgspec.Struct, frozen=True):
    """What a member says of itself when it joins."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None


class Assignment(msgspec.Struct, frozen=True):
    """What the leader gives a member."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    """Version 3, topics and partitions sorted as Kafka's clients sort them."""
    topics = sorted(subscription.topics)
    return b"".join(
        (
            _INT16.pack(VERSION),
            _INT32.pack(len(topics)),
            *(_string(topic) for topic in topics),
            _nullable_bytes(subscription.user_data),
            _partitions(subscription.owned),
            _INT32.pack(subscription.generation_id),
            _NULL_STRING if subscription.rack_id is None else _string(subscription.rack_id),
        )
    )


def decode_subscription(data: bytes) -> Subscription:
    """Read a subscription of any version. Raises MalformedMemberData."""
    reader = _Reader(data)
    version = reader.int16()
    topics = tuple(reader.string() for _ in range(reader.count()))
    user_data = reader.nullable_bytes()
    return Subscription(
        topics,
        user_data,
        owned=reader.partitions() if version >= 1 else (),
        generation_id=reader.int32() if version >= 2 else -1,
        rack_id=reader.nullable_string() if version >= 3 else None,
    )


def encode_assignment(assignment: Assignment) -> bytes:
    """Version 3, partitions sorted and grouped by topic."""
    return _INT16.pack(VERSION) + _partitions(assignment.partitions) + _nullable_bytes(assignment.user_data)


def decode_assignment(data: bytes) -> Assignment:
    """Read an assignment of any version; no bytes at all are what the coordinator gives a member its leader left out.

    Raises MalformedMemberData.
    """
    if not data:
        return Assignment()
    reader = _Reader(data)
    reader.int16()
    return Assignment(reader.partitions(), reader.nullable_bytes())


class _Reader:
    """Walks through the bytes; whatever overruns them is malformed."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def count(self) -> int:
        count = self.int32()
        if count < 0 or count > len(self._data) - self._at:
            raise MalformedMemberData(f"a list of {count} things in {len(self._data)} bytes")
        return count

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise MalformedMemberData("a name is null")
        return text

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length == -1 else self._take(length).decode("utf-8", "replace")

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self._take(length)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found: list[TopicPartition] = []
        for _ in range(self.count()):
            topic = self.string()
            found.extend(TopicPartition(topic, self.int32()) for _ in range(self.count()))
        return tuple(found)

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise MalformedMemberData(f"{length} bytes wanted at {self._at} of {len(self._data)}")
        taken = self._data[self._at : end]
        self._at = end
        return taken


_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_NULL_STRING = _INT16.pack(-1)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def _nullable_bytes(data: bytes | None) -> bytes:
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic = [(topic, [one.partition for one in ones]) for topic, ones in groupby(sorted(partitions), lambda p: p[0])]
    return _INT32.pack(len(by_topic)) + b"".join(
        _string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers) for topic, numbers in by_topic
    )
