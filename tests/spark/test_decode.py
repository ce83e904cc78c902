"""Batches become the columns that the record-by-record reader would give, whatever their form."""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import cramjam
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from protocol.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    Record,
    decode_batch,
    empty_batch,
    encode_batch,
    read_header,
)
from protocol.record_writing import varint
from pyspark_muster import decode as decode_module
from pyspark_muster import source
from pyspark_muster.decode import LEAST_RUN, SCHEMA, WITH_HEADERS, decode_range
from tests.enumerations import share_of

FIELDS = st.none() | st.binary(max_size=300)
PAIRS = st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=20)
SQUEEZED: dict[int, Callable[[bytes], bytes]] = {
    1: lambda data: bytes(cramjam.gzip.compress(data)),
    2: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    3: lambda data: bytes(cramjam.lz4.compress(data)),
    4: lambda data: bytes(cramjam.zstd.compress(data)),
}


def with_attributes(batch: bytes, attributes: int, payload: bytes | None = None) -> bytes:
    """The same batch with other attributes, and the records as they are then stored."""
    body = (
        struct.pack(">h", attributes) + batch[23:HEADER_BYTES] + (batch[HEADER_BYTES:] if payload is None else payload)
    )
    return batch[:8] + struct.pack(">iibI", len(body) + 9, 0, 2, crc32c(body)) + body


def rows(batches: list[bytes], start: int = 0, end: int = 1 << 40) -> list[dict[str, object]]:
    return [row for piece in decode_range(opened(batches), "flights", 3, start, end) for row in piece.to_pylist()]


def opened(batches: list[bytes]) -> Iterator[tuple[BatchHeader, bytes]]:
    return ((read_header(batch), batch) for batch in batches)


@contextmanager
def records_found(*, together: bool) -> Iterator[None]:
    """Have the records of all batches found together, or one after the other."""
    with mock.patch.object(decode_module, "TOGETHER", 0 if together else 1 << 40):
        yield


def as_rows(records: list[Record]) -> list[tuple[object, ...]]:
    return [(record.key, record.value, record.offset, record.timestamp_ms) for record in records]


def plain(decoded: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(row["key"], row["value"], row["offset"], round(row["timestamp"].timestamp() * 1000)) for row in decoded]  # type: ignore[attr-defined]


@settings(deadline=None)
@given(st.lists(PAIRS, min_size=1, max_size=5), st.integers(0, 1 << 33), st.integers(0, 4), st.booleans())
def test_any_records_in_any_compression_come_out_as_the_plain_reader_has_them(
    batches: list[list[tuple[bytes | None, bytes | None]]], base: int, compression: int, together: bool
) -> None:
    encoded: list[bytes] = []
    for pairs in batches:
        batch = encode_batch(pairs, timestamp_ms=1_357_034_400_000 + base, base_offset=base)
        if compression:
            batch = with_attributes(batch, compression, SQUEEZED[compression](batch[HEADER_BYTES:]))
        encoded.append(batch)
        base += len(pairs)
    expected = [record for batch in encoded for record in decode_batch(batch)]
    with records_found(together=together):
        assert plain(rows(encoded)) == as_rows(expected)


@settings(deadline=None)
@given(PAIRS, st.integers(0, 25), st.integers(0, 25))
def test_only_the_range_asked_for_comes_out(
    pairs: list[tuple[bytes | None, bytes | None]], start: int, length: int
) -> None:
    batch = encode_batch(pairs, timestamp_ms=0)
    assert [row["offset"] for row in rows([batch], start, start + length)] == [
        offset for offset in range(len(pairs)) if start <= offset < start + length
    ]


