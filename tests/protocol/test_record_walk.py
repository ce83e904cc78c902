"""Looking at a batch's records without making them: what it lets through is what can be read."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.record_batch import BatchHeader, CorruptBatch, decode_records, encode_batch, read_header
from protocol.record_walk import walk_records
from tests.enumerations import share_of

BASE_MS = 1_700_000_000_000


def number(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def field(data: bytes | None) -> bytes:
    return number(-1) if data is None else number(len(data)) + data


Headers = tuple[tuple[str, bytes | None], ...]
Made = tuple[int, bytes | None, bytes | None, Headers]


def record(offset: int, made: Made) -> bytes:
    delta, key, value, headers = made
    named = b"".join(field(name.encode()) + field(data) for name, data in headers)
    body = b"\0" + number(delta) + number(offset) + field(key) + field(value) + number(len(headers)) + named
    return number(len(body)) + body


def shell(count: int) -> BatchHeader:
    data = bytearray(encode_batch([(None, b"")], timestamp_ms=BASE_MS))
    struct.pack_into(">i", data, 23, count - 1)
    struct.pack_into(">i", data, 57, count)
    return read_header(data)


def verdict(payload: bytes, count: int) -> int | None:
    """The newest timestamp as read record by record; None if the batch must not be stored."""
    try:
        records = decode_records(payload, shell(count))
    except CorruptBatch:
        return None
    if [one.offset for one in records] != list(range(count)):
        return None
    return max(one.timestamp_ms for one in records)


def walked(payload: bytes, count: int) -> int | None:
    try:
        return walk_records(payload, shell(count)).newest_ms
    except CorruptBatch:
        return None


SIZES = st.sampled_from([0, 1, 5, 62, 63, 64, 65, 130])
DATA = st.none() | SIZES.map(bytes) | st.binary(max_size=5)
MADE = st.tuples(
    st.integers(-70, 70) | st.integers(-(2**40), 2**40),
    DATA,
    DATA,
    st.just(()) | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple),
)


@settings(deadline=None)
@given(st.lists(st.tuples(MADE, st.integers(1, 100)), min_size=1, max_size=6))
def test_whatever_records_there_are_their_newest_time_is_found(groups: list[tuple[Made, int]]) -> None:
    """Groups of equal records, so that there are runs."""
    made = [one for one, times in groups for _ in range(times)]
    payload = b"".join(record(offset, one) for offset, one in enumerate(made))
    assert walk_records(payload, shell(len(made))).newest_ms == BASE_MS + max(one[0] for one in made)


@settings(deadline=None, max_examples=share_of(200))
@given(
    st.tuples(st.integers(-60, 60), DATA, DATA, st.just(())),
    st.integers(1, 90),
    st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=2),
)
def test_a_changed_byte_is_judged_as_reading_all_of_it_does(
    one: Made, count: int, changes: list[tuple[int, int]]
) -> None:
    payload = bytearray(b"".join(record(offset, one) for offset in range(count)))
    for at, byte in changes:
        payload[at % len(payload)] = byte
    assert walked(bytes(payload), count) == verdict(bytes(payload), count)


@settings(deadline=None, max_examples=share_of(200))
@given(
    st.lists(st.sampled_from([0, 1, 30, 62, 63, 64, 126, 500, 2040, 2100]), min_size=1, max_size=120),
    st.integers(-60, 60) | st.integers(-(2**33), 2**33),
    st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=2),
)
def test_records_without_keys_are_judged_as_reading_them_does(
    sizes: list[int], delta: int, changes: list[tuple[int, int]]
) -> None:
    payload = bytearray(b"".join(record(n, (delta, None, b"v" * size, ())) for n, size in enumerate(sizes)))
    for at, byte in changes:
        # Most of a record is its value, where nothing can be wrong.
        payload[min(at % (16 * len(sizes)), len(payload) - 1)] = byte
    assert walked(bytes(payload), len(sizes)) == verdict(bytes(payload), len(sizes))


@pytest.mark.parametrize("count", [1, 63, 65, 1024, 1025, 8191, 8193])
def test_records_without_keys_are_followed_over_every_width_of_offsets(count: int) -> None:
    payload = b"".join(record(offset, (0, None, b"v" * (offset % 150), ())) for offset in range(count))
    assert walk_records(payload, shell(count)).newest_ms == BASE_MS
    assert walked(payload, count + 1) is walked(payload[:-1] + b"\1", count) is None
    wrong = b"".join(record(n + (n == count - 1), (0, None, b"v" * (n % 150), ())) for n in range(count))
    assert walked(wrong, count) is None


@settings(deadline=None)
@given(st.binary(max_size=80), st.integers(1, 4))
def test_any_bytes_are_judged_as_reading_them_does(payload: bytes, count: int) -> None:
    assert walked(payload, count) == verdict(payload, count)


@pytest.mark.parametrize("count", [1, 8, 63, 64, 65, 8191, 8193, 16_400])
@pytest.mark.parametrize("value", [b"", b"v" * 90])
def test_long_runs_are_followed_over_every_width_of_offsets(count: int, value: bytes) -> None:
    payload = b"".join(record(offset, (offset % 60, b"k", value, ())) for offset in range(count))
    assert walk_records(payload, shell(count)).newest_ms == BASE_MS + min(count - 1, 59)
    for wrong in (payload + b"\0", payload[:-1], payload[:-1] + b"\1", payload[1:]):
        assert walked(wrong, count) is None
    assert walked(payload, count + 1) is None


@pytest.mark.parametrize("odd", [0, 1, 7, 40, 63, 64, 100, 8191, 8998])
def test_one_record_among_equal_ones_that_lies_about_its_offset_is_found(odd: int) -> None:
    shown = [offset + (offset == odd) for offset in range(9_000)]
    payload = b"".join(record(offset, (0, None, b"v" * 20, ())) for offset in shown)
    assert walked(payload, 9_000) is None


@pytest.mark.parametrize("odd", [0, 9, 64, 8_500])
def test_one_record_among_equal_ones_that_is_newer_is_found(odd: int) -> None:
    payload = b"".join(record(offset, ((offset == odd) * 63, None, b"v" * 20, ())) for offset in range(9_000))
    assert walk_records(payload, shell(9_000)).newest_ms == BASE_MS + 63


def test_headers_among_equal_records_are_followed() -> None:
    made: Made = (0, b"k", b"v" * 20, (("name", b"data"), ("none", None)))
    payload = b"".join(record(offset, made) for offset in range(100))
    assert walk_records(payload, shell(100)).newest_ms == BASE_MS
    assert walked(payload.replace(b"name", b"n\xffme"), 100) is None
