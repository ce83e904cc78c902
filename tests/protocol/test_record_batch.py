"""Record batches: golden bytes, judges, round trips, truncation, bombs."""

import gzip
import struct
from collections.abc import Sequence
from typing import Any

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from protocol.record_batch import (
    HEADER_BYTES,
    CorruptBatch,
    Record,
    UnsupportedMagic,
    batches,
    check_batch,
    decode_batch,
    empty_batch,
    encode_batch,
    extent,
    read_header,
    stamp,
)
from protocol.record_compression import Compression
from tests.enumerations import share_of

NOW = 1_700_000_000_000
GOLDEN = bytes.fromhex(
    "0000000000000000"  # base offset
    "0000003a00000000"  # length, leader epoch
    "02e99b8dd8"  # magic, crc
    "000000000000"  # attributes, last offset delta
    "0000018bcfe56800"  # base timestamp
    "0000018bcfe56800"  # largest timestamp
    "ffffffffffffffff"  # no producer id
    "ffffffffffff00000001"  # no producer epoch, no sequence; one record
    "10000000"  # of 8 bytes: attributes, timestamp delta, offset delta
    "026b0276"  # "k", "v"
    "00"  # no headers
)
JUDGES = {"kafka-python": KafkaPythonBuilder, "aiokafka": AiokafkaBuilder}
READERS = {"kafka-python": KafkaPythonBatch, "aiokafka": AiokafkaBatch}

optional_bytes = st.none() | st.binary(max_size=300)
pairs = st.lists(st.tuples(optional_bytes, optional_bytes), min_size=1, max_size=20)
timestamps = st.integers(0, 2**52)
header_lists = st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3)
full_records = st.lists(st.tuples(timestamps, optional_bytes, optional_bytes, header_lists), min_size=1, max_size=12)


def judged(builder: Any, compression: int, records: Sequence[tuple[int, Any, Any, Any]]) -> bytes:
    """A batch as another implementation writes it."""
    made = builder(2, compression, False, -1, -1, -1, 10_000_000)
    for offset, (timestamp, key, value, headers) in enumerate(records):
        assert made.append(offset, timestamp, key, value, headers) is not None
    return bytes(made.build())


def expected(records: Sequence[tuple[int, Any, Any, Any]]) -> list[Record]:
    return [
        Record(offset, timestamp, key, value, tuple(headers))
        for offset, (timestamp, key, value, headers) in enumerate(records)
    ]


