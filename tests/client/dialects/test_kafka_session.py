"""A connection to a Kafka server, as bytes."""

import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.net.dialects import ClientDialect, HandshakeRefused, NativeAnswer, Push, open_session
from muster.net.dialects.kafka import KafkaClientSession
from protocol.apis import WIRE_APIS
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.writing import writer
from protocol.messages import Message
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import (
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    ListNotes,
)
from protocol.messages.node import ApiVersion, ApiVersionsReply, ErrorReply, FindCoordinator
from protocol.messages.offsets import (
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopic,
    OffsetFetchTopicReply,
)
from protocol.refusals import REFUSE
from tests.client.dialects.server import ALL, MAX_FRAME_BYTES, Server, converse, frame, greeted, versions

BEAT = Heartbeat("g", 5, "m")
GREETING = (
    b"\x00\x00\x00\x21"  # 33 bytes
    b"\x00\x12\x00\x04\x00\x00\x00\x00"  # ApiVersions, version 4, number 0
    b"\x00\x01c\x00"  # the client's name, no tagged fields
    b"\x0emuster-python\x060.1.0\x00"
)
HEARTBEAT_4 = (
    b"\x00\x00\x00\x16"
    b"\x00\x0c\x00\x04\x00\x00\x00\x01"
    b"\x00\x01c\x00"
    b"\x02g\x00\x00\x00\x05\x02m\x00\x00"  # no instance id, no tagged fields
)


def refuse(message: Message) -> Message:
    return REFUSE[type(message)](message, ErrorCode.NOT_COORDINATOR, None)


def test_the_first_request_brings_the_question_for_versions_and_waits_for_its_answer() -> None:
    session = open_session(ClientDialect.KAFKA, "c")
    assert session.encode_request(BEAT) == (0, GREETING)
    was_ready = session.is_ready
    assert session.encode_request(BEAT) == (1, b"")
    assert session.receive_data(versions((12, 0, 4))) == []
    assert (was_ready, session.is_ready) == (False, True)
    assert session.take_data() == HEARTBEAT_4 + HEARTBEAT_4.replace(b"\0\0\0\1", b"\0\0\0\2", 1)
    assert session.take_data() == b""
    assert session.encode_request(BEAT) == (2, HEARTBEAT_4.replace(b"\0\0\0\1", b"\0\0\0\3", 1))
    ok = bytes.fromhex("00 00000000 0000 00")
    assert session.receive_data(frame(1, ok) + frame(2, ok)) == [
        NativeAnswer(0, HeartbeatReply()),
        NativeAnswer(1, HeartbeatReply()),
    ]


@pytest.mark.parametrize(("itself", "asked_again"), [((18, 0, 3), 3), ((18, 0, 0), 0), (None, 0), ((18, 0, 9), 3)])
def test_who_does_not_know_the_newest_question_is_asked_an_older_one(
    itself: tuple[int, int, int] | None, asked_again: int
) -> None:
    """KIP-511: the answer is in version 0, and may name what is known instead."""
    session = KafkaClientSession("c", MAX_FRAME_BYTES)
    number, _ = session.encode_request(BEAT)
    known = (ApiVersion(*itself),) if itself else ()
    refusal = writer(WIRE_APIS[18].reply, 0)(ApiVersionsReply(ErrorCode.UNSUPPORTED_VERSION, known))
    assert session.receive_data(frame(0, refusal)) == []
    assert session.take_data()[4:12] == b"\x00\x12" + asked_again.to_bytes(2, "big") + b"\0\0\0\1"
    offered = ApiVersionsReply(api_keys=(ApiVersion(12, 0, 1),))
    assert session.receive_data(frame(1, writer(WIRE_APIS[18].reply, asked_again)(offered))) == []
    assert session.take_data()[4:12] == b"\x00\x0c\x00\x01\x00\x00\x00\x02"
    assert session.receive_data(frame(2, bytes(6))) == [NativeAnswer(number, HeartbeatReply())]


def test_who_knows_no_version_of_the_question_at_all_is_left() -> None:
    session = KafkaClientSession("c", MAX_FRAME_BYTES)
    session.take_data()
    refusal = writer(WIRE_APIS[18].reply, 0)(ApiVersionsReply(ErrorCode.UNSUPPORTED_VERSION))
    session.receive_data(frame(0, refusal))
    session.take_data()
    with pytest.raises(HandshakeRefused, match="UNSUPPORTED_VERSION"):
        session.receive_data(frame(1, refusal))


