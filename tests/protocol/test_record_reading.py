"""Records read in runs are what they are read one by one."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.record_reading import NotRecords, read_records, read_varint
from tests.enumerations import share_of

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def row(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> Row:
    return offset, timestamp, key, value, headers


def one_by_one(buffer: bytes, count: int) -> list[Row]:
    """The format as it is written down, and no more."""
    rows: list[Row] = []
    at = 0

    def number() -> int:
        nonlocal at
        value, at = read_varint(buffer, at)
        return value

    def field() -> bytes | None:
        nonlocal at
        length = number()
        if length < 0:
            return None
        at += length
        return buffer[at - length : at]

    for _ in range(count):
        length = number()
        end = at + length
        if length < 0 or end > len(buffer):
            raise NotRecords("too long")
        at += 1
        timestamp, offset = number(), number()
        key, value, count_ = field(), field(), number()
        headers: list[tuple[str, bytes | None]] = []
        if not 0 <= count_ <= len(buffer):
            raise IndexError
        for _ in range(count_):
            name, content = field(), field()
            if name is None:
                raise IndexError
            headers.append((name.decode(), content))
        if at != end:
            raise NotRecords("elsewhere")
        rows.append((1_000 + offset, 5_000 + timestamp, key, value, tuple(headers)))
    if at != len(buffer):
        raise NotRecords("more")
    return rows


def read(buffer: bytes, count: int) -> list[Row]:
    return read_records(row, buffer, count, 1_000, 5_000, None)


def zigzag(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    data = bytearray()
    while rest >= 0x80:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(data + bytes([rest]))


def encode(offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: int) -> bytes:
    body = b"\0" + zigzag(timestamp) + zigzag(offset)
    for field in (key, value):
        body += zigzag(-1) if field is None else zigzag(len(field)) + field
    body += zigzag(headers) + (zigzag(1) + b"h" + zigzag(-1)) * headers
    return zigzag(len(body)) + body


class Segment(NamedTuple):
    """Records alike; the timestamp of the n-th is `time` and n times `slope`."""

    rows: int
    key: int | None = None
    value: int | None = 1
    time: int = 0
    slope: int = 0
    gap: int = 1
    headers: int = 0


segment = st.builds(
    Segment,
    st.integers(1, 90),
    st.sampled_from([None, 0, 3, 130]),
    st.sampled_from([None, 0, 1, 70, 100]),
    st.sampled_from([0, 1, 7, 100, 70_000, -5, 2**40]),
    st.sampled_from([0, 0, 1, 3, 999]),
    st.sampled_from([1, 1, 1, 2, 70]),
    st.sampled_from([0, 0, 0, 1]),
)


def payload(*segments: Segment) -> tuple[bytes, int]:
    parts: list[bytes] = []
    offset = 0
    for one in segments:
        for number in range(one.rows):
            key = None if one.key is None else bytes([number % 256]) * one.key
            value = None if one.value is None else bytes([number * 7 % 256]) * one.value
            parts.append(encode(offset, one.time + one.slope * number, key, value, one.headers))
            offset += one.gap
    return b"".join(parts), len(parts)


@settings(deadline=None, max_examples=share_of(150))
@given(st.lists(segment, min_size=1, max_size=5))
def test_any_records_are_read_as_they_are_one_by_one(segments: list[Segment]) -> None:
    buffer, count = payload(*segments)
    assert read(buffer, count) == one_by_one(buffer, count)


@settings(deadline=None, max_examples=share_of(150))
@given(st.lists(segment, min_size=1, max_size=3), st.data())
def test_damage_is_found_wherever_it_is(segments: list[Segment], data: st.DataObject) -> None:
    buffer, count = payload(*segments)
    damaged = bytearray(buffer)
    damaged[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = one_by_one(bytes(damaged), count)
    except (NotRecords, IndexError, UnicodeDecodeError):
        with pytest.raises((NotRecords, IndexError, UnicodeDecodeError)):
            read(bytes(damaged), count)
    else:
        assert read(bytes(damaged), count) == expected


def test_ten_thousand_records_counted_up_keep_their_offsets() -> None:
    buffer, count = payload(Segment(10_000))
    assert [one[0] for one in read(buffer, count)] == list(range(1_000, 11_000))


def test_a_fixed_timestamp_is_every_records() -> None:
    buffer, count = payload(Segment(100, key=3, time=7, slope=1))
    assert {one[1] for one in read_records(row, buffer, count, 0, 5, 9)} == {9}


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_payload_cut_short_is_refused(cut: int) -> None:
    buffer, count = payload(Segment(100, key=3, value=100))
    with pytest.raises((NotRecords, IndexError)):
        read(buffer[:-cut], count)
