"""Kafka's record batch, version 2: the format in which batches are stored and sent (KIP-98).

All functions here are pure functions over bytes. The checksum covers only the bytes after it. So a log can set the base
offset and the leader epoch, which lie before it.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NoReturn, TypeVar

import msgspec
from crc32c import crc32c

from protocol.record_compression import MAX_DECOMPRESSED_BYTES, CannotDecompress, decompress
from protocol.record_reading import Make, NotRecords, read_records, read_varint
from protocol.record_writing import encode_record, varint

HEADER_BYTES = 61
"""Size of a batch's header."""
LENGTH_END = 12
"""Position in a batch after the field `length`, from which the length counts."""
MAGIC = 2
_MAGIC_AT = 16

_HEAD = struct.Struct(">qiibI")  # base offset, length, leader epoch, magic, crc
BODY_CODE = "hiqqqhii"
"""Code of `struct` for the fields that the checksum covers, up to the records: attributes, last offset delta, base and
largest timestamp, the producer's id, epoch and sequence, and the number of records."""
_BODY = struct.Struct(f">{BODY_CODE}")
_HEADER = struct.Struct(">qiibIhiqqqhii")
_EXTENT = struct.Struct(">qi11xi8xq")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")

_COMPRESSION = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
_CONTROL = 0x20
DELETE_HORIZON = 0x40
"""Attribute: the base timestamp is the time from which tombstones may be removed (KIP-534). Timestamps of records are
relative to it as usual."""

T = TypeVar("T")
Bytes = bytes | bytearray | memoryview


class CorruptBatch(Exception):
    """Raised for bytes that are not a valid batch; `position` is the beginning of the batch in the data."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"batch at position {position}: {reason}")
        self.position = position
        self.reason = reason


class UnsupportedMagic(CorruptBatch):
    """Raised for a message set of an older format (magic 0 or 1), or of a newer one."""


class Record(msgspec.Struct, frozen=True, gc=False):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """Header of a batch. `length` is the wire's field, without the first twelve bytes; `size` counts all bytes."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.length + LENGTH_END

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """Codec: a `Compression`, or an unassigned number."""
        return self.attributes & _COMPRESSION

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def delete_horizon_ms(self) -> int:
        """Time from which the batch's tombstones may be removed; -1 until compaction has set it."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON else -1


# ------------------------------------------------------------------------------------------------------------ writing


def encode_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = 0,
) -> bytes:
    """Return an uncompressed batch of (key, value) pairs with one timestamp and no headers. At least one record."""
    count = len(records)
    if count == 1:
        key, value = records[0]
        payload = encode_record(b"\0", key, value)
    elif count:
        payload = b"".join([encode_record(varint(delta), key, value) for delta, (key, value) in enumerate(records)])
    else:
        raise ValueError("a batch has at least one record")
    attributes = (TRANSACTIONAL if transactional else 0) | (_CONTROL if control else 0)
    producer = producer_id, producer_epoch, base_sequence
    return seal_batch(payload, count, timestamp_ms, attributes, producer, base_offset, leader_epoch)


def seal_batch(
    payload: bytes,
    count: int,
    timestamp_ms: int,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """Return the batch of the `count` encoded records in `payload`. `producer`: its id, epoch and sequence."""
    body = _BODY.pack(attributes, count - 1, timestamp_ms, timestamp_ms, *producer, count) + payload
    return seal_body(body, base_offset, leader_epoch)


def seal_body(body: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """Return the batch with this body, the bytes that the checksum covers."""
    # The length counts the leader epoch, the magic and the crc too: nine bytes.
    return _HEAD.pack(base_offset, len(body) + 9, leader_epoch, MAGIC, crc32c(body)) + body


def pack_batch(
    payload: bytes,
    *,
    base_offset: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    record_count: int,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """Return a batch with these header fields; only length and checksum are computed. `producer`: its id, epoch and
    sequence."""
    times = base_timestamp_ms, max_timestamp_ms
    body = _BODY.pack(attributes, last_offset_delta, *times, *producer, record_count) + payload
    return _HEAD.pack(base_offset, len(body) + 9, 0, MAGIC, crc32c(body)) + body


def empty_batch(base_offset: int, next_offset: int) -> bytes:
    """Return a batch without records, in place of records that compaction has removed. Readers skip it."""
    body = _BODY.pack(0, next_offset - base_offset - 1, -1, -1, -1, -1, -1, 0)
    return _HEAD.pack(base_offset, HEADER_BYTES - LENGTH_END, 0, MAGIC, crc32c(body)) + body


def stamp(batch: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """Return the batch with another base offset and leader epoch. The checksum covers neither."""
    return _OFFSET.pack(base_offset) + batch[8:12] + _EPOCH.pack(leader_epoch) + batch[16:]


# ------------------------------------------------------------------------------------------------------------ reading


def read_header(data: Bytes, position: int = 0) -> BatchHeader:
    """Read a batch's header; the records may be missing. Raises `CorruptBatch` if the header is incomplete or
    impossible."""
    left = len(data) - position
    if left < HEADER_BYTES:
        # Older formats have the magic at the same position, and shorter headers.
        if left > _MAGIC_AT and data[position + _MAGIC_AT] < MAGIC:
            raise UnsupportedMagic(position, f"magic {data[position + _MAGIC_AT]}, only {MAGIC} is understood")
        raise CorruptBatch(position, f"{left} bytes are no whole header")
    header = BatchHeader(*_HEADER.unpack_from(data, position))
    if header.magic != MAGIC:
        raise UnsupportedMagic(position, f"magic {header.magic}, only {MAGIC} is understood")
    if header.length < HEADER_BYTES - LENGTH_END:
        raise CorruptBatch(position, f"length {header.length} is less than a header")
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise CorruptBatch(
            position, f"{header.record_count} records cannot span {header.last_offset_delta + 1} offsets"
        )
    return header


def check_batch(data: Bytes, position: int = 0) -> BatchHeader:
    """Check a whole batch's size and checksum, and return its header; its records are not read. Raises `CorruptBatch`,
    or `UnsupportedMagic` for message sets of older formats."""
    header = read_header(data, position)
    end = position + header.size
    if len(data) < end:
        raise CorruptBatch(position, f"{len(data) - position} bytes of {header.size}")
    with memoryview(data) as view, view[position + 21 : end] as covered:
        crc = crc32c(covered)
    if crc != header.crc:
        raise CorruptBatch(position, f"crc {crc:#010x}, its header says {header.crc:#010x}")
    return header


def batches(data: Bytes) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the whole batches of `data`, in order. A partial batch at the end, as in Fetch replies, is omitted.
    Checksums are not checked. Raises `CorruptBatch` for an impossible header.
    """
    view = memoryview(data)
    position = 0
    while len(view) - position >= HEADER_BYTES:
        header = read_header(view, position)
        end = position + header.size
        if end > len(view):
            return
        yield header, view[position:end]
        position = end


