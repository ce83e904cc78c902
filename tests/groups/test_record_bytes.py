from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.records.codec import decode, decode_marker, encode, encode_marker, encode_offsets
from coordinator.records.commit_template import CommitTemplate
from coordinator.records.records import (
    BalancedMember,
    BalancedMetadata,
    BalancedTombstone,
    CommittedOffset,
    GroupMetadata,
    GroupSettingsRecord,
    GroupTombstone,
    LogCorrupt,
    MemberRecord,
    MemberReplaced,
    OffsetTombstone,
    Owner,
    Ownership,
    OwnershipTombstone,
    ShardRecord,
    TransactionEnded,
)
from protocol.record_batch import BatchHeader, decode_batch, encode_batch, read_header, seal_batch
from protocol.record_writing import encode_record, varint

OFFSET_KEY = bytes.fromhex("0001 0003 677270 0001 74 00000005")
GROUP_KEY = bytes.fromhex("0002 0003 677270")
TIME = pack(">q", 1_700_000_000_000)
TIME_MS = 1_700_000_000_000


def commit(**fields: object) -> CommittedOffset:
    given = {"offset": 77, "leader_epoch": -1, "metadata": "ab", "commit_timestamp_ms": TIME_MS} | fields
    return CommittedOffset("grp", "t", **{"partition": 5, **given})  # type: ignore[arg-type]


# --- written ---


def test_an_offset_commit_as_the_specification_shows_it() -> None:
    topic_id = bytes(range(16))
    value = bytes.fromhex("0004 000000000000004d ffffffff 03 6162") + TIME + bytes.fromhex("01 00 10") + topic_id
    assert encode(commit(topic_id=topic_id)) == (OFFSET_KEY, value)
    assert decode(OFFSET_KEY, value) == commit(topic_id=topic_id)


def test_an_offset_commit_without_topic_id_has_no_tags() -> None:
    value = bytes.fromhex("0004 000000000000004d ffffffff 03 6162") + TIME + b"\x00"
    assert encode(commit()) == (OFFSET_KEY, value)
    assert decode(OFFSET_KEY, value) == commit()


def test_an_offset_commit_with_a_retention_is_of_version_1_and_loses_its_epoch() -> None:
    record = commit(leader_epoch=4, expire_timestamp_ms=TIME_MS)
    value = bytes.fromhex("0001 000000000000004d 0002 6162") + TIME + TIME
    assert encode(record) == (OFFSET_KEY, value)
    assert decode(OFFSET_KEY, value) == commit(expire_timestamp_ms=TIME_MS)


def test_a_group_is_written_as_version_3() -> None:
    member = MemberRecord("m-1", "i", "c", "/h", 60_000, 10_000, b"sub", b"asg")
    record = GroupMetadata("grp", "consumer", 3, "range", "m-1", TIME_MS, (member,))
    value = b"".join(
        (
            bytes.fromhex("0003"),
            b"\x00\x08consumer",
            pack(">i", 3),
            b"\x00\x05range",
            b"\x00\x03m-1",
            TIME,
            pack(">i", 1),
            b"\x00\x03m-1",
            b"\x00\x01i",
            b"\x00\x01c",
            b"\x00\x02/h",
            pack(">ii", 60_000, 10_000),
            b"\x00\x00\x00\x03sub",
            b"\x00\x00\x00\x03asg",
        )
    )
    assert encode(record) == (GROUP_KEY, value)
    assert decode(GROUP_KEY, value) == record


def test_a_new_group_has_no_type_no_protocol_and_no_leader() -> None:
    value = bytes.fromhex("0003 0000 00000000 ffff ffff") + TIME + bytes(4)
    assert encode(GroupMetadata("grp", "", 0, None, None, TIME_MS)) == (GROUP_KEY, value)


