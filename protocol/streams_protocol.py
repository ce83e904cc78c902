"""What members of protocol type `streams` write into their metadata and assignments
(docs/spec/consumer-client.md#E1, #E2).

Leaders and members read both; the coordinator reads assignments, to know who may claim what. MessagePack maps with a
version; keys that are not known are let pass.
"""

from collections.abc import Mapping

import msgspec

from protocol.errors import ProtocolViolation

PROTOCOL_TYPE = "streams"
VERSION = 0

Threads = dict[str, dict[int, int]]
"""By topic: partition to thread."""


class StreamsSubscription(msgspec.Struct, frozen=True):
    """How many threads a member has for each topic. With a pattern: each topic that matches has all of them."""

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
    """The metadata of a JoinGroup."""
    return _encode(subscription)


def decode_streams_subscription(data: bytes) -> StreamsSubscription:
    """Raises ProtocolViolation for bytes that are none."""
    try:
        return _decode_subscription(data)
    except msgspec.MsgspecError as error:
        raise ProtocolViolation(f"not a subscription of streams: {error}") from None


def encode_streams_assignment(threads: Mapping[str, Mapping[int, int]]) -> bytes:
    """What a leader gives to a member."""
    return _encode(_Assignment({topic: dict(partitions) for topic, partitions in threads.items()}))


def decode_streams_assignment(data: bytes) -> Threads:
    """No bytes at all are an assignment of nothing. Raises ProtocolViolation for others that are none."""
    if not data:
        return {}
    try:
        return _decode_assignment(data).topics
    except msgspec.MsgspecError as error:
        raise ProtocolViolation(f"not an assignment of streams: {error}") from None
