"""Embedded topics as records of `__muster_topics-0`, a compacted log: the key is the topic's name.

Value, version 1: two bytes of version, then a MessagePack map of the fields of `TopicRecord` except the name. Fields
may be added with defaults; a change of their meaning needs a new version. A record without a value: the topic is
deleted.
"""

import msgspec

TOPICS_LOG = "__muster_topics-0"

_VERSION = b"\x00\x01"


class TopicRecord(msgspec.Struct, frozen=True):
    """Present state of a topic. `configs` has only its own settings; the others are the node's. `is_deleted`: the topic
    is hidden, and its name is free when all offsets committed for it are deleted."""

    name: str
    topic_id: bytes
    partitions: int
    configs: dict[str, str]
    created_wall_ms: int
    is_deleted: bool = False


class _Value(msgspec.Struct, frozen=True):
    topic_id: bytes
    partitions: int
    configs: dict[str, str] = {}
    created_wall_ms: int = -1
    is_deleted: bool = False


class TopicsCorrupt(Exception):
    """A record of the topics log does not parse, or was written by a newer version. The node must not start: commits
    for the topic would be refused, as for an unknown one."""


def encode_topic(record: TopicRecord) -> tuple[bytes, bytes]:
    """Encode key and value."""
    value = _Value(record.topic_id, record.partitions, record.configs, record.created_wall_ms, record.is_deleted)
    return record.name.encode(), _VERSION + msgspec.msgpack.encode(value)


def decode_topic(key: bytes | None, value: bytes | None) -> tuple[str, TopicRecord | None]:
    """Decode the name, and the topic unless it is deleted. Raises `TopicsCorrupt`."""
    try:
        name = (key or b"").decode()
        if value is None:
            return name, None
        if value[:2] != _VERSION:
            raise TopicsCorrupt(f"topic {name!r}: version {value[:2].hex()} of its record is not known here")
        parsed = msgspec.msgpack.decode(value[2:], type=_Value)
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise TopicsCorrupt(f"topic {key!r}: its record does not parse: {error}") from None
    if len(parsed.topic_id) != 16 or parsed.partitions < 1:
        raise TopicsCorrupt(f"topic {name!r}: {parsed.partitions} partitions, an id of {len(parsed.topic_id)} bytes")
    record = TopicRecord(
        name, parsed.topic_id, parsed.partitions, parsed.configs, parsed.created_wall_ms, parsed.is_deleted
    )
    return name, record


def encode_deleted(name: str) -> tuple[bytes, None]:
    """Encode key and value of a deleted topic."""
    return name.encode(), None