def compressed(payload: bytes, compression: int, count: int = 1) -> bytes:
    """A sound batch around a payload that need not be."""
    body = struct.pack(">hiqqqhii", compression, count - 1, NOW, NOW, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", 0, len(body) + 9, 0, 2, crc32c(body)) + body


def test_a_batch_has_these_bytes() -> None:
    assert encode_batch([(b"k", b"v")], timestamp_ms=NOW) == GOLDEN


@pytest.mark.parametrize("judge", JUDGES)
@given(records=pairs, timestamp_ms=timestamps)
@settings(deadline=None, max_examples=share_of(60))
def test_batches_have_the_bytes_that_others_write(
    judge: str, records: list[tuple[bytes | None, bytes | None]], timestamp_ms: int
) -> None:
    theirs = judged(JUDGES[judge], 0, [(timestamp_ms, key, value, []) for key, value in records])
    assert encode_batch(records, timestamp_ms=timestamp_ms) == stamp(theirs, 0)


@pytest.mark.parametrize("judge", READERS)
@given(records=pairs, base_offset=st.integers(0, 2**60))
@settings(deadline=None, max_examples=share_of(60))
def test_others_read_what_is_written(
    judge: str, records: list[tuple[bytes | None, bytes | None]], base_offset: int
) -> None:
    data = encode_batch(records, timestamp_ms=NOW, base_offset=base_offset)
    batch = READERS[judge](data)
    assert batch.validate_crc()
    found = [(record.offset, record.timestamp, record.key, record.value) for record in batch]
    assert found == [(base_offset + delta, NOW, key, value) for delta, (key, value) in enumerate(records)]


@pytest.mark.parametrize(
    ("judge", "compression"),
    [
        *(("aiokafka", compression) for compression in Compression),
        # Its other codecs need libraries of their own.
        ("kafka-python", Compression.NONE),
        ("kafka-python", Compression.GZIP),
    ],
)
@given(records=full_records)
@settings(deadline=None, max_examples=25)
def test_what_others_write_is_read(
    judge: str, compression: Compression, records: list[tuple[int, Any, Any, Any]]
) -> None:
    data = judged(JUDGES[judge], compression, records)
    header = check_batch(data)
    assert header.compression in (compression, Compression.NONE)  # what does not shrink is left as it is
    assert (header.record_count, header.size) == (len(records), len(data))
    assert header.max_timestamp_ms == max(timestamp for timestamp, *_ in records)
    assert decode_batch(data) == expected(records)


def test_each_compression_really_was_one() -> None:
    records: list[tuple[int, Any, Any, Any]] = [(NOW, b"key", b"value" * 200, [])] * 20
    sizes = {kind: len(judged(AiokafkaBuilder, kind, records)) for kind in Compression}
    assert all(sizes[kind] < sizes[Compression.NONE] / 5 for kind in Compression if kind)


def test_snappy_is_read_raw_and_in_the_java_librarys_frames() -> None:
    record = encode_batch([(b"k", b"v" * 500)], timestamp_ms=NOW)[HEADER_BYTES:]
    blocks = [bytes(cramjam.snappy.compress_raw(piece)) for piece in (record[:100], record[100:])]
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)
    for payload in (bytes(cramjam.snappy.compress_raw(record)), framed):
        assert decode_batch(compressed(payload, Compression.SNAPPY))[0].value == b"v" * 500


@given(records=pairs, timestamp_ms=timestamps, base_offset=st.integers(0, 2**62))
@settings(deadline=None)
def test_what_is_written_is_read(
    records: list[tuple[bytes | None, bytes | None]], timestamp_ms: int, base_offset: int
) -> None:
    data = encode_batch(records, timestamp_ms=timestamp_ms, base_offset=base_offset)
    assert decode_batch(data) == [
        Record(base_offset + delta, timestamp_ms, key, value) for delta, (key, value) in enumerate(records)
    ]
    assert extent(data) == (base_offset, base_offset + len(records), len(data), timestamp_ms)