def test_who_tells_nobody_its_versions_is_left_with_its_error() -> None:
    session = KafkaClientSession("c", MAX_FRAME_BYTES)
    session.take_data()
    with pytest.raises(HandshakeRefused, match="CLUSTER_AUTHORIZATION_FAILED") as raised:
        session.receive_data(
            frame(0, writer(WIRE_APIS[18].reply, 4)(ApiVersionsReply(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)))
        )
    assert raised.value.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_what_the_server_cannot_be_asked_is_refused_here_and_never_sent() -> None:
    session = greeted((9, 0, 7), (12, 0, 4))
    several = OffsetFetch((OffsetFetchGroup("g"), OffsetFetchGroup("h")))
    number, data = session.encode_request(several)
    sentence = "OffsetFetch (API 9) is needed in versions 8 to 9, and the server offers 0 to 7"
    assert (number, data) == (0, b"")
    refused = [NativeAnswer(0, ErrorReply(ErrorCode.UNSUPPORTED_VERSION, sentence), sentence)]
    assert session.receive_data(b"") == refused
    assert session.receive_data(b"") == []
    assert session.encode_request(BEAT)[1] == HEARTBEAT_4


def test_so_is_what_waited_for_the_versions() -> None:
    session = KafkaClientSession("c", MAX_FRAME_BYTES)
    session.encode_request(ListNotes("g"))
    assert session.receive_data(b"") == []
    (answer,) = session.receive_data(versions((12, 0, 4)))
    assert isinstance(answer, NativeAnswer)
    assert answer.number == 0
    assert answer.error_message.startswith("Kafka's protocol has no ListNotes")


def test_a_produce_that_wants_no_answer_gets_none_and_holds_nothing_up() -> None:
    session = greeted((0, 0, 13), (12, 0, 4))
    silent = Produce((ProduceTopic("t", (ProducePartition(0, b"x"),)),), acks=0)
    number, data = session.encode_request(silent)
    assert (number, data[4:8]) == (0, b"\x00\x00\x00\x0c")
    session.encode_request(BEAT)
    assert session.receive_data(frame(2, bytes.fromhex("00 00000000 0000 00"))) == [NativeAnswer(1, HeartbeatReply())]


def test_a_reply_to_nothing_is_no_kafka() -> None:
    session = greeted((12, 0, 4))
    with pytest.raises(ProtocolViolation, match="none is awaited"):
        session.receive_data(frame(9, bytes(6)))


def test_what_is_no_kafka_at_all_is_seen_at_once() -> None:
    session = KafkaClientSession("c", MAX_FRAME_BYTES)
    session.encode_request(BEAT)
    with pytest.raises(ProtocolViolation, match="a reply of"):
        session.receive_data(b"HTTP/1.1 400 Bad Request\r\n")


def test_musterds_own_codec_understands_every_request_and_is_understood() -> None:
    """Each in the version that both choose."""
    server = Server(refuse)
    messages = [
        JoinGroup("g", 1, "", "consumer", (JoinProtocol("range", b"x"),), 9, "i", "new"),
        BEAT,
        FindCoordinator(("g", "h")),
    ]
    answers = converse(KafkaClientSession("c", MAX_FRAME_BYTES), server, *messages)
    assert [answer.number for answer in answers] == [0, 1, 2]
    assert server.asked == messages
    assert answers[0].reply == JoinGroupReply(ErrorCode.NOT_COORDINATOR)
    assert answers[1].reply == HeartbeatReply(ErrorCode.NOT_COORDINATOR)


@given(cuts=st.lists(st.integers(0, 400), max_size=12))
@settings(deadline=None, max_examples=30)
def test_answers_may_be_cut_anywhere(cuts: list[int]) -> None:
    topic = OffsetFetchTopicReply("t", (OffsetFetchPartitionReply(0, 42),))
    server = Server(lambda _: OffsetFetchReply((OffsetFetchGroupReply("g", (topic,)),)), ALL)
    session = KafkaClientSession("c", MAX_FRAME_BYTES)
    asked = OffsetFetch((OffsetFetchGroup("g", (OffsetFetchTopic("t", (0,)),)),))
    data = session.encode_request(asked)[1]
    said: list[NativeAnswer | Push] = []
    while not said:
        out = server.receive(data)
        edges = sorted({0, len(out), *(cut for cut in cuts if cut < len(out))})
        for start, end in pairwise(edges):
            said += session.receive_data(out[start:end])
        data = session.take_data()
    assert said == [NativeAnswer(0, OffsetFetchReply((OffsetFetchGroupReply("g", (topic,)),)))]


def test_the_server_is_told_the_version_of_the_client() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert KafkaClientSession("c", MAX_FRAME_BYTES).take_data().endswith(b"\x06" + project["version"].encode() + b"\0")
