"""Keys and values of the offsets log as bytes: Kafka's own schemas (docs/spec/group-protocol.md#5.2), so that Kafka's
tools read it.

The key's version is the record's type. Offset commits are written as value v4 (v1 if the commit named a retention),
groups as value v3. All existing versions can be read. `LogCorrupt` is a value that does not parse; an unknown key
version is skipped.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache

from coordinator.records.consumer_codec import decode_consumer, encode_consumer
from coordinator.records.consumer_records import ConsumerRecord
from coordinator.records.fields import NO_TAGS, FieldReader, compact_bytes, nullable, sized_bytes, string
from coordinator.records.muster_codec import OwnRecord, decode_own, encode_own
from coordinator.records.records import (
    CommittedOffset,
    GroupMetadata,
    GroupTombstone,
    LogCorrupt,
    MemberRecord,
    OffsetTombstone,
    ShardRecord,
    TransactionEnded,
)
from protocol.record_batch import BatchHeader
from protocol.record_writing import encode_record, varint

_OFFSET_KEY, _GROUP_KEY = 1, 2
_NO_EPOCH = -1


# --- writing ---


def encode(record: ShardRecord) -> tuple[bytes, bytes | None]:
    """Encode key and value of a record; the value of a tombstone is None."""
    kind = type(record)
    if kind is CommittedOffset:
        return _offset_key(record), _offset_value(record)  # type: ignore[arg-type]
    if kind is OffsetTombstone:
        return _offset_key(record), None  # type: ignore[arg-type]
    if isinstance(record, GroupMetadata):
        return _group_key(record.group_id), _group_value(record)
    if isinstance(record, OwnRecord):
        return encode_own(record)
    if isinstance(record, GroupTombstone):
        return _group_key(record.group_id), None
    assert isinstance(record, ConsumerRecord)
    return encode_consumer(record)


def _offset_key(record: CommittedOffset | OffsetTombstone) -> bytes:
    group, topic = record.group_id.encode(), record.topic.encode()
    return b"".join(
        (
            b"\x00\x01",
            len(group).to_bytes(2, "big"),
            group,
            len(topic).to_bytes(2, "big"),
            topic,
            record.partition.to_bytes(4, "big"),
        )
    )


def _offset_value(record: CommittedOffset) -> bytes:
    if record.expire_timestamp_ms >= 0:
        times = struct.pack(">qq", record.commit_timestamp_ms, record.expire_timestamp_ms)
        return struct.pack(">hq", 1, record.offset) + string(record.metadata) + times
    head = struct.pack(">hqi", 4, record.offset, record.leader_epoch)
    metadata = b"\x01" if not record.metadata else compact_bytes(record.metadata.encode())
    tail = NO_TAGS if record.topic_id is None else ID_TAG + record.topic_id
    return head + metadata + record.commit_timestamp_ms.to_bytes(8, "big", signed=True) + tail


_COMMON_REST_BYTES = 28
"""Bytes from the partition up to the tags."""
LENGTH_AND_VERSION, LENGTH_AND_VERSION_WITH_ID = b"\x30\x00\x04", b"\x54\x00\x04"
"""Length and version 4 of a value without text: of 24 bytes, or of 42 with the topic's id."""
ID_TAG = b"\x01\x00\x10"
"""One tagged field: tag 0, of 16 bytes."""
_NO_HEADERS = b"\x00"
NO_TEXT = 1
_LONGER_FROM = frozenset({1 << 6, 1 << 13, 1 << 20})
"""Record indexes in a batch from which on an index takes another byte."""