def extent(data: Bytes, position: int = 0) -> tuple[int, int, int, int]:
    """Return base offset, next offset, size in bytes and largest timestamp of a batch, for loops over many batches.
    Makes no header object, and checks only the length; the first 43 bytes must be present.
    """
    base_offset, length, last_offset_delta, max_timestamp_ms = _EXTENT.unpack_from(data, position)
    if length < HEADER_BYTES - LENGTH_END:
        raise CorruptBatch(position, f"length {length} is less than a header")
    return base_offset, base_offset + last_offset_delta + 1, length + LENGTH_END, max_timestamp_ms


def decode_batch(data: Bytes, position: int = 0, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> list[Record]:
    """Return the records of the batch at `position`. Its checksum is not checked (`check_batch` does). Raises
    `CorruptBatch` if they contradict the header, or exceed `max_bytes` decompressed."""
    header = read_header(data, position)
    return decode_records(record_bytes(header, data, position, max_bytes=max_bytes), header, position)


def decode_records(payload: bytes, header: BatchHeader, position: int = 0) -> list[Record]:
    """Return the records in a payload of `record_bytes`. Raises `CorruptBatch`, with `position`."""
    return decode_as(Record, payload, header, position)


def decode_as(make: Make[T], payload: bytes, header: BatchHeader, position: int = 0) -> list[T]:
    """Decode records like `decode_records`, into the objects that `make` builds from their five fields."""
    fixed_timestamp = header.max_timestamp_ms if header.attributes & LOG_APPEND_TIME else None
    try:
        return read_records(
            make, payload, header.record_count, header.base_offset, header.base_timestamp_ms, fixed_timestamp
        )
    except NotRecords as error:
        raise CorruptBatch(position, str(error)) from None
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptBatch(position, f"its records are no records: {error}") from None


def record_slices(payload: bytes, header: BatchHeader, most: int) -> Iterator[tuple[bytes, BatchHeader]]:
    """Split a payload of `record_bytes` into parts of `most` records, each with a header for `decode_records`, so that
    a large batch can be decoded in several steps. Raises `CorruptBatch`."""
    left, start = header.record_count, 0
    try:
        while left > most:
            at = start
            for _ in range(most):
                length, at = read_varint(payload, at)
                if length < 0:
                    _corrupt(0, "a record of less than nothing")
                at += length
            yield payload[start:at], msgspec.structs.replace(header, record_count=most)
            left, start = left - most, at
    except IndexError:
        _corrupt(0, "a record reaches beyond its batch")
    yield (payload[start:], msgspec.structs.replace(header, record_count=left)) if start else (payload, header)


def record_bytes(
    header: BatchHeader, data: Bytes, position: int = 0, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes:
    """Return the decompressed payload of the batch at `position`. Raises `CorruptBatch` if it is incomplete, or exceeds
    `max_bytes`."""
    end = position + header.size
    if len(data) < end:
        raise CorruptBatch(position, f"{len(data) - position} bytes of {header.size}")
    with memoryview(data) as view:
        payload = bytes(view[position + HEADER_BYTES : end])
    if not header.compression:
        return payload
    try:
        return decompress(header.compression, payload, max_bytes)
    except CannotDecompress as error:
        raise CorruptBatch(position, str(error)) from None


def _corrupt(position: int, reason: str) -> NoReturn:
    raise CorruptBatch(position, reason)
