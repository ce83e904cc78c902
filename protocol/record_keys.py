"""Records for compaction: their keys, tombstone flags and bytes, and batches of the records that are kept."""

from collections.abc import Sequence

import msgspec

from protocol.record_batch import DELETE_HORIZON, LOG_APPEND_TIME, BatchHeader, CorruptBatch, pack_batch
from protocol.record_compression import compress
from protocol.record_writing import varint

_FAR_MS = 2**62


class Keyed(msgspec.Struct, frozen=True, gc=False):
    """One record. `rest`: its bytes after the offset delta: key, value, headers."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    has_value: bool
    rest: bytes


def keyed_records(payload: bytes, header: BatchHeader) -> list[Keyed]:
    """Return the records in a payload of `record_bytes`, in order; headers are skipped by the record's length. Raises
    `CorruptBatch`."""
    base_offset, base_ms = header.base_offset, header.base_timestamp_ms
    fixed_ms = header.max_timestamp_ms if header.attributes & LOG_APPEND_TIME else None
    found: list[Keyed] = []
    at, size = 0, len(payload)
    try:
        for _ in range(header.record_count):
            # Nearly all numbers have one byte, and are read inline.
            if (byte := payload[at]) < 0x80:
                length, at = (byte >> 1) ^ -(byte & 1), at + 1
            else:
                length, at = _varint(payload, at)
            end = at + length
            if not at < end <= size:
                raise CorruptBatch(0, "a record reaches beyond its batch")
            if (byte := payload[at + 1]) < 0x80:
                delta_ms, at = (byte >> 1) ^ -(byte & 1), at + 2
            else:
                delta_ms, at = _varint(payload, at + 1)
            if (byte := payload[at]) < 0x80:
                delta, rest_at = (byte >> 1) ^ -(byte & 1), at + 1
            else:
                delta, rest_at = _varint(payload, at)
            if (byte := payload[rest_at]) < 0x80:
                key_bytes, at = (byte >> 1) ^ -(byte & 1), rest_at + 1
            else:
                key_bytes, at = _varint(payload, rest_at)
            key = None
            if key_bytes >= 0:
                key = payload[at : at + key_bytes]
                at += key_bytes
            if at >= end:
                raise CorruptBatch(0, "a key reaches beyond its record")
            timestamp_ms = base_ms + delta_ms if fixed_ms is None else fixed_ms
            # An even number is a length that is not negative (zigzag), so the value is not null.
            found.append(Keyed(base_offset + delta, timestamp_ms, key, not payload[at] & 1, payload[rest_at:end]))
            at = end
    except IndexError:
        raise CorruptBatch(0, "a record reaches beyond its batch") from None
    if at != size:
        raise CorruptBatch(0, f"{size - at} bytes follow the last record")
    return found


def join_records(
    records: Sequence[Keyed], *, compression: int, append_time: bool, delete_horizon_ms: int = -1
) -> bytes:
    """Return a batch of the records that compaction keeps, at their own offsets, without producer and transaction. A
    delete horizon (KIP-534) is the time from which its tombstones may be removed. At least one record, ascending."""
    first, last = records[0], records[-1]
    has_horizon = delete_horizon_ms >= 0
    times = [record.timestamp_ms for record in records]
    base_ms = delete_horizon_ms if has_horizon else _in_64_bits(times[0])
    deltas = [time - base_ms for time in times]
    if min(deltas) < -_FAR_MS or max(deltas) > _FAR_MS or max(times) > _FAR_MS:
        times, deltas = list(map(_in_64_bits, times)), list(map(_in_64_bits, deltas))
    pieces: list[bytes] = []
    for record, delta_ms in zip(records, deltas, strict=True):
        body = b"\0" + varint(delta_ms) + varint(record.offset - first.offset) + record.rest
        pieces += (varint(len(body)), body)
    payload = b"".join(pieces)
    attributes = compression | (LOG_APPEND_TIME if append_time else 0) | (DELETE_HORIZON if has_horizon else 0)
    return pack_batch(
        compress(compression, payload),
        base_offset=first.offset,
        attributes=attributes,
        last_offset_delta=last.offset - first.offset,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max(times),
        record_count=len(records),
    )


def _in_64_bits(number: int) -> int:
    """Wrap the number to 64 bits, as Java does: the sum of a producer's base timestamp and delta may overflow."""
    return (number + 2**63) % 2**64 - 2**63


def _varint(buffer: bytes, at: int) -> tuple[int, int]:
    byte = buffer[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    number, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = buffer[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + 1
        shift += 7
        if shift > 63:
            raise CorruptBatch(0, "a number of more than ten bytes")