@lru_cache(maxsize=4_096)
def commits_have_in_common(
    group_id: str, topic: str, topic_id: bytes | None, place_bytes: int
) -> tuple[Callable[..., bytes], bytes, bytes, bytes, bytes]:
    """Return the common parts of the records of a group's commits to a topic: a function that returns the bytes before
    the index, the index, the key up to the partition, and the rest. They have no text and no headers."""
    key = b"\x00\x01" + string(group_id) + string(topic)
    key = varint(len(key) + 4) + key
    head = LENGTH_AND_VERSION if topic_id is None else LENGTH_AND_VERSION_WITH_ID
    tail = (NO_TAGS if topic_id is None else ID_TAG + topic_id) + _NO_HEADERS
    before = varint(2 + place_bytes + len(key) + _COMMON_REST_BYTES + len(tail)) + b"\0\0"
    pack = struct.Struct(f">{len(before)}s{place_bytes}s{len(key)}si3sqiBq{len(tail)}s").pack
    return pack, before, key, head, tail


def encode_offsets(records: Sequence[CommittedOffset], max_bytes: int) -> bytes | None:
    """Encode the records of one group's commit as they are in a batch, one after the other; None if they are longer
    than `max_bytes`. At least one record.

    The bytes are those of `encode` and `encode_batch`, written as straight-line code for nearly all commits: no text,
    no retention. It is a large part of the cost of a commit.
    """
    pieces: list[bytes] = []
    topic, topic_id, size = records[0].topic, records[0].topic_id, 0
    pack, before, key, head, tail = commits_have_in_common(records[0].group_id, topic, topic_id, 1)
    for place, record in enumerate(records):
        if record.topic is not topic or record.topic_id is not topic_id or place in _LONGER_FROM:
            topic, topic_id = record.topic, record.topic_id
            pack, before, key, head, tail = commits_have_in_common(record.group_id, topic, topic_id, len(varint(place)))
        if record.metadata or record.expire_timestamp_ms >= 0:
            piece = encode_record(varint(place), *encode(record))
        else:
            piece = pack(
                before,
                varint(place),
                key,
                record.partition,
                head,
                record.offset,
                record.leader_epoch,
                NO_TEXT,
                record.commit_timestamp_ms,
                tail,
            )
        pieces.append(piece)
        size += len(piece)
        if size > max_bytes:
            return None
    return b"".join(pieces)


_MARKER_KEY, _MARKER_VALUE = struct.Struct(">hh"), struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


def encode_marker(record: TransactionEnded) -> tuple[bytes, bytes]:
    """Encode key and value of the control record that ends a transaction (KIP-98)."""
    kind = _COMMIT if record.is_committed else _ABORT
    return _MARKER_KEY.pack(0, kind), _MARKER_VALUE.pack(0, record.coordinator_epoch)


def decode_marker(header: BatchHeader, key: bytes | None, value: bytes | None) -> TransactionEnded | None:
    """Decode the marker; None if the control record is of another kind. Raises LogCorrupt."""
    if key is None or value is None or len(key) < _MARKER_KEY.size or len(value) < _MARKER_VALUE.size:
        raise LogCorrupt("a control record too short to be one")
    _version, kind = _MARKER_KEY.unpack_from(key)
    if kind not in (_ABORT, _COMMIT):
        return None
    _version, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
    return TransactionEnded(header.producer_id, header.producer_epoch, kind == _COMMIT, coordinator_epoch)


def _group_key(group_id: str) -> bytes:
    return b"\x00\x02" + string(group_id)


def _group_value(record: GroupMetadata) -> bytes:
    out = [
        b"\x00\x03",
        string(record.protocol_type),
        struct.pack(">i", record.generation_id),
        nullable(record.protocol),
        nullable(record.leader),
        struct.pack(">qi", record.state_timestamp_ms, len(record.members)),
    ]
    for member in record.members:
        out += (
            string(member.member_id),
            nullable(member.group_instance_id),
            string(member.client_id),
            string(member.client_host),
            struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
            sized_bytes(member.subscription),
            sized_bytes(member.assignment),
        )
    return b"".join(out)


# --- reading ---


