"""Properties of every message in every version, and of invalid bytes."""

import tracemalloc
from contextlib import suppress
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.apis import BY_MESSAGE, WIRE_APIS, WireApi
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.reading import MAX_ENTRIES, reader
from protocol.kafka.varint import MAX_TAGS, read_tags, read_uvarint, write_tags, write_uvarint
from protocol.kafka.writing import writer
from protocol.messages import Message
from protocol.messages.data import FetchPartition
from protocol.messages.groups import Heartbeat, JoinGroup, ListedGroup, ListGroups, ListGroupsReply
from protocol.messages.offsets import OffsetCommit, OffsetDelete
from tests.enumerations import share_of
from tests.protocol.kafka.samples import CASES, Case, Filled, carried, cases, sample

each_api = pytest.mark.parametrize("api", WIRE_APIS.values(), ids=lambda api: api.request.name)
PEAK_BYTES = 1 << 20


def cases_of(api: WireApi) -> list[Case]:
    return [case for case in CASES if case.api is api]


def case_of(name: str, version: int) -> Case:
    return next(case for case in CASES if case.schema.name == name and case.version == version)


def read(case: Case, data: bytes, position: int = 0) -> Any:
    return reader(case.schema, case.version)(data, position)


def write(case: Case, message: Message) -> bytes:
    return writer(case.schema, case.version)(message)


@given(cases())
@settings(max_examples=share_of(400), deadline=None)
def test_what_is_written_is_read_as_it_was(drawn: tuple[Case, Message]) -> None:
    case, message = drawn
    assert read(case, write(case, message)) == message


@given(cases(), st.binary(max_size=20), st.binary(max_size=20))
@settings(max_examples=share_of(100), deadline=None)
def test_a_body_is_read_from_where_it_begins_and_what_follows_is_let_pass(
    drawn: tuple[Case, Message], before: bytes, after: bytes
) -> None:
    case, message = drawn
    assert read(case, before + write(case, message) + after, len(before)) == message


@given(cases(), st.data())
@settings(max_examples=share_of(200), deadline=None)
def test_any_version_can_carry_what_another_version_said(drawn: tuple[Case, Message], data: st.DataObject) -> None:
    case, message = drawn
    # Towards older versions one key of FindCoordinator is all there is room for, and the same of groups and members.
    newer = data.draw(st.integers(case.version, case.schema.newest))
    other = case._replace(version=newer)
    assert read(other, write(other, message)) == carried(case.schema.group, message, newer)


@given(st.sampled_from(CASES), st.binary(max_size=300))
@settings(max_examples=share_of(400), deadline=None)
def test_any_bytes_are_a_message_or_a_violation(case: Case, data: bytes) -> None:
    with suppress(ProtocolViolation):
        assert isinstance(read(case, data), case.schema.group.message)