def test_tombstones_are_keys_alone() -> None:
    assert encode(OffsetTombstone("grp", "t", 5)) == (OFFSET_KEY, None)
    assert encode(GroupTombstone("grp")) == (GROUP_KEY, None)
    assert decode(OFFSET_KEY, None) == OffsetTombstone("grp", "t", 5)
    assert decode(GROUP_KEY, None) == GroupTombstone("grp")


_COMMITS = st.lists(
    st.builds(
        CommittedOffset,
        group_id=st.just("gr\u00fcn"),
        topic=st.sampled_from(("t", "a longer name" * 9)),
        partition=st.integers(0, 2**31 - 1),
        offset=st.integers(-(2**63), 2**63 - 1),
        leader_epoch=st.integers(-1, 2**31 - 1),
        metadata=st.sampled_from(("", "", "", "text")),
        commit_timestamp_ms=st.integers(-1, 2**62),
        expire_timestamp_ms=st.sampled_from((-1, -1, -1, 5)),
        topic_id=st.sampled_from((None, None, None, bytes(range(16)))),
    ),
    min_size=1,
    max_size=130,
)


@given(_COMMITS)
def test_the_records_of_a_commit_are_those_that_are_made_one_by_one(records: list[CommittedOffset]) -> None:
    whole = encode_batch([encode(record) for record in records], timestamp_ms=TIME_MS)
    payload = encode_offsets(records, 1 << 20)
    assert payload is not None and seal_batch(payload, len(records), TIME_MS) == whole


def test_places_grow_longer_in_a_large_commit() -> None:
    records = [commit(partition=index, metadata="") for index in range(8_300)]
    whole = encode_batch([encode(record) for record in records], timestamp_ms=TIME_MS)
    payload = encode_offsets(records, 1 << 24)
    assert payload is not None and seal_batch(payload, len(records), TIME_MS) == whole


@given(_COMMITS, st.lists(st.integers(0, 2**63 - 1), min_size=8, max_size=8), st.integers(0, 2**62))
def test_a_template_encodes_the_records_that_are_made_one_by_one(
    records: list[CommittedOffset], offsets: list[int], now_ms: int
) -> None:
    offsets = (offsets * len(records))[: len(records)]
    plain = [replace(one, metadata="", expire_timestamp_ms=-1) for one in records]
    template = CommitTemplate(plain)
    for shift in (0, 1):
        values = [max(offset - shift, 0) for offset in offsets]
        now = [replace(one, offset=at, commit_timestamp_ms=now_ms) for one, at in zip(plain, values, strict=True)]
        whole = encode_batch([encode(record) for record in now], timestamp_ms=now_ms, base_offset=shift)
        assert template.batch(values, now_ms, shift) == whole


def test_a_template_of_a_large_commit_has_longer_places() -> None:
    records = [commit(partition=index, metadata="") for index in range(8_300)]
    whole = encode_batch([encode(record) for record in records], timestamp_ms=TIME_MS)
    assert CommitTemplate(records).batch([77] * len(records), TIME_MS, 0) == whole


