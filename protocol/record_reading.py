"""Reads the records of a batch fast, since every record that a client consumes is decoded here.

Records of one batch are usually alike. In a run of records with the same length and layout, equal fields form columns:
a slice with a step compares a whole column at once, `struct` extracts keys and values, and no Python code runs for a
single record. Other records are read one by one, with numbers of one and two bytes inline.
"""

from collections.abc import Callable, Iterable
from itertools import repeat
from struct import Struct
from typing import TypeVar

T = TypeVar("T")

Headers = tuple[tuple[str, bytes | None], ...]
Make = Callable[[int, int, bytes | None, bytes | None, Headers], T]
"""Function from offset, timestamp, key, value and headers to a record."""

_MOST_HEADERS = 1_000_000  # in a batch: each header is an object, but only two bytes, which compress well
_ALIKE = 32
"""Number of like records from which a run is worth its setup."""
_MOST_AT_ONCE = 4_096


_ENDS, _GOES_ON = bytes(range(0x80)), bytes(range(0x80, 0x100))
"""Bytes that end a varint, and bytes after which it continues."""
_COUNTED = range(64, 8_192)
"""Numbers that take two bytes as zigzag varints; offset deltas mostly count up through them."""
_COUNTED_LOW = bytes(2 * number & 0x7F | 0x80 for number in _COUNTED)
_COUNTED_HIGH = bytes(number >> 6 for number in _COUNTED)


class NotRecords(ValueError):
    """Raised for a payload that contradicts its batch's header."""


def read_records(  # noqa: C901, PLR0912, PLR0915  (calls cost more than what they would do)
    make: Make[T], buffer: bytes, count: int, base_offset: int, base_timestamp: int, fixed_timestamp: int | None
) -> list[T]:
    """Read all `count` records of a payload. Raises NotRecords, IndexError or UnicodeDecodeError if it holds anything
    else. A `fixed_timestamp` replaces the records' own.
    """
    records: list[T] = []
    headers_left = _MOST_HEADERS
    at, size = 0, len(buffer)
    left, stride, try_at = count, -1, count - 1  # the first record sets the length of a run's records
    while left:
        if left <= try_at and left >= _ALIKE:
            run = _read_run(make, buffer, at, stride, left, base_offset, base_timestamp, fixed_timestamp)
            records += run
            left -= len(run)
            at += len(run) * stride
            try_at = left - (1 if run else _ALIKE)
            if not left:
                break
        begin = at
        number = buffer[at]
        at += 1
        if number >= 0x80:
            byte = buffer[at]
            if byte < 0x80:
                number = number & 0x7F | byte << 7
                at += 1
            else:
                number, at = _read_uvarint(buffer, at - 1)
        length = (number >> 1) ^ -(number & 1)
        end = at + length
        if length < 0 or end > size:
            raise NotRecords("a record reaches beyond its batch")
        at += 1  # the record's attributes are unused

        number = buffer[at]
        at += 1
        if number >= 0x80:
            number, at = _read_uvarint(buffer, at - 1)
        timestamp_delta = (number >> 1) ^ -(number & 1)

        number = buffer[at]
        at += 1
        if number >= 0x80:
            byte = buffer[at]
            if byte < 0x80:
                number = number & 0x7F | byte << 7
                at += 1
            else:
                number, at = _read_uvarint(buffer, at - 1)
        offset_delta = (number >> 1) ^ -(number & 1)

        number = buffer[at]
        at += 1
        if number >= 0x80:
            number, at = _read_uvarint(buffer, at - 1)
        key: bytes | None
        if number & 1:
            key = None
        else:
            number >>= 1
            key = buffer[at : at + number]
            at += number

        number = buffer[at]
        at += 1
        if number >= 0x80:
            byte = buffer[at]
            if byte < 0x80:
                number = number & 0x7F | byte << 7
                at += 1
            else:
                number, at = _read_uvarint(buffer, at - 1)
        value: bytes | None
        if number & 1:
            value = None
        else:
            number >>= 1
            value = buffer[at : at + number]
            at += number

        headers: Headers = ()
        if buffer[at] == 0:
            at += 1
        else:
            headers, at = _read_headers(buffer, at, headers_left)
            headers_left -= len(headers)
        if at != end:
            raise NotRecords(f"a record ends at {at}, not at {end} as it says")
        records.append(
            make(
                base_offset + offset_delta,
                base_timestamp + timestamp_delta if fixed_timestamp is None else fixed_timestamp,
                key,
                value,
                headers,
            )
        )
        left -= 1
        stride = end - begin
    if at != size:
        raise NotRecords(f"{size - at} bytes follow the last record")
    return records