def decode(key: bytes | None, value: bytes | None) -> ShardRecord | None:
    """Decode a record; None if its key is of an unknown type. Raises LogCorrupt."""
    if key is None:
        raise LogCorrupt("a record without a key")
    # Straight-line code for nearly all records, since loading a million offsets delays the start.
    if value is not None and key[:2] == b"\x00\x01" and value[:2] == b"\x00\x04":
        common = _decode_common_offset(key, value)
        if common is not None:
            return common
    reader = FieldReader(key)
    kind = reader.integer(2)
    if kind in (0, _OFFSET_KEY):
        group_id, topic, partition = reader.string(), reader.string(), reader.integer(4)
        if value is None:
            return OffsetTombstone(group_id, topic, partition)
        return _decode_offset(group_id, topic, partition, value)
    if kind == _GROUP_KEY:
        group_id = reader.string()
        return GroupTombstone(group_id) if value is None else _decode_group(group_id, value)
    return decode_consumer(key, value) or decode_own(key, value)


_OFFSET_HEAD = struct.Struct(">qi")
_COMMON_VALUE_BYTES = 24
_LEAST_OFFSET_KEY_BYTES = 10


def _decode_common_offset(key: bytes, value: bytes) -> CommittedOffset | None:
    """Decode a commit without text and tags whose lengths all fit; None for any other, which the reader decodes."""
    if len(value) != _COMMON_VALUE_BYTES or value[14] != 1 or value[23] != 0 or len(key) < _LEAST_OFFSET_KEY_BYTES:
        return None
    topic_at = 4 + (key[2] << 8 | key[3])
    partition_at = len(key) - 4
    if topic_at + 2 > partition_at or topic_at + 2 + (key[topic_at] << 8 | key[topic_at + 1]) != partition_at:
        return None
    try:
        group_id, topic = key[4:topic_at].decode(), key[topic_at + 2 : partition_at].decode()
    except UnicodeDecodeError:
        return None
    offset, leader_epoch = _OFFSET_HEAD.unpack_from(value, 2)
    partition = int.from_bytes(key[partition_at:], "big", signed=True)
    return CommittedOffset(
        group_id, topic, partition, offset, leader_epoch, "", int.from_bytes(value[15:23], "big", signed=True)
    )


def _decode_offset(group_id: str, topic: str, partition: int, value: bytes) -> CommittedOffset:
    reader = FieldReader(value)
    version = reader.integer(2)
    if not 0 <= version <= 4:
        raise LogCorrupt(f"an offset commit of unknown version {version}")
    if version >= 4:
        reader.use_compact_forms()
    offset = reader.integer(8)
    leader_epoch = reader.integer(4) if version >= 3 else _NO_EPOCH
    metadata = reader.string()
    commit_ms = reader.integer(8)
    expire_ms = reader.integer(8) if version == 1 else -1
    topic_id = reader.tags().get(0)
    return CommittedOffset(group_id, topic, partition, offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id)


def _decode_group(group_id: str, value: bytes) -> GroupMetadata:
    reader = FieldReader(value)
    version = reader.integer(2)
    if not 0 <= version <= 4:
        raise LogCorrupt(f"a group of unknown version {version}")
    if version >= 4:
        reader.use_compact_forms()
    protocol_type, generation_id = reader.string(), reader.integer(4)
    protocol, leader = reader.nullable(), reader.nullable()
    state_timestamp_ms = reader.integer(8) if version >= 2 else -1
    members = tuple(_decode_member(reader, version) for _ in range(reader.count()))
    reader.tags()
    return GroupMetadata(group_id, protocol_type, generation_id, protocol, leader, state_timestamp_ms, members)


def _decode_member(reader: FieldReader, version: int) -> MemberRecord:
    member_id = reader.string()
    instance_id = reader.nullable() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_ms = reader.integer(4) if version >= 1 else None
    session_ms = reader.integer(4)
    subscription, assignment = reader.data(), reader.data()
    reader.tags()
    return MemberRecord(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_ms if rebalance_ms is None else rebalance_ms,
        session_timeout_ms=session_ms,
        subscription=subscription,
        assignment=assignment,
    )
