"""Golden bytes, round trips of everything, and frames by hand: what is on the wire, whoever wrote it."""

import msgpack
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Produce
from protocol.messages.groups import (
    Heartbeat,
    HeartbeatReply,
    JoinGroupReply,
    MemberRemoved,
    RebalanceStarted,
)
from protocol.messages.node import ErrorReply, Hello
from protocol.messages.offsets import OffsetCommitPartitionReply, OffsetCommitReply, OffsetCommitTopicReply
from protocol.native import codec, sentences
from protocol.native.client import NativeAnswer, NativeClient, Push
from protocol.native.methods import METHODS, PUSHES
from tests.enumerations import share_of
from tests.protocol.native import FRAME_BYTES, call, open_session, requests_of, values_in
from tests.protocol.strategies import messages

ASKED = sorted(METHODS.keys() - {"Hello"})


def test_a_heartbeat_in_golden_bytes() -> None:
    _, sent = NativeClient(FRAME_BYTES).encode_request(Heartbeat("g", 7, "m"))
    assert sent == (
        b"\x94\x00\x00\xa9Heartbeat\x91\x84"
        b"\xa8group_id\xa1g\xadgeneration_id\x07\xa9member_id\xa1m\xb1group_instance_id\xc0"
    )
    assert codec.encode_result(0, HeartbeatReply()) == b"\x94\x01\x00\xc0\x82\xaaerror_code\x00\xb0throttle_time_ms\x00"


def test_a_refusal_in_golden_bytes() -> None:
    refusal = codec.encode_refusal(70_000, JoinGroupReply(ErrorCode.MEMBER_ID_REQUIRED, member_id="m-1"))
    text = sentences.sentence(ErrorCode.MEMBER_ID_REQUIRED).encode()
    assert refusal == (
        b"\x94\x01\xce\x00\x01\x11\x70\x94\x4f\xb2MEMBER_ID_REQUIRED"
        + bytes([0xD9, len(text)])
        + text
        + b"\x81\xa9member_id\xa3m-1\xc0"
    )


def test_a_notification_in_golden_bytes() -> None:
    pushed = open_session().encode_push(MemberRemoved("g", "m", "session over"))
    assert pushed == (b"\x93\x02\xadMemberRemoved\x91\x83\xa8group_id\xa1g\xa9member_id\xa1m\xa5cause\xacsession over")


def test_times_and_codes_are_plain_integers_and_errors_of_entries_stay_in_the_result() -> None:
    reply = OffsetCommitReply(
        (OffsetCommitTopicReply("t", (OffsetCommitPartitionReply(3, ErrorCode.OFFSET_METADATA_TOO_LARGE),)),)
    )
    assert values_in(codec.encode_result(5, reply)) == [
        [
            1,
            5,
            None,
            {
                "topics": [
                    {"name": "t", "partitions": [{"partition_index": 3, "error_code": 12}], "topic_id": bytes(16)}
                ],
                "throttle_time_ms": 0,
            },
        ]
    ]


@pytest.mark.parametrize("method", ASKED)
@given(data=st.data())
@settings(deadline=None, max_examples=share_of(40))
def test_every_request_arrives_as_it_was_sent(method: str, data: st.DataObject) -> None:
    message = data.draw(messages(METHODS[method].request))
    number, sent = NativeClient(FRAME_BYTES).encode_request(message)
    session = open_session()
    session.receive_data(sent)
    assert requests_of(session) == [(number, message)]
    assert session.take_data() == b""


@pytest.mark.parametrize("method", ASKED)
@given(data=st.data())
@settings(deadline=None, max_examples=share_of(40))
def test_every_reply_arrives_as_it_was_given(method: str, data: st.DataObject) -> None:
    request = data.draw(messages(METHODS[method].request).filter(lambda asked: not _unanswered(asked)))
    reply = data.draw(messages(METHODS[method].reply, **_without_throttle(METHODS[method].reply)))
    number, answer = _answered(request, reply)
    if answer.error_message and "error_message" in reply.__struct_fields__:
        reply = msgspec.structs.replace(reply, error_message=answer.error_message)
    assert (answer.number, answer.reply) == (number, reply)
    assert bool(answer.error_message) == bool(getattr(reply, "error_code", ErrorCode.NONE))