def test_the_header_says_who_wrote_it() -> None:
    data = encode_batch(
        [(None, b"a"), (None, b"b")],
        timestamp_ms=NOW,
        base_offset=40,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        transactional=True,
        control=True,
        leader_epoch=5,
    )
    header = check_batch(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert (header.is_transactional, header.is_control, header.compression) == (True, True, 0)
    assert (header.base_offset, header.next_offset, header.partition_leader_epoch) == (40, 42, 5)
    plain = check_batch(GOLDEN)
    assert (plain.is_transactional, plain.is_control) == (False, False)


def test_a_stamp_moves_a_batch_and_its_checksum_still_holds() -> None:
    header = check_batch(stamp(GOLDEN, 12345678901, 9))
    assert (header.base_offset, header.partition_leader_epoch) == (12345678901, 9)
    assert stamp(stamp(GOLDEN, 5, 5), 0) == GOLDEN


def test_the_time_of_the_append_counts_where_the_header_says_so() -> None:
    body = bytearray(GOLDEN[21:])
    body[1] |= 0x08
    body[14:22] = struct.pack(">q", NOW + 777)
    data = GOLDEN[:17] + struct.pack(">I", crc32c(bytes(body))) + bytes(body)
    check_batch(data)
    assert decode_batch(data)[0].timestamp_ms == NOW + 777


def test_batches_are_walked_and_a_partial_last_one_left_out() -> None:
    parts = [encode_batch([(None, b"x" * size)], timestamp_ms=NOW, base_offset=size) for size in (1, 50, 300)]
    data = b"".join(parts)
    for end in range(len(data) + 1):
        whole = [part for part, size in zip(parts, (1, 2, 3), strict=True) if end >= len(b"".join(parts[:size]))]
        assert [bytes(view) for _header, view in batches(data[:end])] == whole


def test_a_batch_is_found_at_its_position() -> None:
    data = b"before" + GOLDEN + b"behind"
    assert check_batch(data, 6).size == len(GOLDEN)
    assert decode_batch(memoryview(data), 6) == [Record(0, NOW, b"k", b"v")]
    with pytest.raises(CorruptBatch, match="position 7"):
        check_batch(data, 7)


@pytest.mark.parametrize("end", range(len(GOLDEN)))
def test_a_batch_cut_anywhere_is_corrupt(end: int) -> None:
    for read in (check_batch, decode_batch):
        with pytest.raises(CorruptBatch):
            read(GOLDEN[:end])


@pytest.mark.parametrize("position", range(16, len(GOLDEN)))
def test_a_bit_changed_behind_the_epoch_is_found(position: int) -> None:
    damaged = bytearray(GOLDEN)
    damaged[position] ^= 0x01
    with pytest.raises(CorruptBatch):
        check_batch(bytes(damaged))


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_are_told_apart_from_damage(magic: int) -> None:
    with pytest.raises(UnsupportedMagic, match=f"magic {magic}"):
        check_batch(GOLDEN[:16] + bytes([magic]) + GOLDEN[17:])


@pytest.mark.parametrize("magic", [0, 1])
def test_an_older_format_is_told_apart_though_it_is_shorter_than_a_header(magic: int) -> None:
    message_set = bytes(8) + struct.pack(">iIbb", 14, 0, magic, 0) + struct.pack(">ii", -1, -1)
    with pytest.raises(UnsupportedMagic, match=f"magic {magic}"):
        check_batch(message_set)
    with pytest.raises(CorruptBatch, match="no whole header"):
        check_batch(message_set[:16])


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_a_length_below_a_header_is_corrupt(length: int) -> None:
    data = GOLDEN[:8] + struct.pack(">i", length) + GOLDEN[12:]
    for read in (read_header, extent):
        with pytest.raises(CorruptBatch, match="less than a header"):
            read(data)


@pytest.mark.parametrize("compression", list(Compression))
@given(payload=st.binary(max_size=200), count=st.integers(0, 1000))
@settings(deadline=None, max_examples=share_of(60))
def test_payloads_of_any_bytes_are_records_or_corrupt_and_nothing_else(
    compression: Compression, payload: bytes, count: int
) -> None:
    data = compressed(payload, compression, count)
    try:
        found = len(decode_batch(data))
    except CorruptBatch:
        return
    assert found == count


@pytest.mark.parametrize("compression", [kind for kind in Compression if kind])
def test_a_bomb_does_not_go_off(compression: Compression) -> None:
    zeros = bytes(30_000_000)
    match compression:
        case Compression.GZIP:
            bomb = gzip.compress(zeros)
        case Compression.SNAPPY:
            bomb = bytes(cramjam.snappy.compress_raw(zeros))
        case Compression.LZ4:
            bomb = bytes(cramjam.lz4.compress(zeros))
        case _:
            bomb = bytes(cramjam.zstd.compress(zeros))
    with pytest.raises(CorruptBatch, match="more than 1000000 bytes"):
        decode_batch(compressed(bomb, compression), max_bytes=1_000_000)


def test_a_compression_without_meaning_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="compression 5"):
        decode_batch(compressed(b"", 5))


def test_no_records_are_no_batch() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([], timestamp_ms=NOW)


def test_a_batch_without_records_stands_for_offsets_that_are_gone() -> None:
    batch = empty_batch(7, 12)
    header = check_batch(batch)
    assert (header.base_offset, header.next_offset, header.record_count, header.size) == (7, 12, 0, len(batch))
    assert decode_batch(batch) == []
    assert [one.next_offset for one, _data in batches(batch)] == [12]
