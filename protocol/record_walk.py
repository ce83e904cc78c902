"""Validates the records of produced batches against their headers, without building objects.

All fields that readers rely on are checked: the records must fill the payload exactly, offset deltas must be 0, 1, 2
..., and a record's key, value and headers must end where the record does. Keys and values are skipped. A Produce of
small records spends most of its time here, so this is straight-line code for numbers of one and two bytes.

Runs of records with equal lengths in all fields, which programs often write, are compared a column at a time: byte k of
every record of a run is a slice with a step. That takes about 30 nanoseconds a record, the loop 600. Records without
keys, of any lengths, take 330, since their length and number determine all bytes between timestamp and value.
"""

from functools import cache, lru_cache
from typing import NamedTuple

from protocol.record_batch import LOG_APPEND_TIME, BatchHeader, CorruptBatch
from protocol.record_writing import varint

_BLOCK = 1024
_LONGEST_VALUE = 2048
_TRY_AGAIN = 32  # records until the next attempt, after one without a run
_LEAST_RUN = 8
_LEAST_STRIDE = 9  # size of the shortest record with all fields of a run's records

# Numbers below these take one, two and three bytes: zigzag doubles a number, and a byte has seven bits of it.
_SHORT, _LONG, _LONGER = 64, 8192, 1 << 20
_LOW = bytes([number * 2 & 0x7F | 0x80 for number in range(_LONG)])
_HIGH = bytes([number * 2 >> 7 for number in range(_LONG)])
_MIDDLE = bytes([byte | 0x80 for byte in _HIGH])
_NOT_ONE_BYTE = 255
_SIGNED = bytes([((byte >> 1) ^ -(byte & 1)) + 64 if byte < 0x80 else _NOT_ONE_BYTE for byte in range(256)])


MOST_HEADERS = 100_000


class TooManyHeaders(CorruptBatch):
    """Raised for more headers than allowed, since each costs as much as a record, and its two bytes compress well."""


class CheckedRecords(NamedTuple):
    """Largest timestamp of the records, and the microseconds of the check, estimated from counts."""

    newest_ms: int
    cost_us: int


def walk_records(payload: bytes, header: BatchHeader, most_headers: int = MOST_HEADERS) -> CheckedRecords:
    """Check the records in `payload`. Raises `CorruptBatch` if they are malformed or contradict the header's count or
    offsets, and `TooManyHeaders`."""
    try:
        delta_ms, cost_us = _walk(payload, header.record_count, most_headers)
        return CheckedRecords(header.base_timestamp_ms + delta_ms, cost_us)
    except IndexError:
        raise CorruptBatch(0, "a record reaches beyond its batch") from None
    except UnicodeDecodeError as error:
        raise CorruptBatch(0, f"the name of a header is no text: {error}") from None


# Inlined, since a call would take longer than its body.
def _walk(buffer: bytes, count: int, most_headers: int) -> tuple[int, int]:  # noqa: C901, PLR0912, PLR0915
    """Return the largest timestamp delta, and the cost in microseconds."""
    at = number = 0
    in_runs = keyless = 0
    headers_left = most_headers
    try_at, wait = 0, _TRY_AGAIN  # next record at which to try a run, and the pause after that
    newest = -(2**70)
    while number < count:
        start = at
        # its length
        byte = buffer[at]
        if byte >= 0x80 and (second := buffer[at + 1]) < 0x80 and not byte & 1:
            end = at + 2 + ((byte & 0x7F | second << 7) >> 1)
            at += 3  # including the record's attributes, which Kafka does not use
        else:
            length, at = _varint(buffer, at)
            end = at + length
            at += 1
        if number == try_at:
            run, delta = _run(buffer, start, end - start, number, count)
            stop = start + run * (end - start)
            in_runs += run
            if not run:
                run, delta, stop = _keyless(buffer, start, number, count)
                keyless += run
            # A failed attempt takes time, too, so attempts become rarer after failures.
            wait = _TRY_AGAIN if run >= _LEAST_RUN else min(wait * 2, _BLOCK)
            try_at = number + (run if run >= _LEAST_RUN else wait)
            if run:
                newest = max(newest, delta)
                number += run
                at = stop
                continue
        # its timestamp
        byte = buffer[at]
        if byte < 0x80:
            delta = (byte >> 1) ^ -(byte & 1)
            at += 1
        else:
            delta, at = _varint(buffer, at)
        if delta > newest:
            newest = delta
        # its offset
        byte = buffer[at]
        if byte >= 0x80 and (second := buffer[at + 1]) < 0x80:
            twice = byte & 0x7F | second << 7
            at += 2
        elif byte < 0x80:
            twice = byte
            at += 1
        else:
            twice, at = _varint(buffer, at)
            twice *= 2
        if twice != number * 2:
            raise CorruptBatch(0, f"record {number} of its batch says it is another")
        # its key
        byte = buffer[at]
        if byte == 1:
            at += 1
        elif byte < 0x80 and not byte & 1:
            at += 1 + (byte >> 1)
        else:
            at = _past_field(buffer, at)
        # its value
        byte = buffer[at]
        if byte & 1:
            at = _past_field(buffer, at)
        elif byte < 0x80:
            at += 1 + (byte >> 1)
        elif (second := buffer[at + 1]) < 0x80:
            at += 2 + ((byte & 0x7F | second << 7) >> 1)
        else:
            at = _past_field(buffer, at)
        # its headers
        if buffer[at]:
            at, headers_left = _past_headers(buffer, at, headers_left)
        else:
            at += 1
        if at != end:
            raise CorruptBatch(0, f"record {number} ends at {at}, not at {end} as it says")
        number += 1
    if at != len(buffer):
        raise CorruptBatch(0, f"{len(buffer) - at} bytes follow the last record")
    hundredths = 4 * in_runs + 35 * keyless + 65 * (count - in_runs - keyless + most_headers - headers_left)
    return newest, hundredths // 100


