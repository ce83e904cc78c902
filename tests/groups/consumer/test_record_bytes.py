"""Records of groups that the coordinator balances, as bytes of Kafka's schemas
(docs/spec/consumer-group-protocol.md#14.1)."""

from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.records.consumer_codec import decode_consumer, encode_consumer
from coordinator.records.consumer_records import (
    AssignedTopic,
    AssignmentRecord,
    ClassicMetadata,
    ConsumerGroupRecord,
    ConsumerKey,
    ConsumerMemberRecord,
    ConsumerRecord,
    ConsumerTombstone,
    ConsumerTopicsRecord,
    MemberTargetRecord,
    ReconciliationState,
    RegexRecord,
    TargetRecord,
    TopicRacks,
)
from coordinator.records.records import LogCorrupt

T = bytes(range(16))
U = bytes(15) + b"\x01"
UNKNOWN_TAG = bytes.fromhex("01 63 02 abcd")
"""Tagged fields of a newer writer: tag 99, of two bytes."""


def group_key(kind: int) -> bytes:
    return pack(">h", kind) + b"\x00\x03grp"


def named_key(kind: int, name: bytes = b"m") -> bytes:
    return group_key(kind) + pack(">h", len(name)) + name


VECTORS: list[tuple[ConsumerRecord, bytes, bytes | None]] = [
    (ConsumerGroupRecord("grp", 2), group_key(3), bytes.fromhex("0000 00000002 00")),
    (
        ConsumerGroupRecord("grp", 258, -2),
        group_key(3),
        bytes.fromhex("0000 00000102 01 00 08 fffffffffffffffe"),
    ),
    (
        ConsumerTopicsRecord("grp", (TopicRacks(T, "t", 4, ((0, ("r1", "r2")), (3, ()))),)),
        group_key(4),
        bytes.fromhex("0000 02")
        + T
        + bytes.fromhex("02 74 00000004 03 00000000 03 03 7231 03 7232 00 00000003 01 00 00 00"),
    ),
    (
        ConsumerMemberRecord("grp", "m", "i", None, "c", "/h", ("t", "u"), "", 300_000, None),
        named_key(5),
        bytes.fromhex("0000 02 69 00 02 63 03 2f68 03 02 74 02 75 01 000493e0 00 00"),
    ),
    (
        ConsumerMemberRecord(
            "grp", "m", None, "r", "c", "/h", (), "a.*", -1, "range", ClassicMetadata(45_000, (("p", b"\x00\x01"),))
        ),
        named_key(5),
        bytes.fromhex("0000 00 02 72 02 63 03 2f68 01 04 612e2a ffffffff 06 72616e6765")
        + bytes.fromhex("01 00 0d 01 0000afc8 02 02 70 03 0001 00 00"),
    ),
    (TargetRecord("grp", 2), group_key(6), bytes.fromhex("0000 00000002 00")),
    (
        TargetRecord("grp", 2, 1_700_000_000_000),
        group_key(6),
        bytes.fromhex("0000 00000002 01 00 08") + pack(">q", 1_700_000_000_000),
    ),
    (MemberTargetRecord("grp", "m"), named_key(7), bytes.fromhex("0000 01 00")),
    (
        MemberTargetRecord("grp", "m", ((T, (0, 258)), (U, ()))),
        named_key(7),
        bytes.fromhex("0000 03") + T + bytes.fromhex("03 00000000 00000102 00") + U + bytes.fromhex("01 00 00"),
    ),
    (
        AssignmentRecord(
            "grp",
            "m",
            3,
            2,
            ReconciliationState.UNREVOKED_PARTITIONS,
            (AssignedTopic(T, (0, 1), (2, 3)),),
            (AssignedTopic(U, (7,), (2,)),),
        ),
        named_key(8),
        bytes.fromhex("0000 00000003 00000002 01 02")
        + T
        + bytes.fromhex("03 00000000 00000001 01 00 09 03 00000002 00000003 02")
        + U
        + bytes.fromhex("02 00000007 01 00 05 02 00000002 00"),
    ),
    (
        RegexRecord("grp", "a.*", ("a1", "a2"), 7, 1_700_000_000_000),
        named_key(16, b"a.*"),
        bytes.fromhex("0000 03 03 6131 03 6132 0000000000000007") + pack(">q", 1_700_000_000_000) + b"\x00",
    ),
    (ConsumerTombstone("grp", ConsumerKey.GROUP), group_key(3), None),
    (ConsumerTombstone("grp", ConsumerKey.TOPICS), group_key(4), None),
    (ConsumerTombstone("grp", ConsumerKey.MEMBER, "m"), named_key(5), None),
    (ConsumerTombstone("grp", ConsumerKey.TARGET), group_key(6), None),
    (ConsumerTombstone("grp", ConsumerKey.MEMBER_TARGET, "m"), named_key(7), None),
    (ConsumerTombstone("grp", ConsumerKey.ASSIGNMENT, "m"), named_key(8), None),
    (ConsumerTombstone("grp", ConsumerKey.REGEX, "a.*"), named_key(16, b"a.*"), None),
]


@pytest.mark.parametrize(("record", "key", "value"), VECTORS)
def test_a_record_is_written_and_read_as_kafka_does(record: ConsumerRecord, key: bytes, value: bytes | None) -> None:
    assert encode_consumer(record) == (key, value)
    assert decode_consumer(key, value) == record


# --- any record ---

_TEXTS = st.text(max_size=8) | st.just("x" * 200)
_INTS = st.integers(-(2**31), 2**31 - 1)
_LONGS = st.integers(-(2**63), 2**63 - 1)
_IDS = st.binary(min_size=16, max_size=16)
_PARTITIONS = st.lists(_INTS, max_size=200).map(tuple)


