"""Metadata and assignments of protocol type `streams` (docs/spec/consumer-client.md#E1, #E2).

Leaders and members read both; the coordinator reads assignments, to check claims of partitions. Both are MessagePack
maps with a version; unknown keys are ignored.
"""

from collections.abc import Mapping

import msgspec

from protocol.errors import ProtocolViolation

PROTOCOL_TYPE = "streams"
VERSION = 0

Threads = dict[str, dict[int, int]]
"""Threads of partitions, by topic and partition."""


class StreamsSubscription(msgspec.Struct, frozen=True):
    """Number of a member's threads for each topic. With a pattern, each matching topic is read by all of them."""

    topics: dict[str, int] = {}
    pattern: str | None = None
    version: int = VERSION


class _Assignment(msgspec.Struct, frozen=True):
    topics: Threads = {}
    version: int = VERSION


_encode = msgspec.msgpack.Encoder().encode
_decode_subscription = msgspec.msgpack.Decoder(StreamsSubscription).decode
_decode_assignment = msgspec.msgpack.Decoder(_Assignment).decode


def encode_streams_subscription(subscription: StreamsSubscription) -> bytes:
    """Encode the metadata of a JoinGroup."""
    return _encode(subscription)


def decode_streams_subscription(data: bytes) -> StreamsSubscription:
    """Decode the metadata. Raises ProtocolViolation."""
    try:
        return _decode_subscription(data)
    except msgspec.MsgspecError as error:
        raise ProtocolViolation(f"not a subscription of streams: {error}") from None


def encode_streams_assignment(threads: Mapping[str, Mapping[int, int]]) -> bytes:
    """Encode a member's assignment."""
    return _encode(_Assignment({topic: dict(partitions) for topic, partitions in threads.items()}))


def decode_streams_assignment(data: bytes) -> Threads:
    """Decode an assignment; empty bytes are an empty one. Raises ProtocolViolation."""
    if not data:
        return {}
    try:
        return _decode_assignment(data).topics
    except msgspec.MsgspecError as error:
        raise ProtocolViolation(f"not an assignment of streams: {error}") from None