def _unanswered(request: Message) -> bool:
    return isinstance(request, Produce) and request.acks == 0


def _without_throttle(reply: type[Message]) -> dict[str, object]:
    """A refusal has no place for it, and this server never throttles by it. Its sentence stands in the frame."""
    unsaid = {"throttle_time_ms", "error_message"}
    return {field.name: field.default for field in msgspec.structs.fields(reply) if field.name in unsaid}


def _answered(request: Message, reply: Message) -> tuple[int, NativeAnswer]:
    client, session = NativeClient(FRAME_BYTES), open_session()
    number, sent = client.encode_request(request)
    session.receive_data(sent)
    requests_of(session)
    (answer,) = client.receive_data(session.encode_reply(number, reply))
    assert isinstance(answer, NativeAnswer)
    return number, answer


@pytest.mark.parametrize("push", PUSHES.values())
@given(data=st.data())
@settings(deadline=None, max_examples=share_of(40))
def test_every_notification_arrives_as_it_was_given(push: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(push))
    assert NativeClient(FRAME_BYTES).receive_data(open_session().encode_push(message)) == [Push(message)]


@pytest.mark.parametrize("method", ASKED)
def test_a_gate_may_refuse_every_request(method: str) -> None:
    session = open_session()
    session.receive_data(msgspec.msgpack.encode((0, 9, method, (_smallest(method),))))
    assert [number for number, _ in requests_of(session)] == [9]
    data = session.encode_reply(9, ErrorReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading shard 7"))
    assert values_in(data) == [[1, 9, [14, "COORDINATOR_LOAD_IN_PROGRESS", "loading shard 7", {}], None]]


def _smallest(method: str) -> dict[str, object]:
    """Texts and lists are empty, numbers 0."""
    fields = msgspec.structs.fields(METHODS[method].request)
    names = [field.name for field in fields if field.required] + ["members"] * (method == "LeaveGroup")
    return {name: _SMALLEST.get(name, []) for name in names}


_SMALLEST: dict[str, object] = {
    "group_id": "",
    "mechanism": "",
    "auth_bytes": b"",
    "member_id": "",
    "consumer_id": "",
    "generation_id": 0,
    "member_epoch": 0,
    "session_timeout_ms": 0,
    "resource_type_filter": 0,
    "name": "",
    "role": "",
    "token_hash": b"",
    "lifetime_ms": 0,
    "for_ms": 0,
}


def test_the_optional_may_be_left_out() -> None:
    session = open_session()
    session.receive_data(call(1, "Heartbeat", group_id="g", generation_id=7, member_id="m"))
    assert requests_of(session) == [(1, Heartbeat("g", 7, "m"))]


def test_unknown_keys_are_ignored_whatever_they_hold() -> None:
    session = open_session()
    extras = {"since_version_9": [{"deep": [[[b"\xff"]]]}], "when": msgpack.Timestamp(3), "half": 0.5, "": None}
    session.receive_data(call(1, "Heartbeat", group_id="g", generation_id=7, member_id="m", **extras))
    assert requests_of(session) == [(1, Heartbeat("g", 7, "m"))]


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_every_error_has_a_sentence_for_people(code: ErrorCode) -> None:
    _, answer = _answered(Heartbeat("g", 1, "m"), HeartbeatReply(code))
    assert answer == NativeAnswer(0, HeartbeatReply(code), sentences.sentence(code))
    assert len(answer.error_message) > 10 and answer.error_message[0].islower()


def test_hello_is_a_request_like_any_other_on_the_wire() -> None:
    _, sent = NativeClient(FRAME_BYTES).encode_request(Hello("me", "1"))
    assert values_in(sent) == [
        [0, 0, "Hello", [{"client_name": "me", "client_version": "1", "mechanism": None, "token": None}]]
    ]


def test_a_push_says_how_long_a_member_has() -> None:
    (value,) = values_in(open_session().encode_push(RebalanceStarted("g", 4, "member joined", "m-2", 30_000)))
    assert value == [
        2,
        "RebalanceStarted",
        [{"group_id": "g", "generation_id": 4, "cause": "member joined", "initiator": "m-2", "deadline_ms": 30_000}],
    ]