@given(cases(), st.data())
@settings(max_examples=share_of(400), deadline=None)
def test_a_bent_body_is_a_message_or_a_violation(drawn: tuple[Case, Message], data: st.DataObject) -> None:
    case, message = drawn
    bent = bytearray(write(case, message))
    for _ in range(data.draw(st.integers(1, 4))):
        if bent:
            bent[data.draw(st.integers(0, len(bent) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolViolation):
        assert isinstance(read(case, bytes(bent)), case.schema.group.message)


@each_api
def test_a_body_cut_short_at_any_length_is_a_violation(api: WireApi) -> None:
    for case in cases_of(api):
        whole = write(case, sample(case, Filled()))
        for length in range(len(whole)):
            with pytest.raises(ProtocolViolation, match=case.schema.name):
                read(case, whole[:length])
        with pytest.raises(ProtocolViolation):
            read(case, b"", 1)


# --------------------------------------------------------------------------------------------------------------- bounds


def peak_of(case: Case, data: bytes) -> int:
    read_it = reader(case.schema, case.version)
    with suppress(ProtocolViolation):
        read_it(b"", 0)  # compiled before it is measured
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolViolation):
            read_it(data, 0)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def huge_counts() -> list[tuple[Case, bytes]]:
    """Bodies of requests that begin with text fields and then promise billions of elements."""
    count, compact = b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"
    return [
        (case_of("DescribeGroups", 0), count),
        (case_of("DescribeGroups", 6), compact),
        (case_of("OffsetDelete", 0), b"\x00\x01g" + count),
        (case_of("OffsetDelete", 0), b"\x00\x01g" + b"\x00\x00\x00\x01\x00\x01t" + count),
        (case_of("OffsetCommit", 8), b"\x02g" + bytes(4) + b"\x02m\x00" + compact),
        (case_of("JoinGroup", 5), b"\x00\x01g" + bytes(8) + b"\x00\x00\xff\xff\x00\x00" + count),
        (case_of("Metadata", 12), compact),
        (case_of("Fetch", 4), bytes(4 * 4 + 1) + count),
        (case_of("CreateTopics", 7), compact),
    ]


@pytest.mark.parametrize(("case", "data"), huge_counts(), ids=lambda one: str(one) if isinstance(one, Case) else "")
def test_a_count_of_billions_takes_no_memory(case: Case, data: bytes) -> None:
    assert peak_of(case, data) < PEAK_BYTES


@pytest.mark.parametrize(("case", "data"), huge_counts(), ids=lambda one: str(one) if isinstance(one, Case) else "")
def test_a_count_within_the_bound_is_paid_for_with_bytes(case: Case, data: bytes) -> None:
    """Nothing is allocated for announced elements that do not come."""
    count = MAX_ENTRIES - 100
    plain, compact = b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"
    lying = data.replace(plain, pack(">i", count)).replace(compact, write_uvarint(count + 1))
    assert lying != data
    assert peak_of(case, lying + bytes(40)) < PEAK_BYTES


def test_entries_are_counted_over_all_arrays_of_a_request() -> None:
    topic = b"\x00\x00" + pack(">i", 1_000) + bytes(4_000)
    case = case_of("OffsetDelete", 0)
    fits, beyond = MAX_ENTRIES // 1_001, MAX_ENTRIES // 1_001 + 1
    assert len(read(case, b"\x00\x01g" + pack(">i", fits) + topic * fits).topics) == fits
    with pytest.raises(ProtocolViolation, match="more than 131072 entries"):
        read(case, b"\x00\x01g" + pack(">i", beyond) + topic * beyond)


def test_elements_of_one_byte_each_are_bounded_too() -> None:
    case = case_of("DescribeGroups", 5)
    count = MAX_ENTRIES + 1
    with pytest.raises(ProtocolViolation, match="more than 131072 entries"):
        read(case, write_uvarint(count + 1) + b"\x01" * count + b"\x00\x00")
    assert len(read(case, write_uvarint(MAX_ENTRIES + 1) + b"\x01" * MAX_ENTRIES + b"\x00\x00").groups) == MAX_ENTRIES


@pytest.mark.parametrize("version", [0, 4])
def test_a_name_of_more_than_eight_thousand_bytes_is_a_violation(version: int) -> None:
    case = case_of("Heartbeat", version)
    assert read(case, write(case, Heartbeat("g", 1, "x" * 8_000))).member_id == "x" * 8_000
    with pytest.raises(ProtocolViolation, match="longer than 8000 bytes"):
        read(case, write(case, Heartbeat("g", 1, "x" * 8_001)))


@pytest.mark.parametrize("version", [0, 4])
def test_a_group_id_has_any_length_so_that_it_can_be_refused_by_name(version: int) -> None:
    case = case_of("Heartbeat", version)
    assert read(case, write(case, Heartbeat("x" * 32_767, 1, "m"))).group_id == "x" * 32_767


def test_what_a_server_answers_may_name_what_it_let_others_name() -> None:
    """Apache Kafka has groups and clients with names of up to 32,767 bytes."""
    api = BY_MESSAGE[ListGroups]
    for version in (0, 5):
        said = ListGroupsReply(groups=(ListedGroup("x" * 32_767, "x" * 32_767, "Stable"),))
        data = writer(api.reply, version)(said)
        with pytest.raises(ProtocolViolation, match="longer than 8000 bytes"):
            reader(api.reply, version)(data, 0)
        assert reader(api.reply, version, is_answer=True)(data, 0).groups[0].group_id == "x" * 32_767


def test_lengths_below_null_are_violations_where_null_is() -> None:
    with pytest.raises(ProtocolViolation, match="a negative length"):
        read(case_of("Heartbeat", 0), b"\xff\xff" + bytes(10))
    with pytest.raises(ProtocolViolation, match="a negative length"):
        read(case_of("Heartbeat", 4), b"\x00" + bytes(10))
    with pytest.raises(ProtocolViolation, match="a negative count"):
        read(case_of("DescribeGroups", 0), b"\xff\xff\xff\xff")
    with pytest.raises(ProtocolViolation, match="a negative count"):
        read(case_of("DescribeGroups", 5), b"\x00\x00\x00")


def test_text_that_is_no_utf_8_is_read_with_replacement_characters() -> None:
    case = case_of("Heartbeat", 0)
    heartbeat = read(case, b"\x00\x03a\xffb" + bytes(4) + b"\x00\x01m")
    assert (heartbeat.group_id, heartbeat.member_id) == ("a\ufffdb", "m")
    with pytest.raises(ProtocolViolation):
        read(case, b"\x00\x03a\xffb" + bytes(4) + b"\x00\x05m")


def test_an_error_that_nobody_has_named_yet_keeps_its_number() -> None:
    code = read(case_of("HeartbeatReply", 0), b"\x27\x0f").error_code
    assert (code, code.name, code.is_known, code.retriable) == (9_999, "UNKNOWN_ERROR_9999", False, False)
    assert isinstance(code, ErrorCode)


# -------------------------------------------------------------------------------------------------------------- varints


@given(st.integers(0, 2**31 - 1))
def test_an_unvarint_is_read_as_it_was_written(value: int) -> None:
    data = write_uvarint(value)
    assert read_uvarint(b"x" + data + b"x", 1) == (value, 1 + len(data))


@pytest.mark.parametrize("data", [b"\x80" * 5, b"\xff" * 5 + b"\x00", b"\x80\x80\x80\x80\x80\x01", b"\xff" * 4_000])
def test_a_varint_without_end_is_a_violation(data: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="more than five bytes"):
        read_uvarint(data, 0)
    with pytest.raises(ProtocolViolation):
        read(case_of("Heartbeat", 4), data)


@given(st.dictionaries(st.integers(0, 2**31 - 1), st.binary(max_size=200), max_size=10))
def test_tagged_fields_are_read_as_they_were_written(tags: dict[int, bytes]) -> None:
    data = write_tags(sorted(tags.items()))
    assert read_tags(data + b"x", 0) == (tags, len(data))


@pytest.mark.parametrize(
    "tags",
    [
        b"\xff\xff\xff\xff\x07",
        b"\x01\x00\xff\xff\xff\xff\x07",
        b"\x01\x00\x05abcd",
        b"\x02\x00\x00",
        b"\x02\x07\x00\x07\x00",
    ],
)
def test_tagged_fields_that_are_not_there_or_there_twice_are_a_violation(tags: bytes) -> None:
    whole = write(case_of("Heartbeat", 4), sample(case_of("Heartbeat", 4), Filled()))
    with pytest.raises(ProtocolViolation):
        read(case_of("Heartbeat", 4), whole[:-1] + tags)


def test_more_tagged_fields_than_any_struct_has_are_a_violation() -> None:
    case = case_of("Heartbeat", 4)
    whole = write(case, sample(case, Filled()))
    most, beyond = (write_tags([(tag, b"") for tag in range(count)]) for count in (MAX_TAGS, MAX_TAGS + 1))
    assert read(case, whole[:-1] + most) == read(case, whole)
    with pytest.raises(ProtocolViolation, match="65 tagged fields in one struct; 64 are allowed"):
        read(case, whole[:-1] + beyond)


def test_tagged_fields_count_among_the_entries_of_a_request() -> None:
    tags = write_tags([(tag, b"") for tag in range(MAX_TAGS)])
    case = case_of("DescribeTopicPartitions", 0)
    topic = b"\x02t" + tags
    beyond = MAX_ENTRIES // (MAX_TAGS + 1) + 1
    end = bytes(4) + b"\xff\x00"
    assert len(read(case, write_uvarint(beyond) + topic * (beyond - 1) + end).topics) == beyond - 1
    with pytest.raises(ProtocolViolation, match="more than 131072 entries"):
        read(case, write_uvarint(beyond + 1) + topic * beyond + end)


def test_messages_that_many_make_are_no_larger_than_they_must_be() -> None:
    """The garbage collector does not track decoded messages: a million entries cost it nothing."""
    for kind in (OffsetCommit, OffsetDelete, JoinGroup, FetchPartition):
        assert kind.__struct_config__.gc is False
