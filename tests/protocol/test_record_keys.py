"""Records as compaction sees and rewrites them, judged by our own reader and by aiokafka's."""

import pytest
from aiokafka.record import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.record_batch import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    CorruptBatch,
    check_batch,
    decode_batch,
    encode_batch,
    pack_batch,
    read_header,
    record_bytes,
)
from protocol.record_compression import Compression
from protocol.record_keys import Keyed, join_records, keyed_records

BYTES = st.none() | st.binary(max_size=200)
RECORDS = st.lists(st.tuples(BYTES, BYTES), min_size=1, max_size=200)


def keyed(batch: bytes) -> list[Keyed]:
    header = read_header(batch)
    return keyed_records(record_bytes(header, batch), header)


@given(RECORDS, st.integers(0, 2**50))
@settings(deadline=None)
def test_keys_offsets_times_and_whether_there_is_a_value_are_those_of_the_records(
    pairs: list[tuple[bytes | None, bytes | None]], base_offset: int
) -> None:
    batch = encode_batch(pairs, timestamp_ms=1_700_000_000_000, base_offset=base_offset)
    found = [(one.offset, one.timestamp_ms, one.key, one.has_value) for one in keyed(batch)]
    assert found == [
        (record.offset, record.timestamp_ms, record.key, record.value is not None) for record in decode_batch(batch)
    ]


@given(RECORDS, st.data())
@settings(deadline=None)
def test_what_is_joined_reads_as_the_records_that_were_kept(
    pairs: list[tuple[bytes | None, bytes | None]], data: st.DataObject
) -> None:
    batches = [
        encode_batch([pair], timestamp_ms=1_700_000_000_000 + 7 * number * (-1) ** number, base_offset=3 * number)
        for number, pair in enumerate(pairs)
    ]
    all_keyed = [one for batch in batches for one in keyed(batch)]
    all_records = [record for batch in batches for record in decode_batch(batch)]
    kept = sorted(data.draw(st.sets(st.integers(0, len(pairs) - 1), min_size=1)))
    horizon_ms = data.draw(st.sampled_from((-1, 0, 1_800_000_000_000)))
    compression = data.draw(st.sampled_from(Compression))
    joined = join_records(
        [all_keyed[place] for place in kept],
        compression=compression,
        append_time=False,
        delete_horizon_ms=horizon_ms,
    )
    header = check_batch(joined)
    expected = [all_records[place] for place in kept]
    assert decode_batch(joined) == expected
    assert keyed(joined) == [all_keyed[place] for place in kept]
    assert header.delete_horizon_ms == horizon_ms
    assert (header.base_offset, header.next_offset) == (expected[0].offset, expected[-1].offset + 1)
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in expected)
    assert header.compression == compression and header.producer_id == -1


@pytest.mark.parametrize("compression", Compression)
def test_other_peoples_readers_understand_a_joined_batch(compression: Compression) -> None:
    batches = [encode_batch([(b"k%d" % n, b"v" * 300)], timestamp_ms=1_000 + n, base_offset=10 * n) for n in range(50)]
    joined = join_records(
        [one for batch in batches for one in keyed(batch)],
        compression=compression,
        append_time=False,
        delete_horizon_ms=9_000,
    )
    batch = MemoryRecords(joined).next_batch()
    assert batch is not None
    found = [(record.offset, record.timestamp, record.key, record.value) for record in batch]
    assert found == [(10 * n, 1_000 + n, b"k%d" % n, b"v" * 300) for n in range(50)]


def test_records_that_have_the_time_of_their_append_keep_it() -> None:
    batch = encode_batch([(b"a", b"1"), (b"b", None)], timestamp_ms=5)
    header = read_header(batch)
    appended = pack_batch(
        record_bytes(header, batch),
        base_offset=7,
        attributes=LOG_APPEND_TIME,
        last_offset_delta=1,
        base_timestamp_ms=5,
        max_timestamp_ms=99,
        record_count=2,
    )
    joined = join_records(keyed(appended), compression=0, append_time=True, delete_horizon_ms=1_000)
    assert [record.timestamp_ms for record in decode_batch(joined)] == [99, 99]
    assert read_header(joined).attributes == LOG_APPEND_TIME | DELETE_HORIZON


def test_java_reads_lz4_blocks_only_if_they_stand_for_themselves() -> None:
    joined = join_records([Keyed(0, 0, b"k", True, b"\x02k\x02v\x00")], compression=Compression.LZ4, append_time=False)
    flags = joined[61 + 4]
    assert flags & 0x20, "block independence"


@given(st.binary(max_size=80), st.integers(1, 5))
@settings(deadline=None)
def test_what_is_no_record_is_damage(payload: bytes, count: int) -> None:
    batch = pack_batch(
        payload,
        base_offset=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        record_count=count,
    )
    header = read_header(batch)
    try:
        found = keyed_records(payload, header)
    except CorruptBatch:
        return
    assert len(found) == count