@settings(deadline=None, max_examples=share_of(300))
@given(PAIRS, st.integers(1, 60), st.lists(PAIRS, max_size=2), st.booleans(), st.data())
def test_bytes_that_are_no_records_are_refused_and_never_read_beyond(
    pairs: list[tuple[bytes | None, bytes | None]],
    times: int,
    others: list[list[tuple[bytes | None, bytes | None]]],
    together: bool,
    data: st.DataObject,
) -> None:
    pairs = pairs * times
    batch = bytearray(encode_batch(pairs, timestamp_ms=0))
    for _ in range(3):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] = data.draw(st.integers(0, 255))
    sealed = [with_attributes(bytes(batch), 0), *(encode_batch(one, timestamp_ms=0) for one in others)]
    try:
        with records_found(together=together):
            pieces = list(decode_range(opened(sealed), "flights", 0, 0, 1 << 62))
    except CorruptBatch:
        return
    # The damage lay within a value, or in where a record says it stands.
    assert sum(piece.num_rows for piece in pieces) <= len(pairs) + sum(map(len, others))


@pytest.mark.parametrize("together", [False, True])
def test_a_batch_with_more_records_than_bytes_is_refused(together: bool) -> None:
    batch = bytearray(encode_batch([(None, b"a")], timestamp_ms=0))
    batch[23:27] = batch[57:61] = struct.pack(">i", (1 << 31) - 1)
    forged = bytes(batch[:23]) + struct.pack(">i", (1 << 31) - 2) + bytes(batch[27:])
    with records_found(together=together), pytest.raises(CorruptBatch, match="2147483647 records in"):
        list(decode_range(opened([forged]), "flights", 0, 0, 1 << 62))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 150), st.sampled_from((0, 5, 60, 119, 120, 9_000))), min_size=1, max_size=12))
def test_runs_of_equally_long_records_are_found_as_single_ones_are(runs: list[tuple[int, int]]) -> None:
    """Lengths of one, two and three bytes; deltas of offsets make the record a byte longer at 64."""
    pairs = [(None, bytes(size)) for count, size in runs for _ in range(count)]
    one, two = encode_batch(pairs, timestamp_ms=1), encode_batch(pairs, timestamp_ms=2, base_offset=len(pairs))
    expected = decode_batch(one) + decode_batch(two)
    assert LEAST_RUN < 150
    with records_found(together=False):
        assert plain(rows([one, two])) == as_rows(expected)
        longer = with_attributes(one, 0, one[HEADER_BYTES:] + b"\0")
        with pytest.raises(CorruptBatch, match="batch at 0: its records do not end where it ends"):
            rows([longer, two])


@pytest.mark.parametrize("others", [[], [encode_batch([(None, b"a")] * 100, timestamp_ms=0, base_offset=9)]])
def test_batches_whose_records_were_all_compacted_away_are_stepped_over(others: list[bytes]) -> None:
    assert len(rows([empty_batch(0, 4), *others, empty_batch(200, 204)])) == 100 * len(others)


def test_a_length_of_too_many_bytes_is_refused_at_once() -> None:
    batch = encode_batch([(None, b"a" * 60)] * 100, timestamp_ms=0)
    for size in (9, 10, 2_000_000):
        endless = with_attributes(batch, 0, b"\x80" * (size - 1) + b"\x7e" + batch[HEADER_BYTES:])
        with records_found(together=False), pytest.raises(CorruptBatch, match="more than 5 bytes"):
            rows([endless])


def test_many_small_batches_of_different_lengths_are_found_together() -> None:
    batches, base = [], 0
    for number in range(300):
        pairs = [(None, b"v" * (number * at % 300)) for at in range(1 + number % 3)]
        batches.append(encode_batch(pairs, timestamp_ms=number, base_offset=base))
        base += len(pairs)
    assert sum(1 + number % 3 for number in range(300)) > decode_module.TOGETHER * 3
    expected = [record for batch in batches for record in decode_batch(batch)]
    assert plain(rows(batches)) == as_rows(expected)
    longer = with_attributes(batches[150], 0, batches[150][HEADER_BYTES:] + b"\0")
    at = read_header(longer).base_offset
    with pytest.raises(CorruptBatch, match=f"batch at {at}: its records do not end where it ends"):
        rows([*batches[:150], longer, *batches[151:]])


