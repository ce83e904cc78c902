"""Batches that are stored, batches that are refused, and the time of the reply."""

import struct

import cramjam
import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from coordinator.topics.embedded import TopicSettings
from coordinator.topics.produce import MOST_BATCHES, Allowance, BatchError, Limits, check_records
from protocol.errors import ErrorCode
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.record_batch import decode_batch, encode_batch, read_header, seal_batch, stamp
from protocol.record_writing import varint
from tests.topics.topic_rig import WALL_MS, TopicRig, batch, producing

MIB = 1024 * 1024


@pytest.fixture
def rig() -> TopicRig:
    rig = TopicRig()
    rig.made("flights", 2)
    return rig


def check(data: bytes, max_batch_bytes: int = MIB) -> list[bytes] | BatchError:
    return checked_within(data, Limits(max_batch_bytes, MIB, 1_000))


def checked_within(data: bytes, limits: Limits, allowance: Allowance | None = None) -> list[bytes] | BatchError:
    """At one go."""
    work = check_records(data, limits, allowance or Allowance(1_000_000))
    try:
        while True:
            next(work)
    except StopIteration as done:
        checked: list[bytes] | BatchError = done.value
        return checked


def error_of(data: bytes, max_batch_bytes: int = MIB) -> ErrorCode:
    checked = check(data, max_batch_bytes)
    assert isinstance(checked, BatchError), "it was let through"
    return checked.error


def changed(data: bytes, at: int, layout: str, value: int) -> bytes:
    """One field of the header set, and the checksum made to hold again."""
    out = bytearray(data)
    struct.pack_into(f">{layout}", out, at, value)
    struct.pack_into(">I", out, 17, crc32c(out[21:]))
    return bytes(out)


def repacked(data: bytes, payload: bytes, compression: int) -> bytes:
    """The batch with other bytes for its records."""
    body = struct.pack(">h", compression) + data[23:61] + payload
    return data[:8] + struct.pack(">i", len(body) + 9) + data[12:17] + struct.pack(">I", crc32c(body)) + body


# --- stored ---


def test_offsets_go_on_where_the_last_batch_ended_whatever_the_producer_wrote(rig: TopicRig) -> None:
    assert rig.send(batch("a", "b")).base_offset == 0
    answer = rig.send(stamp(batch("c"), 77))
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (ErrorCode.NONE, 2, 0)
    assert answer.log_append_time_ms == -1, "the producer's own time is kept"
    rig.flush()
    assert rig.values() == ["a", "b", "c"]


def test_several_batches_in_one_request_are_appended_in_order(rig: TopicRig) -> None:
    assert rig.send(batch("a") + batch("b", "c")).base_offset == 0
    rig.flush()
    assert rig.values() == ["a", "b", "c"]


def test_partitions_of_one_request_are_stored_or_refused_each_by_itself(rig: TopicRig) -> None:
    wanted = (ProducePartition(0, batch("a")), ProducePartition(2, batch("b")), ProducePartition(1, batch("c")))
    message = Produce((ProduceTopic("flights", wanted), ProduceTopic("nowhere", wanted[:1])))
    reply, position = rig.topics.produce(message, rig.moment)
    flights, nowhere = reply.responses
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(p.index, p.error_code, p.base_offset) for p in flights.partition_responses] == [
        (0, ErrorCode.NONE, 0),
        (2, unknown, -1),
        (1, ErrorCode.NONE, 0),
    ]
    assert [p.error_code for p in nowhere.partition_responses] == [unknown]
    assert position == rig.store.position


@pytest.mark.parametrize(("acks", "waits"), [(-1, True), (1, False), (0, False)])
def test_only_who_asks_for_it_waits_for_the_disk(rig: TopicRig, acks: int, waits: bool) -> None:
    _reply, position = rig.topics.produce(producing(batch("a"), acks=acks), rig.moment)
    assert position == (rig.store.position if waits else 0)
    assert rig.store.position > rig.store.flushed


def test_a_refusal_waits_for_nothing(rig: TopicRig) -> None:
    rig.send(batch("someone else's, not durable yet"))
    _reply, position = rig.topics.produce(producing(b"rubbish", acks=-1), rig.moment)
    assert position == 0


