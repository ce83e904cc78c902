"""Metadata and assignments of protocol type `consumer` (docs/spec/group-protocol.md#6.1).

To the coordinator these bytes are opaque; leaders, members and tools read them. The format is never flexible: it begins
with a version of 16 bits, and new fields are appended. A newer version is read with the newest layout known here, and
bytes after the last known field are skipped.
"""

import struct
from typing import NamedTuple

import msgspec

from protocol.errors import ProtocolViolation

NEWEST_VERSION = 3
PROTOCOL_TYPE = "consumer"
UNKNOWN_GENERATION = -1
_UNLIMITED = 2**31
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


class TooManyEntries(ProtocolViolation):
    """A subscription has more topics and partitions than its reader allows."""


class TopicPartitions(NamedTuple):
    topic: str
    partitions: tuple[int, ...]


class Subscription(msgspec.Struct, frozen=True, gc=False):
    """Metadata of a member, read by its leader. The last three fields came with versions 1, 2 and 3."""

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartitions, ...] = ()
    generation_id: int = UNKNOWN_GENERATION
    rack_id: str | None = None


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """Assignment of a member, made by its leader."""

    partitions: tuple[TopicPartitions, ...] = ()
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """Encode the subscription, topics and partitions in the order given: Kafka's clients sort them beforehand."""
    _assert_known(version)
    parts = [_int16(version), _int32(len(subscription.topics)), *map(_string, subscription.topics)]
    parts.append(_nullable_bytes(subscription.user_data))
    if version >= 1:
        parts += _topic_partitions(subscription.owned_partitions)
    if version >= 2:
        parts.append(_int32(subscription.generation_id))
    if version >= 3:
        parts.append(_int16(-1) if subscription.rack_id is None else _string(subscription.rack_id))
    return b"".join(parts)


def decode_subscription(data: bytes, most: int = _UNLIMITED) -> Subscription:
    """Decode a subscription. Raises ProtocolViolation, as `TooManyEntries` for more topics and partitions than `most`.
    Allocates no more than the bytes can hold, whatever lengths they claim."""
    reader = _Reader(data, most)
    version = reader.version()
    return Subscription(
        topics=tuple(reader.string() for _ in range(reader.count(least_bytes_each=2))),
        user_data=reader.nullable_bytes(),
        owned_partitions=reader.topic_partitions() if version >= 1 else (),
        generation_id=reader.int32() if version >= 2 else UNKNOWN_GENERATION,
        rack_id=reader.nullable_string() if version >= 3 else None,
    )


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    """Encode the assignment; versions 0 to 3 differ only in the version number."""
    _assert_known(version)
    parts = [_int16(version), *_topic_partitions(assignment.partitions)]
    parts.append(_nullable_bytes(assignment.user_data))
    return b"".join(parts)


def decode_assignment(data: bytes) -> Assignment:
    """Decode an assignment. Empty bytes are an empty assignment, for a member that the leader left out. Raises
    ProtocolViolation."""
    if not data:
        return Assignment()
    reader = _Reader(data)
    reader.version()
    return Assignment(partitions=reader.topic_partitions(), user_data=reader.nullable_bytes())


def decode_assigned_topics(data: bytes) -> list[str]:
    """Decode only the topics of an assignment, since the lag of all groups needs those of thousands of members. Raises
    ProtocolViolation."""
    if not data:
        return []
    topics: list[str] = []
    try:
        (count,) = _INT32.unpack_from(data, 2)
        position = 6
        for _ in range(count):
            (length,) = _INT16.unpack_from(data, position)
            end = position + 2 + length
            (partitions,) = _INT32.unpack_from(data, end)
            if length < 0 or partitions < 0 or end + 4 + 4 * partitions > len(data):
                raise ProtocolViolation(f"an assignment of {len(data)} bytes names what is not in them")
            topics.append(data[position + 2 : end].decode(errors="replace"))
            position = end + 4 + 4 * partitions
    except struct.error:
        raise ProtocolViolation(f"an assignment ends after {len(data)} bytes") from None
    return topics


def encode_previous_assignment(partitions: tuple[TopicPartitions, ...], generation_id: int) -> bytes:
    """Encode the user data of a member under the sticky assignor, which has no version in front
    (docs/spec/group-protocol.md#6.5)."""
    return b"".join((*_topic_partitions(partitions), _int32(generation_id)))


def decode_previous_assignment(data: bytes) -> tuple[tuple[TopicPartitions, ...], int]:
    """Return partitions and generation; the older form has no generation. Raises ProtocolViolation."""
    reader = _Reader(data)
    partitions = reader.topic_partitions()
    try:
        return partitions, reader.int32()
    except ProtocolViolation:
        return partitions, UNKNOWN_GENERATION


def _assert_known(version: int) -> None:
    assert 0 <= version <= NEWEST_VERSION, f"there is no version {version} of the consumer protocol"


def _int16(value: int) -> bytes:
    return value.to_bytes(2, "big", signed=True)


def _int32(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def _string(value: str) -> bytes:
    data = value.encode()
    return _int16(len(data)) + data


def _nullable_bytes(value: bytes | None) -> bytes:
    return _int32(-1) if value is None else _int32(len(value)) + value


def _topic_partitions(topics: tuple[TopicPartitions, ...]) -> list[bytes]:
    parts = [_int32(len(topics))]
    for topic in topics:
        parts += (_string(topic.topic), _int32(len(topic.partitions)), *map(_int32, topic.partitions))
    return parts


class _Reader:
    __slots__ = ("_data", "_left", "_position")

    def __init__(self, data: bytes, most: int = _UNLIMITED) -> None:
        self._data = data
        self._left = most
        self._position = 0

    def version(self) -> int:
        """Read a version; a negative one is read as 0 (docs/spec/group-protocol.md#6)."""
        return max(0, self._int(2))

    def int32(self) -> int:
        return self._int(4)

    def string(self) -> str:
        length = self._int(2)
        if length < 0:
            raise ProtocolViolation("a string is missing")
        return self._text(length)

    def nullable_string(self) -> str | None:
        length = self._int(2)
        return None if length < 0 else self._text(length)

    def nullable_bytes(self) -> bytes | None:
        length = self._int(4)
        return None if length < 0 else self._take(length)

    def count(self, least_bytes_each: int) -> int:
        """Read a number of elements. Raises ProtocolViolation if the bytes left cannot hold them."""
        count = self._int(4)
        if not 0 <= count * least_bytes_each <= len(self._data) - self._position:
            raise ProtocolViolation(f"an array of {count} elements in {len(self._data) - self._position} bytes")
        self._left -= count
        if self._left < 0:
            raise TooManyEntries("it names too many topics or partitions")
        return count

    def topic_partitions(self) -> tuple[TopicPartitions, ...]:
        return tuple(
            TopicPartitions(self.string(), self._int32s(self.count(least_bytes_each=4)))
            for _ in range(self.count(least_bytes_each=6))
        )

    def _int32s(self, count: int) -> tuple[int, ...]:
        # All in one call, since the doctor reads the assignments of thousands of members.
        return struct.unpack(f">{count}i", self._take(4 * count))

    def _int(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big", signed=True)

    def _text(self, length: int) -> str:
        # Invalid UTF-8 becomes replacement characters, without an error, as in Java.
        return self._take(length).decode(errors="replace")

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if end > len(self._data):
            raise ProtocolViolation(f"{length} bytes wanted, {len(self._data) - self._position} left")
        taken = self._data[self._position : end]
        self._position = end
        return taken