def test_a_log_that_stamps_its_own_time_is_believed() -> None:
    batch = with_attributes(encode_batch([(None, b"a"), (None, b"b")], timestamp_ms=5_000), 0x08)
    assert {time for *_, time in plain(rows([batch]))} == {5_000}
    assert [row["timestampType"] for row in rows([batch])] == [1, 1]
    assert [row["timestampType"] for row in rows([encode_batch([(None, b"a")], timestamp_ms=5_000)])] == [0]


def test_small_batches_are_gathered_into_few_large_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_module, "ROWS", 100)
    batches = [encode_batch([(None, b"x")] * 10, timestamp_ms=0, base_offset=at) for at in range(0, 250, 10)]
    pieces = list(decode_range(opened(batches), "flights", 3, 5, 1000))
    assert [piece.num_rows for piece in pieces] == [95, 100, 50]


def test_headers_of_records_are_stepped_over() -> None:
    # length, attributes, timestamp, offset, no key, value "v", one header "h": "1"; and the same once more
    one = bytes([22, 0, 0, 0, 1, 2]) + b"v" + bytes([2, 2]) + b"h" + bytes([2]) + b"1"
    two = bytes([22, 0, 0, 2, 1, 2]) + b"w" + bytes([2, 2]) + b"h" + bytes([2]) + b"1"
    batch = with_attributes(encode_batch([(None, b"v"), (None, b"w")], timestamp_ms=0), 0, one + two)
    assert [record.headers for record in decode_batch(batch)] == [(("h", b"1"),)] * 2
    assert [row["value"] for row in rows([batch])] == [b"v", b"w"]


HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=200)), max_size=4)


@settings(deadline=None, max_examples=share_of(150))
@given(given=st.lists(st.tuples(FIELDS, HEADERS), min_size=1, max_size=12), first=st.integers(0, 12))
def test_headers_become_lists_as_the_record_by_record_reader_has_them(
    given: list[tuple[bytes | None, list[tuple[str, bytes | None]]]], first: int
) -> None:
    payload = b"".join(_record(number, value, headers) for number, (value, headers) in enumerate(given))
    batch = with_attributes(encode_batch([(None, value) for value, _ in given], timestamp_ms=0), 0, payload)
    records = [record for record in decode_batch(batch) if record.offset >= first]
    pieces = decode_range(opened([batch]), "flights", 3, first, 1 << 40, with_headers=True)
    found = [row["headers"] for piece in pieces for row in piece.to_pylist()]
    wanted = [[{"key": key, "value": value} for key, value in record.headers] or None for record in records]
    assert found == wanted


def _record(number: int, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> bytes:
    body = b"\0\0" + varint(number) + _field(None) + _field(value) + varint(len(headers))
    body += b"".join(_field(key.encode()) + _field(content) for key, content in headers)
    return varint(len(body)) + body


def _field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def test_headers_beyond_their_record_are_refused() -> None:
    for count, tail in ((-1, b""), (1, varint(100) + b"h")):
        body = b"\0\0\0" + varint(-1) + varint(1) + b"v" + varint(count) + tail
        batch = with_attributes(encode_batch([(None, b"v")], timestamp_ms=0), 0, varint(len(body)) + body)
        with pytest.raises(CorruptBatch):
            list(decode_range(opened([batch]), "flights", 3, 0, 1, with_headers=True))


def test_the_schema_is_the_one_that_spark_expects_of_it() -> None:
    assert to_arrow_schema(source.SCHEMA, timezone="UTC").equals(SCHEMA)
    assert to_arrow_schema(source.WITH_HEADERS, timezone="UTC").equals(WITH_HEADERS)
    given = {"bootstrap": "b:1", "group": "g", "topics": "t"}
    assert source.DefaultSource(given).schema() == source.SCHEMA
    assert source.DefaultSource(given | {"includeHeaders": "true"}).schema() == source.WITH_HEADERS
    assert source.DefaultSource({"bootstrap": "b:1", "topics": "t", "includeHeaders": "true"}).schema() != source.SCHEMA
