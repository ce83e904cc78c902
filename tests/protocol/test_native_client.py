"""The client's side: numbers, typed answers, notifications, and servers that talk nonsense."""

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.data import Produce
from protocol.messages.groups import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    MemberRemoved,
    SyncGroup,
    SyncGroupReply,
)
from protocol.messages.node import ErrorReply, Hello
from protocol.messages.offsets import OffsetCommit, OffsetCommitReply
from protocol.native import codec
from protocol.native.client import NativeAnswer, NativeClient, Push
from tests.enumerations import share_of
from tests.protocol.native import FRAME_BYTES, GREETING, frame, open_session, requests_of

HEARTBEAT = Heartbeat("g", 7, "m")


def client_that_asked(*requests: Hello | Heartbeat | JoinGroup | SyncGroup | OffsetCommit) -> NativeClient:
    """Its requests are numbered from 0."""
    client = NativeClient(FRAME_BYTES)
    for request in requests:
        client.encode_request(request)
    return client


def test_requests_are_numbered_and_answers_may_overtake_each_other() -> None:
    client, session = NativeClient(FRAME_BYTES), open_session()
    join, sent = client.encode_request(JoinGroup("g", 10_000))
    beat, more = client.encode_request(HEARTBEAT)
    session.receive_data(sent + more)
    assert [request[0] for request in requests_of(session)] == [join, beat] == [0, 1]
    assert client.receive_data(session.encode_reply(beat, HeartbeatReply())) == [NativeAnswer(beat, HeartbeatReply())]
    assert client.unanswered == 1
    assert client.receive_data(session.encode_reply(join, JoinGroupReply(generation_id=3))) == [
        NativeAnswer(join, JoinGroupReply(generation_id=3))
    ]
    assert client.unanswered == 0


def test_numbers_start_again_after_32_bits_and_step_over_what_still_waits() -> None:
    client = client_that_asked(JoinGroup("g", 10_000))
    client._next_number = codec.MAX_NUMBER
    assert [client.encode_request(HEARTBEAT)[0] for _ in range(3)] == [codec.MAX_NUMBER, 1, 2]


def test_answers_split_anywhere_are_the_same_answers() -> None:
    client, data = client_that_asked(HEARTBEAT), codec.encode_result(0, HeartbeatReply())
    answers = [answer for byte in data for answer in client.receive_data(bytes([byte]))]
    assert answers == [NativeAnswer(0, HeartbeatReply())]


def test_hello_is_answered_with_the_greeting() -> None:
    client, session = NativeClient(FRAME_BYTES), open_session()
    number, sent = client.encode_request(Hello("me", "1"))
    session.receive_data(sent)
    assert requests_of(session) == []
    assert client.receive_data(session.take_data()) == [NativeAnswer(number, GREETING)]


def test_a_member_id_that_is_required_is_in_the_reply() -> None:
    client = client_that_asked(JoinGroup("g", 10_000))
    refusal = codec.encode_refusal(0, JoinGroupReply(ErrorCode.MEMBER_ID_REQUIRED, member_id="m-1"))
    (answer,) = client.receive_data(refusal)
    assert isinstance(answer, NativeAnswer)
    assert answer.reply == JoinGroupReply(ErrorCode.MEMBER_ID_REQUIRED, member_id="m-1")
    assert answer.error_message


def test_a_gate_speaks_through_the_type_that_was_asked_for_where_that_can_refuse() -> None:
    client = client_that_asked(SyncGroup("g", 1, "m"), OffsetCommit("g", ()))
    refused = ErrorReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading shard 7")
    data = codec.encode_refusal(0, refused) + codec.encode_refusal(1, refused)
    assert client.receive_data(data) == [
        NativeAnswer(0, SyncGroupReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), "loading shard 7"),
        NativeAnswer(1, refused, "loading shard 7"),
    ]


def test_what_the_wire_refuses_reaches_the_asker_with_its_sentence() -> None:
    client = client_that_asked(HEARTBEAT)
    details = {"method": "Heartbeat", "field": "generation_id"}
    data = codec.encode_error(0, ErrorCode.INVALID_REQUEST, "generation_id: is required", details)
    assert client.receive_data(data) == [
        NativeAnswer(0, HeartbeatReply(ErrorCode.INVALID_REQUEST), "generation_id: is required")
    ]