def _run(buffer: bytes, start: int, stride: int, number: int, count: int) -> tuple[int, int]:
    """Return the number of records from `number` on that are valid and have the same lengths, and their largest
    timestamp delta; 0 if there are few, or if they must be checked one by one. Offset deltas of a run have one
    width."""
    if stride < _LEAST_STRIDE or _same(buffer[start : start + _LEAST_RUN * stride : stride]) < _LEAST_RUN:
        return 0, 0
    width, limit = _width(number)
    stop = min(len(buffer), start + (min(count, limit) - number) * stride)
    length_bytes = 1 if buffer[start] < 0x80 else 2
    run = min([_same(buffer[column:stop:stride]) for column in range(start, start + length_bytes)])
    stop = start + run * stride
    if run < _LEAST_RUN or stop > len(buffer) or width == 0:
        return 0, 0
    # Equal lengths confirm the positions of the records. Anything unusual from here on is left to the loop.
    at = start + length_bytes + 1
    newest = max(buffer[at:stop:stride].translate(_SIGNED))
    if newest == _NOT_ONE_BYTE or not _are_numbers(buffer, at + 1, stop, stride, number, run):
        return 0, 0
    key = at + 1 + width
    after_key = key + (1 if buffer[key] & 1 else 1 + (buffer[key] >> 1))
    if buffer[key] >= 0x80 or after_key + 2 >= start + stride:
        return 0, 0
    size, after_size = _varint(buffer, after_key)
    fits = size >= 0 and after_size + size + 1 == start + stride
    lengths = (key, *range(after_key, after_size))
    if not fits or any(_same(buffer[column:stop:stride]) < run for column in lengths):
        return 0, 0
    has_headers = any(buffer[start + stride - 1 : stop : stride])
    return (0, 0) if has_headers else (run, newest - 64)


def _keyless(buffer: bytes, start: int, number: int, count: int) -> tuple[int, int, int]:
    """Return the number of valid records without key and headers from `number` on, their largest timestamp delta, and
    the position after them. A record's length and number determine all bytes between its timestamp and value."""
    width, limit = _width(number)
    if not width:
        return 0, 0, start
    tails, has = _tails(width), buffer.startswith
    block, first = divmod(number, _BLOCK)
    at, run, time, newest = start, 0, -1, 0
    try:
        for offset in _offsets(block)[first : first + min(count, limit) - number]:
            twice, inside = buffer[at], at + 1
            if twice >= 0x80:
                twice, inside = twice & 0x7F | buffer[inside] << 7, at + 2
            if buffer[inside + 1] != time:
                time = buffer[inside + 1]
                if time >= 0x80:
                    break
                newest = max(newest, _SIGNED[time])
            end = inside + (twice >> 1)
            if not has(offset + tails[twice], inside + 2) or buffer[end - 1]:
                break
            at = end
            run += 1
    except (IndexError, KeyError):  # another layout, or cut off: left to the loop
        pass
    return run, newest - 64, at


