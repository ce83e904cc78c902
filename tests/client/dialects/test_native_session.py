"""A native connection, greeting included, against the server's side of it."""

import pytest

from muster.net.dialects import ClientDialect, ClientSession, HandshakeRefused, NativeAnswer, Push, open_session
from muster.net.dialects.native import NativeClientSession
from protocol.errors import ErrorCode
from protocol.messages.groups import Heartbeat, HeartbeatReply, RebalanceStarted
from protocol.messages.node import HelloReply
from protocol.native import codec

BEAT = Heartbeat("g", 5, "m")


def test_hello_goes_out_with_the_first_request_and_its_answer_is_kept_to_itself() -> None:
    session: ClientSession = open_session(ClientDialect.NATIVE, "c")
    assert session.is_ready
    number, data = session.encode_request(BEAT)
    hello = data[: -len(codec.encode_request(number, BEAT))]
    assert b"Hello" in hello
    assert (number, data) == (1, hello + codec.encode_request(1, BEAT))
    assert session.encode_request(BEAT) == (2, codec.encode_request(2, BEAT))
    assert session.take_data() == b""


def test_answers_and_pushes_come_in_any_order() -> None:
    session = NativeClientSession("c", 1 << 20)
    numbers = [session.encode_request(BEAT)[0] for _ in range(2)]
    push = RebalanceStarted("g", 5, "joined", "m2", 1_000)
    greeting = codec.encode_result(0, HelloReply("musterd", "0", 1, (), {}))
    late, early = (codec.encode_result(number, HeartbeatReply()) for number in numbers)
    said = session.receive_data(early + codec.encode_push(push) + greeting + late)
    assert said == [NativeAnswer(2, HeartbeatReply()), Push(push), NativeAnswer(1, HeartbeatReply())]


def test_a_door_that_stays_shut_is_an_error_with_its_sentence() -> None:
    session = NativeClientSession("c", 1 << 20)
    session.take_data()
    refused = codec.encode_error(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "who are you?", {})
    with pytest.raises(HandshakeRefused, match="it does not let us in: who are you"):
        session.receive_data(refused)