def _read_run(
    make: Make[T],
    buffer: bytes,
    begin: int,
    stride: int,
    most: int,
    base_offset: int,
    base_timestamp: int,
    fixed_timestamp: int | None,
) -> list[T]:
    """Read the records from `begin` on that have the first one's layout, `stride` bytes each; maybe none."""
    most = min(most, _MOST_AT_ONCE, (len(buffer) - begin) // stride if stride > 0 else 0)
    if most < _ALIKE:
        return []
    for column in begin, begin + stride - 1:  # most records of another layout differ in these
        few = buffer[column : begin + _ALIKE * stride : stride]
        if few.count(few[:1]) != _ALIKE:
            return []
    if buffer[begin + stride - 1] != 0:
        return []
    length, at = read_varint(buffer, begin)
    time_at = at + 1
    _, offset_at = read_varint(buffer, time_at)
    _, key_at = read_varint(buffer, offset_at)
    key_bytes, key_begin = read_varint(buffer, key_at)
    key_end = key_begin + max(key_bytes, 0)
    if at + length != begin + stride or key_end >= begin + stride:
        return []
    value_bytes, value_begin = read_varint(buffer, key_end)
    value_end = value_begin + max(value_bytes, 0)
    if value_end != begin + stride - 1 or key_at - offset_at > 3 or offset_at - time_at > 3:
        return []
    columns = [buffer[place : begin + most * stride : stride] for place in range(begin, value_begin)]
    fixed = (
        *range(at - begin),
        *range(key_at - begin, key_begin - begin),
        *range(key_end - begin, value_begin - begin),
    )
    ends = [*(columns[place] for place in fixed), buffer[begin + stride - 1 : begin + most * stride : stride]]
    count = min(len(column) - len(column.lstrip(column[:1])) for column in ends)
    times, offsets = columns[time_at - begin : offset_at - begin], columns[offset_at - begin : key_at - begin]
    count = min(count, _same_width(times), _same_width(offsets))
    if count < _ALIKE:
        return []
    fields = Struct(
        f"{key_begin - begin}x{_cut(key_bytes)}{value_begin - key_end}x{_cut(value_bytes)}{begin + stride - value_end}x"
    ).iter_unpack(memoryview(buffer)[begin : begin + count * stride])
    keys: Iterable[bytes | None] = repeat(None)
    values: Iterable[bytes | None] = repeat(None)
    if key_bytes >= 0 and value_bytes >= 0:
        keys, values = zip(*fields, strict=True)
    elif key_bytes >= 0:
        keys = [key for (key,) in fields]
    elif value_bytes >= 0:
        values = [value for (value,) in fields]
    timestamps: Iterable[int] = (
        repeat(fixed_timestamp) if fixed_timestamp is not None else _numbers(times, base_timestamp, count)
    )
    return list(map(make, _numbers(offsets, base_offset, count), timestamps, keys, values, repeat((), count)))


def _cut(length: int) -> str:
    return f"{length}s" if length >= 0 else ""


def _same_width(columns: list[bytes]) -> int:
    """Return the number of leading rows whose varint has as many bytes as there are columns."""
    *high, low = columns
    rows = [len(column) - len(column.lstrip(_GOES_ON)) for column in high]
    return min([*rows, len(low) - len(low.lstrip(_ENDS))])


def _numbers(columns: list[bytes], base: int, count: int) -> Iterable[int]:
    """Return the first `count` numbers of columns of one width (at most three bytes), plus `base`."""
    if all(column.startswith(column[:1] * count) for column in columns):
        return repeat(base + read_varint(bytes(column[0] for column in columns), 0)[0], count)
    if len(columns) == 1:
        return [base + ((low >> 1) ^ -(low & 1)) for low in columns[0][:count]]
    low_bits = columns[0][:count]
    if len(columns) == 2:
        first = (columns[0][0] & 0x7F | columns[1][0] << 7) >> 1
        rows = slice(first - _COUNTED.start, first - _COUNTED.start + count)
        if (
            columns[0].startswith(_COUNTED_LOW[rows])
            and columns[1].startswith(_COUNTED_HIGH[rows])
            and first + count <= _COUNTED.stop
        ):
            return range(base + first, base + first + count)
        numbers = [low & 0x7F | high << 7 for low, high in zip(low_bits, columns[1], strict=False)]
    else:
        numbers = [
            low & 0x7F | (middle & 0x7F) << 7 | high << 14
            for low, middle, high in zip(low_bits, *columns[1:], strict=False)
        ]
    return [base + ((number >> 1) ^ -(number & 1)) for number in numbers]


def read_varint(buffer: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag number at `at` and the position after it. Raises IndexError."""
    number, at = _read_uvarint(buffer, at)
    return (number >> 1) ^ -(number & 1), at


def _read_uvarint(buffer: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise IndexError("a number of more than ten bytes")


def _read_field(buffer: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(buffer, at)
    if length < 0:
        return None, at
    return buffer[at : at + length], at + length  # a length beyond the record is detected at the record's end


def _read_headers(buffer: bytes, at: int, most: int) -> tuple[Headers, int]:
    count, at = read_varint(buffer, at)
    if not 0 <= count <= min(len(buffer), most):
        raise IndexError(f"{count} headers, at most {most} more are allowed")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _read_field(buffer, at)
        value, at = _read_field(buffer, at)
        if name is None:
            raise IndexError("a header without a name")
        headers.append((name.decode(), value))
    return tuple(headers), at
