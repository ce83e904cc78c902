"""A Kafka connection as bytes in and bytes out: framing, order, and who may speak."""

import tracemalloc
from struct import pack
from typing import Any

import pytest

from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.client import KafkaClient, encode_request
from protocol.kafka.session import MAX_CLIENT_ID, MAX_WAITING_BYTES
from protocol.messages.data import Fetch, FetchReply, Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply, Heartbeat, HeartbeatReply
from protocol.messages.node import (
    ApiVersions,
    ErrorReply,
    SaslHandshake,
)
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopicReply,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchReply,
    OffsetFetchTopic,
)
from tests.protocol.kafka.samples import Case, Filled, sample
from tests.protocol.kafka.sessions import (
    BEAT,
    FRAME_BYTES,
    ITS_OWN,
    JOIN,
    SPOKEN,
    asked,
    framed,
    opened,
    requests_of,
)


def batch_of(records: bytes) -> Produce:
    return Produce((ProduceTopic("t", (ProducePartition(0, records),)),))


# -------------------------------------------------------------------------------------------------------------- framing


@pytest.mark.parametrize("case", SPOKEN[::7], ids=str)
def test_a_request_split_at_any_byte_is_one_request(case: Case) -> None:
    message = sample(case, Filled(entries=1))
    if case.api.message in ITS_OWN or (isinstance(message, Produce) and case.version < 3):
        return
    data = encode_request(message, case.version, 9, "client")
    for cut in range(len(data) + 1):
        session = opened()
        session.receive_data(data[:cut])
        if cut < len(data):
            assert session.next_request() is None
            session.receive_data(data[cut:])
        assert session.next_request() == (9, message)


def test_a_request_that_comes_byte_by_byte_is_one_request() -> None:
    session = opened()
    data = encode_request(BEAT, 4, 1, "c") + encode_request(BEAT, 4, 2, "c")
    seen = []
    for byte in data:
        session.receive_data(bytes((byte,)))
        for request in requests_of(session):
            seen.append(request[0])
            session.encode_reply(request[0], HeartbeatReply())
    assert seen == [1, 2]


def test_two_requests_split_at_any_byte_are_two_requests() -> None:
    data = encode_request(BEAT, 4, 1, "c") + encode_request(BEAT, 0, 2, None)
    for cut in range(len(data) + 1):
        session = opened()
        seen = []
        for piece in (data[:cut], data[cut:]):
            session.receive_data(piece)
            while (request := session.next_request()) is not None:
                seen.append(request)
                session.encode_reply(request[0], HeartbeatReply())
        assert seen == [(1, BEAT), (2, BEAT)]
        assert session.buffered_bytes == 0


def test_many_requests_in_one_piece_come_out_in_their_order() -> None:
    session = opened()
    session.receive_data(b"".join(encode_request(BEAT, 4, number, "c") for number in range(500)))
    for number in range(500):
        request = session.next_request()
        assert request is not None and request[0] == number
        session.encode_reply(number, HeartbeatReply())
    assert session.next_request() is None


def test_a_request_that_comes_in_crumbs_takes_little_more_than_its_bytes() -> None:
    session = opened()
    whole = encode_request(batch_of(bytes(400_000)), 9, 1, "c")
    tracemalloc.start()
    try:
        for position in range(0, len(whole) - 1, 2):
            session.receive_data(whole[position : position + 2])
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 2 * len(whole)
    session.receive_data(whole[-(2 - len(whole) % 2) :])
    assert session.next_request() == (1, batch_of(bytes(400_000)))


@pytest.mark.parametrize("size", [-1, -(2**31), FRAME_BYTES + 1, 2**31 - 1])
def test_a_length_that_no_frame_has_is_a_violation_at_once(size: int) -> None:
    with pytest.raises(ProtocolViolation, match=f"a frame of {size} bytes"):
        opened().receive_data(pack(">i", size))
    split = opened()
    split.receive_data(pack(">i", size)[:3])
    with pytest.raises(ProtocolViolation):
        split.receive_data(pack(">i", size)[3:])