def test_what_was_told_to_be_durable_survives_a_crash(rig: TopicRig) -> None:
    _reply, position = rig.topics.produce(producing(batch("a")), rig.moment)
    rig.flush()
    assert position <= rig.store.flushed
    rig.crash()
    assert rig.values() == ["a"]
    assert rig.send(batch("b")).base_offset == 1


@pytest.mark.parametrize("block_linked", [False, True])
def test_lz4_is_stored_if_every_consumer_can_read_it(rig: TopicRig, block_linked: bool) -> None:
    plain = batch("a", "b")
    frame = cramjam.lz4.Compressor(block_linked=block_linked)
    frame.compress(plain[61:])
    answer = rig.send(repacked(plain, bytes(frame.finish()), 3))
    assert answer.error_code is (ErrorCode.INVALID_RECORD if block_linked else ErrorCode.NONE)
    assert ("depend on each other" in (answer.error_message or "")) is block_linked


def test_a_compressed_batch_is_stored_as_it_came(rig: TopicRig) -> None:
    plain = batch("a", "b")
    packed = repacked(plain, bytes(cramjam.gzip.compress(plain[61:])), 1)
    assert rig.send(packed).error_code is ErrorCode.NONE
    rig.flush()
    assert rig.values() == ["a", "b"]
    assert rig.read(0).records[61:] == packed[61:]


def test_idempotent_producers_ids_are_kept(rig: TopicRig) -> None:
    data = encode_batch([(None, b"a")], timestamp_ms=WALL_MS, producer_id=9, producer_epoch=1, base_sequence=5)
    assert rig.send(data).error_code is ErrorCode.NONE
    rig.flush()
    header = read_header(rig.read(0).records)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 5)


def test_a_largest_timestamp_that_is_not_true_is_corrected(rig: TopicRig) -> None:
    lying = changed(batch("a", at_ms=1_000), 35, "q", 9_999)
    assert rig.send(lying).error_code is ErrorCode.NONE
    rig.store_now("b", at_ms=2_000)
    assert rig.find(1_500).offset == 1
    assert read_header(rig.read(0).records).max_timestamp_ms == 1_000


# --- refused ---


@pytest.mark.parametrize("acks", [-2, 2, 100])
def test_other_acks_are_refused_and_nothing_is_stored(rig: TopicRig, acks: int) -> None:
    assert rig.send(batch("a"), acks=acks).error_code is ErrorCode.INVALID_REQUIRED_ACKS
    assert rig.store.begin_flush() is None


def test_a_transaction_is_refused(rig: TopicRig) -> None:
    message = msgspec.structs.replace(producing(batch("a")), transactional_id="t")
    reply, position = rig.topics.produce(message, rig.moment)
    assert reply.responses[0].partition_responses[0].error_code is ErrorCode.INVALID_TXN_STATE
    assert position == 0
    assert error_of(encode_batch([(None, b"")], timestamp_ms=0, transactional=True)) is ErrorCode.INVALID_TXN_STATE