def test_a_commit_that_is_too_large_is_no_bytes_at_all() -> None:
    records = [commit(partition=index, metadata="") for index in range(9)]
    size = sum(len(encode_record(varint(index), *encode(record))) for index, record in enumerate(records))
    assert encode_offsets(records, size) is not None
    assert encode_offsets(records, size // 2) is None
    assert encode_offsets([commit(metadata="x" * 100)], 100) is None


def marker_of(batch: bytes) -> TransactionEnded | None:
    (entry,) = decode_batch(batch)
    return decode_marker(read_header(batch), entry.key, entry.value)


@pytest.mark.parametrize(("is_committed", "kind"), [(False, "0000"), (True, "0001")])
def test_a_marker_is_kafkas_control_record(is_committed: bool, kind: str) -> None:
    marker = TransactionEnded(7, 3, is_committed, 5)
    assert encode_marker(marker) == (bytes.fromhex("0000" + kind), bytes.fromhex("0000 00000005"))
    batch = encode_batch([encode_marker(marker)], timestamp_ms=1, producer_id=7, producer_epoch=3, control=True)
    assert marker_of(batch) == marker


def test_control_records_of_other_kinds_are_none_of_ours_and_broken_ones_stop_the_load() -> None:
    header: BatchHeader = read_header(encode_batch([(b"", b"")], timestamp_ms=1, control=True))
    assert decode_marker(header, bytes.fromhex("00000005"), bytes(6)) is None
    for key, value in ((None, b""), (b"", bytes(6)), (bytes(4), None), (bytes(4), bytes(3))):
        with pytest.raises(LogCorrupt):
            decode_marker(header, key, value)


# --- read: every version there is ---


@pytest.mark.parametrize(
    ("value", "record"),
    [
        (bytes.fromhex("0000 000000000000004d 0002 6162") + TIME, commit()),
        (bytes.fromhex("0001 000000000000004d 0002 6162") + TIME + pack(">q", 9), commit(expire_timestamp_ms=9)),
        (bytes.fromhex("0002 000000000000004d 0002 6162") + TIME, commit()),
        (bytes.fromhex("0003 000000000000004d 00000006 0002 6162") + TIME, commit(leader_epoch=6)),
        (bytes.fromhex("0004 000000000000004d 00000006 03 6162") + TIME + b"\x00", commit(leader_epoch=6)),
    ],
    ids=["v0", "v1", "v2", "v3", "v4"],
)
def test_offset_commits_of_every_version_are_read(value: bytes, record: CommittedOffset) -> None:
    assert decode(OFFSET_KEY, value) == record


def test_the_oldest_key_of_an_offset_commit_is_read() -> None:
    value = bytes.fromhex("0000 000000000000004d 0002 6162") + TIME
    assert decode(b"\x00\x00" + OFFSET_KEY[2:], value) == commit()


def group_value(version: int) -> bytes:
    head = pack(">h", version) + b"\x00\x08consumer" + pack(">i", 3) + b"\x00\x05range\x00\x03m-1"
    since = TIME if version >= 2 else b""
    member = b"\x00\x03m-1" + (b"\xff\xff" if version >= 3 else b"") + b"\x00\x01c\x00\x02/h"
    timeouts = pack(">ii", 60_000, 10_000) if version >= 1 else pack(">i", 10_000)
    return head + since + pack(">i", 1) + member + timeouts + b"\x00\x00\x00\x01s\x00\x00\x00\x01a"


@pytest.mark.parametrize("version", range(4))
def test_groups_of_every_old_version_are_read(version: int) -> None:
    member = MemberRecord("m-1", None, "c", "/h", 60_000 if version else 10_000, 10_000, b"s", b"a")
    since = TIME_MS if version >= 2 else -1
    assert decode(GROUP_KEY, group_value(version)) == GroupMetadata(
        "grp", "consumer", 3, "range", "m-1", since, (member,)
    )


TAGS = bytes.fromhex("02 63 02 7a7a 64 00")  # 99: "zz", 100: nothing


@pytest.mark.parametrize("tags", [b"\x00", TAGS], ids=["no tags", "unknown tags"])
def test_a_group_of_the_flexible_version_is_read_and_unknown_tags_are_let_pass(tags: bytes) -> None:
    member = b"\x04m-1\x02i\x02c\x03/h" + pack(">ii", 60_000, 10_000) + b"\x02s\x02a" + tags
    value = pack(">h", 4) + b"\x09consumer" + pack(">i", 3) + b"\x06range\x04m-1" + TIME + b"\x02" + member + tags
    expected = MemberRecord("m-1", "i", "c", "/h", 60_000, 10_000, b"s", b"a")
    assert decode(GROUP_KEY, value) == GroupMetadata("grp", "consumer", 3, "range", "m-1", TIME_MS, (expected,))


def test_an_offset_commit_with_unknown_tags_is_read() -> None:
    value = bytes.fromhex("0004 000000000000004d ffffffff 03 6162") + TIME + TAGS
    assert decode(OFFSET_KEY, value) == commit()


def test_long_metadata_has_a_long_length() -> None:
    for length in (126, 127, 128, 4_096, 16_384):
        record = commit(metadata="x" * length)
        assert decode(*encode(record)) == record


# --- what is not ours, and what is broken ---


@pytest.mark.parametrize("kind", [9, 10, 15, 17, 77, -1])
def test_keys_of_other_kinds_are_skipped(kind: int) -> None:
    assert decode(pack(">h", kind) + b"whatever", b"anything") is None
    assert decode(pack(">h", kind), None) is None


@pytest.mark.parametrize("version", [5, 99, -1])
def test_values_of_unknown_versions_stop_the_load(version: int) -> None:
    with pytest.raises(LogCorrupt, match="unknown version"):
        decode(OFFSET_KEY, pack(">h", version) + bytes(40))
    with pytest.raises(LogCorrupt, match="unknown version"):
        decode(GROUP_KEY, pack(">h", version) + bytes(40))


MEMBERS = (
    MemberRecord("m-1", "i", "c", "/h", 60_000, 10_000, b"sub", b"asg"),
    MemberRecord("m-2", None, "c", "/h", 60_000, 10_000, b"", b""),
)
BALANCED = BalancedMember("c-1", None, "c", "/h", 1, "latest", 30_000, 1, 0)
RECORDS: list[ShardRecord] = [
    commit(),
    commit(metadata=""),
    commit(topic_id=bytes(16)),
    commit(expire_timestamp_ms=9),
    GroupMetadata("grp", "consumer", 3, "range", "m-1", TIME_MS, MEMBERS),
    MemberReplaced("grp", "i", 3, "m-2", "c", "/h", 60_000, 10_000, b"sub"),
    Ownership("grp", "t", 5, 7, Owner("m-1", 2, 3, TIME_MS, 10_000)),
    Ownership("grp", "t", 5, 7),
    BalancedMetadata("grp", TIME_MS, 1, 2, b"digest", 0, ("t",), (("t", ("f",)),), 3, (BALANCED,), ("gone",)),
]


@pytest.mark.parametrize("record", RECORDS)
def test_a_value_cut_anywhere_stops_the_load(record: ShardRecord) -> None:
    key, value = encode(record)
    assert value is not None
    for end in range(len(value)):
        with pytest.raises(LogCorrupt):
            decode(key, value[:end])


@pytest.mark.parametrize("record", RECORDS)
def test_a_key_cut_anywhere_stops_the_load(record: ShardRecord) -> None:
    key, value = encode(record)
    for end in range(len(key)):
        for kept in (value, None):
            with pytest.raises(LogCorrupt):
                decode(key[:end], kept)


def test_a_record_without_a_key_stops_the_load() -> None:
    with pytest.raises(LogCorrupt, match="without a key"):
        decode(None, b"")


def test_text_that_is_no_utf8_stops_the_load() -> None:
    with pytest.raises(LogCorrupt):
        decode(bytes.fromhex("0001 0001 ff 0001 74 00000005"), encode(commit())[1])
    with pytest.raises(LogCorrupt):
        decode(OFFSET_KEY, bytes.fromhex("0002 000000000000004d 0001 ff") + TIME)


def test_lengths_that_make_no_sense_stop_the_load() -> None:
    with pytest.raises(LogCorrupt):
        decode(GROUP_KEY, bytes.fromhex("0003 fffe"))
    with pytest.raises(LogCorrupt, match="null"):
        decode(GROUP_KEY, bytes.fromhex("0003 ffff"))
    with pytest.raises(LogCorrupt):
        decode(OFFSET_KEY, bytes.fromhex("0004 000000000000004d ffffffff ffffffffffff") + TIME)
    with pytest.raises(LogCorrupt, match="-1 elements"):
        decode(GROUP_KEY, bytes.fromhex("0003 0000 00000000 ffff ffff") + TIME + pack(">i", -1))


def test_a_grant_of_a_newer_format_stops_the_load() -> None:
    key, value = encode(Ownership("grp", "t", 5, 7))
    assert value is not None
    with pytest.raises(LogCorrupt, match="unknown format 0001"):
        decode(key, b"\x00\x01" + value[2:])


@given(st.binary(max_size=60), st.binary(max_size=80) | st.none())
def test_any_bytes_are_a_record_nothing_or_corrupt(key: bytes, value: bytes | None) -> None:
    try:
        assert decode(key, value) is None or key[:2] in {
            b"\x00\x00",
            b"\x00\x01",
            b"\x00\x02",
            b"\x4d\x01",
            b"\x4d\x02",
        }
    except LogCorrupt:
        return


@given(st.sampled_from((OFFSET_KEY, GROUP_KEY)), st.integers(0, 4), st.binary(max_size=80))
def test_any_value_of_a_known_version_is_a_record_or_corrupt(key: bytes, version: int, rest: bytes) -> None:
    try:
        assert decode(key, pack(">h", version) + rest) is not None
    except LogCorrupt:
        return


# --- round trips ---

_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_MEMBER = st.builds(
    MemberRecord, _TEXT, st.none() | _TEXT, _TEXT, _TEXT, _INT32, _INT32, st.binary(max_size=9), st.binary(max_size=9)
)
_OWNER = st.builds(Owner, _TEXT, _INT32, _INT32, _INT64, _INT32, _INT64)
_BALANCED = st.builds(
    BalancedMember, _TEXT, st.none() | _TEXT, _TEXT, _TEXT, st.none() | _INT32, _TEXT, _INT32, _INT64, _INT64
)
_RECORD = st.one_of(
    st.builds(
        CommittedOffset,
        _TEXT,
        _TEXT,
        st.integers(0, 2**31 - 1),
        _INT64,
        _INT32,
        _TEXT,
        _INT64,
        topic_id=st.none() | st.binary(min_size=16, max_size=16),
    ),
    st.builds(
        CommittedOffset,
        _TEXT,
        _TEXT,
        st.integers(0, 2**31 - 1),
        _INT64,
        st.just(-1),
        _TEXT,
        _INT64,
        expire_timestamp_ms=st.integers(0, 2**63 - 1),
    ),
    st.builds(MemberReplaced, _TEXT, _TEXT, _INT32, _TEXT, _TEXT, _TEXT, _INT32, _INT32, st.binary(max_size=9)),
    st.builds(OffsetTombstone, _TEXT, _TEXT, st.integers(0, 2**31 - 1)),
    st.builds(
        GroupMetadata,
        _TEXT,
        _TEXT,
        _INT32,
        st.none() | _TEXT,
        st.none() | _TEXT,
        _INT64,
        st.lists(_MEMBER, max_size=3).map(tuple),
    ),
    st.builds(GroupTombstone, _TEXT),
    st.builds(Ownership, _TEXT, _TEXT, st.integers(0, 2**31 - 1), _INT64, st.none() | _OWNER),
    st.builds(OwnershipTombstone, _TEXT, _TEXT, st.integers(0, 2**31 - 1)),
    st.builds(
        BalancedMetadata,
        _TEXT,
        _INT64,
        _INT64,
        _INT64,
        st.binary(max_size=8),
        _INT64,
        st.lists(_TEXT, max_size=2).map(tuple),
        st.lists(st.tuples(_TEXT, st.lists(_TEXT, max_size=2).map(tuple)), max_size=2).map(tuple),
        st.none() | _INT32,
        st.lists(_BALANCED, max_size=2).map(tuple),
        st.lists(_TEXT, max_size=2).map(tuple),
    ),
    st.builds(BalancedTombstone, _TEXT),
    st.builds(GroupSettingsRecord, _TEXT, st.dictionaries(_TEXT, _TEXT, max_size=2)),
)


@given(_RECORD)
def test_what_is_written_reads_back(record: ShardRecord) -> None:
    assert decode(*encode(record)) == record