def test_a_length_that_lies_is_found_at_the_end_of_its_frame() -> None:
    whole = encode_request(BEAT, 4, 1, "c")
    short = opened()
    short.receive_data(pack(">i", len(whole) - 5) + whole[4:])
    with pytest.raises(ProtocolViolation):
        short.next_request()


@pytest.mark.parametrize("size", range(10))
def test_a_frame_without_room_for_a_header_is_a_violation(size: int) -> None:
    session = opened()
    session.receive_data(framed(bytes(size)))
    with pytest.raises(ProtocolViolation, match="has no header"):
        session.next_request()


def test_bytes_behind_the_fields_of_a_request_are_let_pass() -> None:
    session = opened()
    session.receive_data(framed(encode_request(BEAT, 3, 1, "c")[4:] + b"more"))
    assert session.next_request() == (1, BEAT)


# ---------------------------------------------------------------------------------------------------------------- order


def test_behind_an_unanswered_request_nothing_is_given_out() -> None:
    session = opened()
    session.receive_data(encode_request(JOIN, 5, 1, "c") + encode_request(BEAT, 4, 2, "c"))
    session.receive_data(encode_request(BEAT, 4, 3, "c"))
    first = session.next_request()
    assert first is not None and first[0] == 1
    assert session.next_request() is None
    assert session.unanswered == 1
    assert session.buffered_bytes == len(encode_request(BEAT, 4, 2, "c")) * 2
    session.encode_reply(1, ErrorReply(ErrorCode.NOT_COORDINATOR))
    assert session.next_request() == (2, BEAT)
    assert session.next_request() is None
    session.encode_reply(2, HeartbeatReply())
    assert session.next_request() == (3, BEAT)
    assert (session.unanswered, session.buffered_bytes) == (1, 0)


def test_what_the_session_answers_by_itself_keeps_its_place_among_the_replies() -> None:
    client = KafkaClient("c", FRAME_BYTES)
    ours = [(BEAT, 4), (ApiVersions("x", "1"), 3), (SaslHandshake("PLAIN"), 1), (BEAT, 0), (ApiVersions(), 0)]
    session = opened()
    session.receive_data(b"".join(client.encode_request(message, version)[1] for message, version in ours))
    said = b""
    while (request := session.next_request()) is not None:
        said += session.encode_reply(request[0], HeartbeatReply(ErrorCode.REBALANCE_IN_PROGRESS))
    said += session.take_data()
    assert [answer.correlation_id for answer in client.receive_data(said)] == [0, 1, 2, 3, 4]
    assert session.take_data() == b""


def test_a_session_answers_by_itself_even_where_nobody_else_has_to() -> None:
    session = opened()
    assert [answer.correlation_id for answer in asked(session, ApiVersions(), 0, number=77)] == [77]