@lru_cache(maxsize=64)
def _offsets(block: int) -> list[bytes]:
    """Return the offset deltas of a block of a thousand records, encoded as in records."""
    return [varint(number) for number in range(block * _BLOCK, (block + 1) * _BLOCK)]


@cache
def _tails(width: int) -> dict[int, bytes]:
    """Return, by the zigzag form of a record's length, the encoded null key and value length of a record without
    headers whose offset delta has `width` bytes."""
    lengths = [varint(size) for size in range(_LONGEST_VALUE)]
    return {2 * (2 + width + 1 + len(told) + size + 1): b"\1" + told for size, told in enumerate(lengths)}


def _width(number: int) -> tuple[int, int]:
    """Return the bytes of this record's offset delta, and the first record whose delta has more bytes."""
    if number < _SHORT:
        return 1, _SHORT
    width = 2 if number < _LONG else 3 if number < _LONGER else 0
    return width, number - number % _LONG + _LONG


def _same(column: bytes) -> int:
    """Return the number of equal bytes at the beginning of the column."""
    return len(column) - len(column.lstrip(column[:1]))


def _are_numbers(buffer: bytes, at: int, stop: int, stride: int, number: int, run: int) -> bool:
    """Return true if the run's offset deltas are `number`, `number` + 1 and so on."""
    if number < _SHORT:
        return buffer[at:stop:stride] == bytes(range(number * 2, (number + run) * 2, 2))
    block, first = divmod(number, _LONG)
    if buffer[at:stop:stride] != _LOW[first : first + run]:
        return False
    second = buffer[at + 1 : stop : stride]
    if not block:
        return second == _HIGH[first : first + run]
    return second == _MIDDLE[first : first + run] and buffer[at + 2 : stop : stride] == bytes([block]) * run


def _varint(buffer: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := buffer[at]) >= 0x80:
        number |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if shift > 63:
            raise CorruptBatch(0, "a number of more than ten bytes")
    number |= byte << shift
    return (number >> 1) ^ -(number & 1), at + 1


def _past_field(buffer: bytes, at: int) -> int:
    length, at = _varint(buffer, at)
    return at + max(length, 0)


def _past_headers(buffer: bytes, at: int, most: int) -> tuple[int, int]:
    """Return the position after the headers, and the number of headers still allowed."""
    count, at = _varint(buffer, at)
    if not 0 <= count <= len(buffer):
        raise CorruptBatch(0, f"{count} headers")
    if count > most:
        raise TooManyHeaders(0, f"{count} headers of a record, at most {most} more are allowed")
    for _ in range(count):
        length, at = _varint(buffer, at)
        if length < 0:
            raise CorruptBatch(0, "a header without a name")
        buffer[at : at + length].decode()
        at = _past_field(buffer, at + length)
    return at, most - count


def first_at(payload: bytes, header: BatchHeader, timestamp_ms: int, offset: int) -> tuple[int, int] | None:
    """Return offset and timestamp of the first record from `offset` on that is not older than `timestamp_ms`; None if
    there is none. Keys, values and headers are skipped. Raises `CorruptBatch`."""
    wanted_delta = timestamp_ms - header.base_timestamp_ms
    wanted_offset = offset - header.base_offset
    if header.attributes & LOG_APPEND_TIME:
        wanted_delta = -(2**70) if timestamp_ms <= header.max_timestamp_ms else 2**70
    at = 0
    try:
        for _ in range(header.record_count):
            length, at = _varint(payload, at)
            end = at + length
            if not at < end <= len(payload):
                raise CorruptBatch(0, "a record reaches beyond its batch")
            delta, at = _varint(payload, at + 1)
            if delta >= wanted_delta:
                offset_delta, at = _varint(payload, at)
                if offset_delta >= wanted_offset:
                    found_ms = header.base_timestamp_ms + delta
                    is_appended = header.attributes & LOG_APPEND_TIME
                    return header.base_offset + offset_delta, header.max_timestamp_ms if is_appended else found_ms
            at = end
    except IndexError:
        raise CorruptBatch(0, "a record reaches beyond its batch") from None
    return None


def oldest_timestamp(payload: bytes, header: BatchHeader) -> int:
    """Return the smallest timestamp of records that `walk_records` has checked."""
    at, oldest = 0, 2**70
    for _ in range(header.record_count):
        length, at = _varint(payload, at)
        oldest = min(oldest, _varint(payload, at + 1)[0])
        at += length
    return header.base_timestamp_ms + oldest