def test_one_bad_batch_and_nothing_of_its_partition_is_stored(rig: TopicRig) -> None:
    answer = rig.send(batch("a") + batch("b")[:-1])
    assert answer.error_code is ErrorCode.INVALID_RECORD
    assert answer.base_offset == -1
    assert rig.store.begin_flush() is None


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (b"too short for a header", ErrorCode.INVALID_RECORD),
        (batch("a")[:-1], ErrorCode.INVALID_RECORD),
        (batch("a") + b"more", ErrorCode.INVALID_RECORD),
        (batch("a")[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (changed(batch("a"), 8, "i", -5), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch("a"), 16, "b", 1), ErrorCode.INVALID_RECORD),
        (changed(batch("a"), 21, "h", 0x20), ErrorCode.INVALID_RECORD),
        (changed(batch("a"), 21, "h", 0x08), ErrorCode.INVALID_TIMESTAMP),
        (changed(batch("a"), 21, "h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (changed(batch("a"), 21, "h", 1), ErrorCode.INVALID_RECORD),  # says gzip and is not
        (changed(batch("a", "b"), 23, "i", 5), ErrorCode.INVALID_RECORD),  # offsets with gaps
        (changed(changed(batch("a"), 57, "i", 2), 23, "i", 1), ErrorCode.INVALID_RECORD),  # one record, says two
        (changed(changed(batch("a", "b"), 57, "i", 1), 23, "i", 0), ErrorCode.INVALID_RECORD),  # two, says one
        (changed(changed(batch("a"), 57, "i", 0), 23, "i", -1), ErrorCode.INVALID_RECORD),  # none
        (changed(batch("a"), 64, "b", 2), ErrorCode.INVALID_RECORD),  # its only record says it is the second
    ],
)
def test_bytes_that_are_no_sound_batch_are_refused(data: bytes, error: ErrorCode) -> None:
    assert error_of(data) is error


def test_a_batch_larger_than_its_topic_allows_is_refused(rig: TopicRig) -> None:
    rig.made("small", 1, max_message_bytes="100")
    assert rig.send(batch("x" * 100), topic="small").error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert rig.send(batch("x"), topic="small").error_code is ErrorCode.NONE
    assert rig.send(batch("x" * 100)).error_code is ErrorCode.NONE


def test_a_batch_larger_than_the_store_takes_is_refused() -> None:
    rig = TopicRig(settings=TopicSettings(max_message_bytes=10 * MIB))
    rig.made()
    assert rig.send(batch("x" * (1 << 18))).error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert rig.send(batch("x")).base_offset == 0


def test_a_few_bytes_that_would_fill_the_memory_are_refused_before_they_do() -> None:
    bomb = repacked(batch("a"), bytes(cramjam.zstd.compress(bytes(64 * MIB))), 4)
    assert len(bomb) < 10_000
    assert error_of(bomb) is ErrorCode.INVALID_RECORD


def test_a_full_disk_is_a_storage_error_and_reading_goes_on(rig: TopicRig) -> None:
    rig.store_now("a")
    rig.store.disk_full = True
    assert rig.send(batch("b")).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.create("more").error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.topics.partition_count("more") is None
    assert rig.values() == ["a"]


# --- whatever comes ---


@given(
    st.lists(st.lists(st.tuples(st.none() | st.binary(), st.none() | st.binary()), min_size=1, max_size=4), max_size=4)
)
def test_what_is_let_through_says_what_was_sent(sent: list[list[tuple[bytes | None, bytes | None]]]) -> None:
    checked = check(b"".join(encode_batch(pairs, timestamp_ms=5) for pairs in sent))
    if not sent:
        assert isinstance(checked, BatchError)
    else:
        assert not isinstance(checked, BatchError)
        assert [[(r.key, r.value) for r in decode_batch(one)] for one in checked] == sent


@given(st.data())
def test_a_changed_byte_is_found_unless_it_is_the_offset_or_the_epoch(data: st.DataObject) -> None:
    sound = batch("abc", "defg")
    at = data.draw(st.integers(12 + 4, len(sound) - 1) | st.integers(8, 11))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != sound[at]))
    assert isinstance(check(sound[:at] + bytes([value]) + sound[at + 1 :]), BatchError)


@given(st.binary(max_size=200))
def test_no_bytes_at_all_raise(data: bytes) -> None:
    assert isinstance(check(data), BatchError)


@given(st.binary(max_size=60), st.integers(-2, 5), st.integers(0, 4))
def test_no_records_under_a_right_checksum_raise(payload: bytes, count: int, compression: int) -> None:
    shell = changed(changed(batch("a"), 57, "i", count), 23, "i", count - 1)
    checked = check(repacked(shell, payload, compression))
    assert isinstance(checked, BatchError) or len(decode_batch(checked[0])) == count


# --- no more work than others can wait for ---

LIMITS = Limits(MIB, MIB, 1_000)


def test_a_batch_of_more_records_than_one_may_have_is_too_large() -> None:
    data = encode_batch([(None, None)] * 11, timestamp_ms=WALL_MS)
    checked = checked_within(data, Limits(MIB, MIB, 10))
    assert isinstance(checked, BatchError)
    assert checked.error is ErrorCode.MESSAGE_TOO_LARGE
    assert checked_within(data, Limits(MIB, MIB, 11)) == [data]


def test_a_batch_of_more_headers_than_one_may_have_is_too_large() -> None:
    headers = varint(11) + b"\0\1" * 11  # without names and values
    body = b"\0\0\0\1\1" + headers
    data = seal_batch(varint(len(body)) + body, 1, WALL_MS)
    checked = checked_within(data, Limits(MIB, MIB, 1_000, headers=10))
    assert isinstance(checked, BatchError)
    assert checked.error is ErrorCode.MESSAGE_TOO_LARGE
    assert checked_within(data, Limits(MIB, MIB, 1_000, headers=11)) == [data]