def test_a_connection_is_behind_while_more_than_a_mebibyte_waits_for_an_answer() -> None:
    session = opened()
    beat = encode_request(BEAT, 4, 2, "c")
    many = beat * (MAX_WAITING_BYTES // len(beat) + 1)
    session.receive_data(encode_request(JOIN, 5, 1, "c"))
    session.next_request()
    behind = []
    for piece in (many[:MAX_WAITING_BYTES], many[MAX_WAITING_BYTES:]):
        session.receive_data(piece)
        behind.append(session.is_behind)
    session.encode_reply(1, ErrorReply(ErrorCode.NOT_COORDINATOR))
    behind.append(session.is_behind)
    assert session.next_request() is not None
    session.receive_data(beat * 2)
    behind.append(session.is_behind)
    assert behind == [False, True, False, True]
    session.encode_reply(2, HeartbeatReply())
    while session.next_request() is not None:
        session.encode_reply(2, HeartbeatReply())
    assert session.buffered_bytes == 0 and not session.is_behind


def test_a_large_request_that_is_still_coming_counts_too() -> None:
    session = opened()
    session.receive_data(encode_request(JOIN, 5, 1, "c"))
    session.next_request()
    session.receive_data(pack(">i", FRAME_BYTES) + bytes(MAX_WAITING_BYTES))
    assert session.is_behind
    session.encode_reply(1, ErrorReply(ErrorCode.NOT_COORDINATOR))
    assert not session.is_behind  # the rest of it has to come


# ---------------------------------------------------------------------------------------------------- who may not speak


@pytest.mark.parametrize(
    ("key", "version"),
    [(999, 0), (-1, 0), (12, 5), (12, -1), (1, 3), (0, 14), (8, 0), (9, 0), (2, 0), (4, 0), (76, 0), (0x7FFF, 0x7FFF)],
)
def test_an_unknown_api_or_version_is_a_violation(key: int, version: int) -> None:
    session = opened()
    session.receive_data(framed(pack(">hhih", key, version, 1, -1) + bytes(40)))
    with pytest.raises(ProtocolViolation, match=f"API {key} in version {version} is not served"):
        session.next_request()


def test_a_violation_behind_requests_is_found_when_its_turn_comes() -> None:
    session = opened()
    session.receive_data(encode_request(BEAT, 4, 1, "c") + framed(pack(">hhih", 999, 0, 2, -1)))
    assert session.next_request() == (1, BEAT)
    assert session.next_request() is None
    session.encode_reply(1, HeartbeatReply())
    with pytest.raises(ProtocolViolation):
        session.next_request()


# ------------------------------------------------------------------------------------------------------------ client id


def test_a_client_is_known_by_the_name_of_its_last_request() -> None:
    session = opened()
    for name, expected in (("first", "first"), ("größe", "größe"), (None, ""), ("first", "first"), ("", "")):
        session.receive_data(encode_request(BEAT, 4, 1, name))
        assert session.next_request() is not None
        session.encode_reply(1, HeartbeatReply())
        assert session.client_id == expected


def test_a_long_name_is_cut_and_one_that_is_no_utf_8_is_mended() -> None:
    session = opened()
    session.receive_data(encode_request(BEAT, 4, 1, "x" * 32_767))
    assert session.next_request() is not None
    assert session.client_id == "x" * MAX_CLIENT_ID
    session.encode_reply(1, HeartbeatReply())
    session.receive_data(framed(pack(">hhih", 18, 0, 1, 3) + b"a\xffb"))
    assert session.next_request() is None
    assert session.client_id == "a\ufffdb"


@pytest.mark.parametrize("version", [0, 3])
def test_a_name_that_ends_beyond_its_frame_is_a_violation(version: int) -> None:
    session = opened()
    session.receive_data(encode_request(ApiVersions("x", "1"), version, 1, "abc"))
    assert session.next_request() is None
    session.receive_data(framed(pack(">hhih", 18, version, 1, 100) + b"abc"))  # the same bytes, a longer length
    with pytest.raises(ProtocolViolation):
        session.next_request()


@pytest.mark.parametrize("tags", [b"", b"\x01", b"\x01\x00\x09abc", b"\xff\xff\xff\xff\xff\x00"])
def test_a_header_whose_tagged_fields_are_not_there_is_a_violation(tags: bytes) -> None:
    session = opened()
    session.receive_data(framed(pack(">hhih", 12, 4, 1, -1) + tags))
    with pytest.raises(ProtocolViolation):
        session.next_request()


def test_tagged_fields_of_a_header_are_read_over() -> None:
    plain = encode_request(BEAT, 4, 1, None)[4:]
    session = opened()
    session.receive_data(framed(plain[:10] + b"\x02\x00\x03abc\x07\x00" + plain[11:]))
    assert session.next_request() == (1, BEAT)


# -------------------------------------------------------------------------------------------------------------- replies


def test_a_heartbeat_s_good_answer_is_the_same_bytes_however_it_is_made() -> None:
    for version in range(5):
        session = opened()
        codec = session._dialect.codec(12, version)
        assert codec is not None
        session.receive_data(encode_request(BEAT, version, 5, "c"))
        session.next_request()
        assert session.encode_reply(5, HeartbeatReply()) == codec.frame(5, HeartbeatReply())


def test_an_answer_goes_to_the_version_that_asked() -> None:
    client = KafkaClient("c", FRAME_BYTES)
    session = opened()
    for version in range(7):
        number, data = client.encode_request(DescribeGroups(("g",)), version)
        session.receive_data(data)
        assert session.next_request() is not None
        (answer,) = client.receive_data(session.encode_reply(number, DescribeGroupsReply(throttle_time_ms=3)))
        assert answer == (number, DescribeGroupsReply(throttle_time_ms=3 if version else 0))


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeats_reply_has_its_error(version: int) -> None:
    client, session = KafkaClient("c", FRAME_BYTES), opened()
    for reply in (
        HeartbeatReply(),
        HeartbeatReply(ErrorCode.REBALANCE_IN_PROGRESS),
        HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        number, data = client.encode_request(BEAT, version)
        session.receive_data(data)
        assert session.next_request() == (number, BEAT)
        (answer,) = client.receive_data(session.encode_reply(number, reply))
        assert answer.reply == reply


def test_a_kafka_client_is_pushed_nothing() -> None:
    session = opened()
    assert not session.takes_pushes
    assert session.encode_push(HeartbeatReply()) == b""


def test_the_same_heartbeat_again_is_the_same_request() -> None:
    session = opened()
    for number, (beat, version) in enumerate([(BEAT, 4), (BEAT, 4), (BEAT, 3), (Heartbeat("g", 2, "m"), 4), (BEAT, 4)]):
        session.receive_data(encode_request(beat, version, number, "c"))
        assert session.next_request() == (number, beat)
        session.encode_reply(number, HeartbeatReply())


def test_the_same_fetch_of_offsets_again_is_the_same_request() -> None:
    session = opened()
    wanted = [OffsetFetch((OffsetFetchGroup("g", (OffsetFetchTopic("t", (index,)),)),)) for index in (0, 0, 1, 0)]
    for number, fetch in enumerate(wanted):
        session.receive_data(encode_request(fetch, 5, number, "c"))
        assert session.next_request() == (number, fetch)
        session.encode_reply(number, OffsetFetchReply((OffsetFetchGroupReply("g"),)))


def test_a_heartbeat_with_megabytes_behind_it_is_answered_and_not_kept() -> None:
    session = opened()
    session.receive_data(framed(encode_request(BEAT, 4, 1, "c")[4:] + bytes(1 << 20)))
    assert session.next_request() == (1, BEAT)
    session.encode_reply(1, HeartbeatReply())
    assert session._kept_request is None


def test_a_session_that_has_answered_keeps_no_bytes() -> None:
    session = opened()
    session.receive_data(encode_request(Fetch(()), 12, 1, "c"))
    session.next_request()
    session.encode_reply(1, FetchReply())
    kept: list[Any] = [getattr(session, name) for name in ("_frames", "_chunks", "_own")]
    assert kept == [None, None, None] and session._request is None and session._kept_request is None


def commits_answered(*codes: ErrorCode) -> OffsetCommitReply:
    parts = tuple(OffsetCommitPartitionReply(index, code) for index, code in enumerate(codes))
    return OffsetCommitReply((OffsetCommitTopicReply("t", parts),))


def test_an_answer_that_is_the_one_before_s_is_the_same_but_for_its_number() -> None:
    client = KafkaClient("c", FRAME_BYTES)
    session = opened()
    well, ill = commits_answered(ErrorCode.NONE), commits_answered(ErrorCode.ILLEGAL_GENERATION)
    large = commits_answered(*[ErrorCode.NONE] * 500)
    for version in (8, 8, 2, 2, 8, 1):
        for reply in (well, well, ill, well, large, large, well):
            number, data = client.encode_request(OffsetCommit("g", ()), version)
            session.receive_data(data)
            assert session.next_request() is not None
            assert client.receive_data(session.encode_reply(number, reply)) == [(number, reply)]