@pytest.mark.parametrize(("number", "code"), [(9_999, ErrorCode(9_999)), (99_999, ErrorCode.UNKNOWN_SERVER_ERROR)])
def test_an_error_that_a_newer_server_invented_keeps_its_number_and_its_name(number: int, code: ErrorCode) -> None:
    client = client_that_asked(HEARTBEAT)
    data = frame(1, 0, [number, "MOON_TOO_LOW", "wait for it", {}], None)
    assert client.receive_data(data) == [NativeAnswer(0, HeartbeatReply(code), f"MOON_TOO_LOW ({number}): wait for it")]


def test_an_error_of_a_part_that_a_newer_server_invented_is_no_reason_to_hang_up() -> None:
    client = client_that_asked(OffsetCommit("g", ()))
    part = {"partition_index": 0, "error_code": 9_999}
    data = frame(1, 0, None, {"topics": [{"name": "t", "partitions": [part]}]})
    (answer,) = client.receive_data(data)
    assert isinstance(answer, NativeAnswer)
    assert isinstance(answer.reply, OffsetCommitReply)
    assert answer.reply.topics[0].partitions[0].error_code.name == "UNKNOWN_ERROR_9999"


def test_a_newer_server_may_say_more_than_we_know() -> None:
    client = client_that_asked(OffsetCommit("g", ()))
    data = frame(2, "MoonRose", [{"phase": 3}]) + frame(1, 0, None, {"topics": [], "moon": [1, {"phase": 3}]})
    assert client.receive_data(data) == [NativeAnswer(0, OffsetCommitReply())]


def test_notifications_come_between_answers_in_their_order() -> None:
    client = client_that_asked(HEARTBEAT)
    removed = MemberRemoved("g", "m", "session over")
    data = codec.encode_push(removed) + codec.encode_result(0, HeartbeatReply()) + codec.encode_push(removed)
    assert client.receive_data(data) == [Push(removed), NativeAnswer(0, HeartbeatReply()), Push(removed)]


def test_a_produce_that_wants_no_answer_waits_for_none() -> None:
    client = NativeClient(FRAME_BYTES)
    client.encode_request(Produce((), acks=0))
    assert client.unanswered == 0


@pytest.mark.parametrize(
    "value",
    [
        7,
        {},
        [],
        [0, 0, "Heartbeat", [{}]],
        [1, 1, None, {}],
        [1, 0, None, None],
        [1, 0, None, {"error_code": "0"}],
        [1, 0, [27], None],
        [1, 0, [0, "NONE", "", {}], None],
        [1, 0, [27, "X", "", None], None],
        [1, 0, None],
        [2, "MemberRemoved", [{}]],
        [2, "MemberRemoved", []],
        [3, 0, None, {}],
    ],
    ids=repr,
)
def test_a_server_that_talks_nonsense_is_left(value: object) -> None:
    client = client_that_asked(HEARTBEAT)
    with pytest.raises(ProtocolViolation):
        client.receive_data(msgpack.packb(value))


def test_an_answer_comes_once() -> None:
    client, data = client_that_asked(HEARTBEAT), codec.encode_result(0, HeartbeatReply())
    client.receive_data(data)
    with pytest.raises(ProtocolViolation, match="waits for none"):
        client.receive_data(data)


def test_an_answer_above_the_limit_is_not_taken() -> None:
    client = NativeClient(1_024)
    with pytest.raises(ProtocolViolation, match="1024 are allowed"):
        client.receive_data(b"\x94\x01\x00\xc0\xc6\x00\x10\x00\x00")


@given(data=st.binary(max_size=300))
@settings(deadline=None, max_examples=share_of(300))
def test_random_bytes_raise_nothing_but_a_violation(data: bytes) -> None:
    client = client_that_asked(HEARTBEAT)
    try:
        said = client.receive_data(data)
    except ProtocolViolation:
        return
    assert said == []