def test_a_batch_that_others_of_its_request_left_no_time_for_is_to_be_sent_again() -> None:
    data = encode_batch([(None, None)] * 6, timestamp_ms=WALL_MS)
    allowance = Allowance(10)
    assert checked_within(data, LIMITS, allowance) == [data]
    checked = checked_within(data, LIMITS, allowance)
    assert isinstance(checked, BatchError)
    assert checked.error is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("opened", [MIB, 4096], ids=["bomb", "small"])
def test_what_is_decompressed_costs_time_whether_it_is_let_through_or_not(opened: int) -> None:
    plain = encode_batch([(None, bytes(opened))], timestamp_ms=WALL_MS)
    packed = repacked(plain, bytes(cramjam.zstd.compress(plain[61:])), 4)
    allowance = Allowance(1_000_000)
    checked = checked_within(packed, LIMITS, allowance)
    assert isinstance(checked, BatchError) == (opened == MIB)
    assert 1_000_000 - allowance.left_us >= opened // 512


def test_records_that_are_not_sound_cost_as_if_all_had_been_looked_at() -> None:
    data = encode_batch([(None, None)] * 500, timestamp_ms=WALL_MS)
    allowance = Allowance(1_000_000)
    checked = checked_within(repacked(data, data[61:] + b"x", 0), LIMITS, allowance)
    assert isinstance(checked, BatchError)
    assert 1_000_000 - allowance.left_us >= 500


def test_more_batches_of_a_partition_than_are_appended_at_one_go_are_too_large() -> None:
    one = encode_batch([(None, b"x")], timestamp_ms=WALL_MS)
    assert len(checked_within(one * MOST_BATCHES, LIMITS)) == MOST_BATCHES
    checked = checked_within(one * (MOST_BATCHES + 1), LIMITS)
    assert isinstance(checked, BatchError)
    assert checked.error is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (2, b"\x82SNAPPY\x00" + bytes(8) + (b"\0\0\0\1\0") * 2_000),
        (1, bytes(cramjam.gzip.compress(b"")) * 2_000),
    ],
    ids=["snappy blocks", "gzip members"],
)
def test_thousands_of_empty_parts_are_not_opened(codec: int, payload: bytes) -> None:
    checked = check(repacked(batch("a"), payload, codec))
    assert isinstance(checked, BatchError)
    assert checked.error is ErrorCode.INVALID_RECORD
    assert "next to nothing" in checked.message or "members" in checked.message


# --- what time records may be of ---


def test_records_from_the_far_future_are_refused_and_those_without_a_time_are_not(rig: TopicRig) -> None:
    hour_ms = 3_600_000
    assert rig.send(batch("a", at_ms=WALL_MS + hour_ms)).error_code is ErrorCode.NONE
    assert rig.send(batch("a", at_ms=WALL_MS + hour_ms + 1)).error_code is ErrorCode.INVALID_TIMESTAMP
    assert rig.send(batch("a", at_ms=-1)).error_code is ErrorCode.NONE


def test_a_topic_may_say_how_old_and_how_new_its_records_may_be(rig: TopicRig) -> None:
    rig.made("narrow", 1, message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="0")
    told = [rig.send(batch("a", at_ms=WALL_MS + by), topic="narrow").error_code for by in (-1001, -1000, 0, 1)]
    late = ErrorCode.INVALID_TIMESTAMP
    assert told == [late, ErrorCode.NONE, ErrorCode.NONE, late]
    rig.made("stamped", 1, message_timestamp_type="LogAppendTime", message_timestamp_after_max_ms="0")
    assert rig.send(batch("a", at_ms=WALL_MS + 1), topic="stamped").error_code is ErrorCode.NONE


def test_the_oldest_record_of_a_batch_may_be_too_old(rig: TopicRig) -> None:
    rig.made("narrow", 1, message_timestamp_before_max_ms="9")
    older_ms = b"\x13"  # ten milliseconds before the first
    records = b"\x0c\0\0\0\1\1\0" + b"\x0c\0" + older_ms + b"\2\1\1\0"
    data = seal_batch(records, 2, WALL_MS)
    assert rig.send(data, topic="narrow").error_code is ErrorCode.INVALID_TIMESTAMP
    assert rig.send(data).error_code is ErrorCode.NONE