@st.composite
def _assigned(draw: Any) -> AssignedTopic:
    partitions = draw(_PARTITIONS)
    return AssignedTopic(draw(_IDS), partitions, tuple(draw(_INTS) for _ in partitions[:3]) + partitions[3:])


def _many(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=3).map(tuple)


RECORDS: st.SearchStrategy[ConsumerRecord] = st.one_of(
    st.builds(ConsumerGroupRecord, _TEXTS, _INTS, _LONGS),
    st.builds(
        ConsumerTopicsRecord,
        _TEXTS,
        _many(st.builds(TopicRacks, _IDS, _TEXTS, _INTS, _many(st.tuples(_INTS, _many(_TEXTS))))),
    ),
    st.builds(
        ConsumerMemberRecord,
        _TEXTS,
        _TEXTS,
        st.none() | _TEXTS,
        st.none() | _TEXTS,
        _TEXTS,
        _TEXTS,
        _many(_TEXTS),
        st.none() | _TEXTS,
        _INTS,
        st.none() | _TEXTS,
        st.none() | st.builds(ClassicMetadata, _INTS, _many(st.tuples(_TEXTS, st.binary(max_size=200)))),
    ),
    st.builds(TargetRecord, _TEXTS, _INTS, _LONGS),
    st.builds(MemberTargetRecord, _TEXTS, _TEXTS, _many(st.tuples(_IDS, _PARTITIONS))),
    st.builds(
        AssignmentRecord,
        _TEXTS,
        _TEXTS,
        _INTS,
        _INTS,
        st.sampled_from(ReconciliationState),
        _many(_assigned()),
        _many(_assigned()),
    ),
    st.builds(RegexRecord, _TEXTS, _TEXTS, _many(_TEXTS), _LONGS, _LONGS),
)


@given(RECORDS)
def test_any_record_is_read_as_it_was_written(record: ConsumerRecord) -> None:
    assert decode_consumer(*encode_consumer(record)) == record


@given(RECORDS, st.data())
def test_a_record_cut_anywhere_is_corrupt_and_nothing_else(record: ConsumerRecord, data: st.DataObject) -> None:
    key, value = encode_consumer(record)
    assert value is not None
    at = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(LogCorrupt):
        decode_consumer(key, value[:at])
    at = data.draw(st.integers(2, len(key) - 1))
    with pytest.raises(LogCorrupt):
        decode_consumer(key[:at], value)


# --- records of others ---


def has_tag(record: ConsumerRecord) -> bool:
    """Tell whether the record's own struct, which ends the value, has a tagged field."""
    match record:
        case ConsumerGroupRecord():
            return record.metadata_hash != 0
        case TargetRecord():
            return record.timestamp_ms != 0
        case ConsumerMemberRecord():
            return record.classic is not None
        case _:
            return False


def test_tagged_fields_of_newer_writers_are_skipped() -> None:
    """Scenario 88 (docs/spec/consumer-group-protocol.md#19.10)."""
    for record, key, value in VECTORS:
        if value is not None and not has_tag(record):
            assert decode_consumer(key, value[:-1] + UNKNOWN_TAG) == record
    value = bytes.fromhex("0000 00000002 02 00 08 0000000000000005 63 02 abcd")
    assert decode_consumer(group_key(3), value) == ConsumerGroupRecord("grp", 2, 5)


def test_keys_of_other_types_are_skipped() -> None:
    """Scenario 88 (docs/spec/consumer-group-protocol.md#19.10)."""
    for kind in (0, 1, 2, 9, 15, 17, 0x4D01):
        assert decode_consumer(group_key(kind), b"\x00\x00") is None


def test_an_assignment_without_epochs_has_those_of_its_member() -> None:
    """Scenario 86 (docs/spec/consumer-group-protocol.md#19.10): a record of Kafka before 4.3."""
    value = bytes.fromhex("0000 00000005 00000004 00 02") + T + bytes.fromhex("03 00000000 00000001 00 01 00")
    record = AssignmentRecord("grp", "m", 5, 4, ReconciliationState.STABLE, (AssignedTopic(T, (0, 1), (5, 5)),))
    assert decode_consumer(named_key(8), value) == record


def test_assignment_epochs_of_another_length_are_corrupt() -> None:
    value = bytes.fromhex("0000 00000005 00000004 00 02") + T
    value += bytes.fromhex("03 00000000 00000001 01 00 05 02 00000005 01 00")
    with pytest.raises(LogCorrupt, match="1 assignment epochs, where 2 must be"):
        decode_consumer(named_key(8), value)


def test_a_state_of_a_newer_writer_is_unknown() -> None:
    value = bytes.fromhex("0000 00000005 00000004 09 01 01 00")
    assert decode_consumer(named_key(8), value) == AssignmentRecord("grp", "m", 5, 4, ReconciliationState.UNKNOWN)


def test_a_value_of_a_newer_version_is_corrupt() -> None:
    for kind in ConsumerKey:
        key = named_key(kind) if kind in (5, 7, 8, 16) else group_key(kind)
        with pytest.raises(LogCorrupt, match="of unknown version 1; 0 is known"):
            decode_consumer(key, b"\x00\x01" + bytes(40))


def test_classic_metadata_may_be_null_in_its_tag() -> None:
    plain = bytes.fromhex("0000 00 00 02 63 03 2f68 01 01 ffffffff 00")
    record = decode_consumer(named_key(5), plain + bytes.fromhex("01 00 01 ff"))
    assert record == decode_consumer(named_key(5), plain + b"\x00")
