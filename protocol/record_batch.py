"""Kafka's record batch, version 2: the format in which batches are stored and sent (KIP-98).

Everything here is a pure function over bytes. The checksum covers what follows it, so the base offset and the leader
epoch, which stand before it, may be stamped by whoever stores a batch.
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
"""Of a batch, before its records."""
LENGTH_END = 12
"""A batch's own `length` counts from here."""
MAGIC = 2
_MAGIC_AT = 16

_HEAD = struct.Struct(">qiibI")  # base offset, length, leader epoch, magic, crc
_BODY = struct.Struct(">hiqqqhii")  # what the crc covers, up to the records
_HEADER = struct.Struct(">qiibIhiqqqhii")
_EXTENT = struct.Struct(">qi11xi8xq")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")

_COMPRESSION = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
_CONTROL = 0x20
DELETE_HORIZON = 0x40
"""The base timestamp is when the batch's tombstones may go (KIP-534); its records' times still count from it."""

T = TypeVar("T")
Bytes = bytes | bytearray | memoryview


class CorruptBatch(Exception):
    """Bytes that are no sound batch; `position` is where in the data the batch begins."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"batch at position {position}: {reason}")
        self.position = position
        self.reason = reason


class UnsupportedMagic(CorruptBatch):
    """A message set of an older format (magic 0 or 1), or of one to come."""


class Record(msgspec.Struct, frozen=True, gc=False):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """`length` is the wire's: of the batch after its first twelve bytes; `size` is all of it."""

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
        """A `Compression`, or a number this format has no meaning for."""
        return self.attributes & _COMPRESSION

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def delete_horizon_ms(self) -> int:
        """When the tombstones among the records may go; -1 as long as compaction has not seen them."""
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
    """An uncompressed batch of (key, value) pairs, all of one timestamp and without headers. At least one record."""
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
    """The batch of `count` records that stand in `payload` one after the other. `producer` is its id, epoch and
    sequence."""
    body = _BODY.pack(attributes, count - 1, timestamp_ms, timestamp_ms, *producer, count) + payload
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
    """The batch of that header; nothing is derived but its length and checksum. `producer` is its id, epoch and
    sequence."""
    times = base_timestamp_ms, max_timestamp_ms
    body = _BODY.pack(attributes, last_offset_delta, *times, *producer, record_count) + payload
    return _HEAD.pack(base_offset, len(body) + 9, 0, MAGIC, crc32c(body)) + body


def empty_batch(base_offset: int, next_offset: int) -> bytes:
    """A batch without records, for the offsets of some that compaction has taken away. Readers pass over it."""
    body = _BODY.pack(0, next_offset - base_offset - 1, -1, -1, -1, -1, -1, 0)
    return _HEAD.pack(base_offset, HEADER_BYTES - LENGTH_END, 0, MAGIC, crc32c(body)) + body


def stamp(batch: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """The same batch at another base offset. Both fields lie outside of the crc."""
    return _OFFSET.pack(base_offset) + batch[8:12] + _EPOCH.pack(leader_epoch) + batch[16:]


# ------------------------------------------------------------------------------------------------------------ reading


def read_header(data: Bytes, position: int = 0) -> BatchHeader:
    """Only the header's own bytes need be there. Raises `CorruptBatch` if they are not, or say what cannot be."""
    left = len(data) - position
    if left < HEADER_BYTES:
        # Older formats have their magic in the same place, and shorter headers.
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
    """The header of a batch that is whole and whose checksum holds. Raises `CorruptBatch`, or `UnsupportedMagic`
    for message sets of older formats. Records are not looked at."""
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
    """The whole batches of `data`, in order; one cut off at the end is left out, as fetch replies have it. Checksums
    are not looked at. Raises `CorruptBatch` where a header is none.
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
    """What a walk over batches needs: base offset, next offset, size in bytes, largest timestamp. No object is made
    and nothing but the length is checked; the first 43 bytes must be there.
    """
    base_offset, length, last_offset_delta, max_timestamp_ms = _EXTENT.unpack_from(data, position)
    if length < HEADER_BYTES - LENGTH_END:
        raise CorruptBatch(position, f"length {length} is less than a header")
    return base_offset, base_offset + last_offset_delta + 1, length + LENGTH_END, max_timestamp_ms


def decode_batch(data: Bytes, position: int = 0, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> list[Record]:
    """The records of the batch at `position`. Its checksum is not looked at (`check_batch` does). Raises
    `CorruptBatch` if they are not what the header says, or would be more than `max_bytes` decompressed."""
    header = read_header(data, position)
    return decode_records(record_bytes(header, data, position, max_bytes=max_bytes), header, position)


def decode_records(payload: bytes, header: BatchHeader, position: int = 0) -> list[Record]:
    """The records in what `record_bytes` gave. Raises `CorruptBatch`; `position` is for its sentence."""
    return decode_as(Record, payload, header, position)


def decode_as(make: Make[T], payload: bytes, header: BatchHeader, position: int = 0) -> list[T]:
    """As `decode_records`, but records are what `make` makes of their five fields."""
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
    """What `record_bytes` gave, in parts of `most` records and a last one: each for `decode_records`, for whoever must
    not be kept for as long as a whole batch takes. Raises `CorruptBatch`."""
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
    """What follows the header of the batch at `position`, decompressed. Raises `CorruptBatch` if it is not all there,
    or would be more than `max_bytes`."""
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
