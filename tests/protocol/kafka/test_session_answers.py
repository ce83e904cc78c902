"""Requests that a Kafka session answers by itself, and requests that are never answered."""

from struct import pack

import pytest

from coordinator.handlers.table import HANDLERS
from protocol.apis import WIRE_APIS
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.client import encode_request
from protocol.kafka.session import KafkaDialect
from protocol.messages.data import Produce, ProducePartition, ProduceReply, ProduceTopic
from protocol.messages.groups import Heartbeat
from protocol.messages.node import (
    ApiVersion,
    ApiVersions,
    ApiVersionsReply,
    ErrorReply,
    FindCoordinator,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshake,
    SaslHandshakeReply,
)
from tests.protocol.kafka.samples import CASES, Filled, sample
from tests.protocol.kafka.sessions import BEAT, ITS_OWN, asked, framed, opened

# --------------------------------------------------------------------------------------------------------- api versions


def test_every_served_api_is_told_of_with_its_versions() -> None:
    (answer,) = asked(opened(set(HANDLERS)), ApiVersions("rdkafka", "2.5.0-rc1"), 4)
    expected = {
        ApiVersion(api.key, api.request.oldest, api.request.newest)
        for api in WIRE_APIS.values()
        if api.advertised and api.message in {*HANDLERS, *ITS_OWN}
    }
    assert isinstance(answer.reply, ApiVersionsReply)
    assert answer.reply.error_code is ErrorCode.NONE
    assert set(answer.reply.api_keys) == expected and len(answer.reply.api_keys) == len(expected)


def test_what_is_not_served_is_neither_told_of_nor_spoken() -> None:
    session = opened({Heartbeat})
    (answer,) = asked(session, ApiVersions(), 0)
    assert isinstance(answer.reply, ApiVersionsReply)
    assert {one.api_key for one in answer.reply.api_keys} == {12, 17, 18, 36}
    session.receive_data(encode_request(FindCoordinator(("g",)), 0, 1, "c"))
    with pytest.raises(ProtocolViolation, match="API 10 in version 0 is not served"):
        session.next_request()


def test_what_a_node_does_not_serve_is_not_offered() -> None:
    session = KafkaDialect(1 << 20, set(HANDLERS)).open()
    (answer,) = asked(session, ApiVersions(), 0)
    assert isinstance(answer.reply, ApiVersionsReply)
    assert 28 not in {one.api_key for one in answer.reply.api_keys}
    case = next(case for case in CASES if case.schema.name == "TxnOffsetCommit")
    session.receive_data(encode_request(sample(case, Filled()), case.version, 1, "c"))
    with pytest.raises(ProtocolViolation, match="API 28"):
        session.next_request()


@pytest.mark.parametrize("version", [5, 99, 0x7FFF, -1])
def test_a_newer_api_versions_is_told_our_own_range_in_the_oldest_form(version: int) -> None:
    session = opened()
    session.receive_data(framed(pack(">hhih", 18, version, 0x01020304, 1) + b"c" + b"\x00whatever comes then"))
    assert session.next_request() is None
    assert session.take_data() == (
        b"\x00\x00\x00\x10\x01\x02\x03\x04"  # length, correlation id; no tagged fields
        b"\x00\x23"  # UNSUPPORTED_VERSION
        b"\x00\x00\x00\x01" + b"\x00\x12\x00\x00\x00\x04"  # ApiVersions, from 0 to 4
    )
    assert asked(session, ApiVersions("c", "1"), 4)[0].correlation_id == 7


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    "software", [("", "1.0"), ("lib", ""), ("-lib", "1.0"), ("lib", "1.0-"), ("l b", "1"), ("ü", "1")]
)
def test_software_of_an_ill_formed_name_is_an_invalid_request(version: int, software: tuple[str, str]) -> None:
    (answer,) = asked(opened(), ApiVersions(*software), version)
    assert answer.reply == ApiVersionsReply(ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("software", [("a", "1"), ("apache-kafka-java", "4.3.1"), ("x-y.z", "v1-2.3")])
def test_software_of_a_well_formed_name_is_welcome(software: tuple[str, str]) -> None:
    (answer,) = asked(opened(), ApiVersions(*software), 3)
    assert isinstance(answer.reply, ApiVersionsReply)
    assert answer.reply.error_code is ErrorCode.NONE


# -------------------------------------------------------------------------------------------------------------- produce


def batch_for(acks: int) -> Produce:
    return Produce((ProduceTopic("t", (ProducePartition(3, b"records"),)),), acks=acks)


def test_a_produce_that_wants_no_answer_gets_none_and_what_follows_goes_on() -> None:
    session = opened()
    session.receive_data(encode_request(batch_for(0), 9, 1, "c") * 2 + encode_request(BEAT, 4, 2, "c"))
    for _ in range(2):
        request = session.next_request()
        assert request is not None and isinstance(request[1], Produce)
        assert session.encode_reply(1, ProduceReply()) == b""
    assert session.next_request() == (2, BEAT)


def test_a_produce_that_wants_no_answer_gets_none_when_it_is_refused() -> None:
    session = opened()
    session.receive_data(encode_request(batch_for(0), 9, 1, "c"))
    assert session.next_request() is not None
    assert session.encode_reply(1, ErrorReply(ErrorCode.NOT_LEADER_OR_FOLLOWER)) == b""
    assert session.unanswered == 0


def test_what_the_session_has_to_say_leaves_with_the_reply_that_is_none() -> None:
    session = opened()
    session.receive_data(encode_request(ApiVersions(), 0, 1, "c") + encode_request(batch_for(0), 9, 2, "c"))
    assert session.next_request() is not None
    said = session.encode_reply(2, ProduceReply())
    assert said[4:8] == b"\x00\x00\x00\x01" and session.take_data() == b""


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("acks", [1, -1])
def test_records_older_than_the_third_version_of_produce_are_refused(version: int, acks: int) -> None:
    (answer,) = asked(opened(), batch_for(acks), version)
    assert isinstance(answer.reply, ProduceReply)
    (topic,) = answer.reply.responses
    (part,) = topic.partition_responses
    assert (topic.name, part.index, part.error_code) == ("t", 3, ErrorCode.UNSUPPORTED_VERSION)


# ----------------------------------------------------------------------------------------------------------------- sasl


@pytest.mark.parametrize("version", [0, 1])
def test_a_handshake_is_told_that_there_is_no_authentication(version: int) -> None:
    (answer,) = asked(opened(), SaslHandshake("SCRAM-SHA-256"), version)
    assert answer.reply == SaslHandshakeReply(ErrorCode.ILLEGAL_SASL_STATE)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_authentication_is_told_that_there_is_none(version: int) -> None:
    (answer,) = asked(opened(), SaslAuthenticate(b"\x00user\x00password"), version)
    assert isinstance(answer.reply, SaslAuthenticateReply)
    assert answer.reply.error_code is ErrorCode.ILLEGAL_SASL_STATE
    assert answer.reply.error_message == "SASL is not enabled on this listener"
