"""The client's side: requests in any version, replies in the order of the requests."""

from struct import pack

import pytest

from protocol.apis import WIRE_APIS
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.client import KafkaClient, encode_request
from protocol.kafka.version_codec import VersionCodec
from protocol.messages import Message
from protocol.messages.data import Produce
from protocol.messages.groups import Heartbeat, HeartbeatReply, ListGroups, ListGroupsReply
from protocol.messages.node import ApiVersion, ApiVersions, ApiVersionsReply, Hello
from protocol.messages.topics import Metadata, MetadataPartitionReply, MetadataReply, MetadataTopicReply
from tests.protocol.kafka.samples import CASES, Filled, sample
from tests.protocol.kafka.sessions import EVERYTHING, opened

FRAME_BYTES = 1 << 20
BEAT = Heartbeat("g", 1, "m")


def answered(client: KafkaClient, *asked: tuple[Message, int]) -> bytes:
    """Return a server's replies to these requests, one after the other."""
    session = opened(EVERYTHING)
    said = b""
    for message, version in asked:
        session.receive_data(client.encode_request(message, version)[1])
        while (request := session.next_request()) is not None:
            reply = HeartbeatReply() if isinstance(request[1], Heartbeat) else ListGroupsReply(throttle_time_ms=5)
            said += session.encode_reply(request[0], reply)
        said += session.take_data()
    return said


def test_a_heartbeat_in_golden_bytes() -> None:
    assert encode_request(Heartbeat("g", 7, "m"), 4, 258, "me") == (
        b"\x00\x00\x00\x17"  # length
        b"\x00\x0c\x00\x04"  # API, version
        b"\x00\x00\x01\x02"  # correlation id
        b"\x00\x02me\x00"  # client, no tagged fields
        b"\x02g\x00\x00\x00\x07\x02m\x00\x00"  # group, generation, member, no instance, no tagged fields
    )


def test_replies_come_in_the_order_of_their_requests_however_they_are_split() -> None:
    asked = ((BEAT, 4), (ListGroups(), 0), (ApiVersions("c", "1"), 3), (ListGroups(), 3), (BEAT, 0))
    whole = answered(KafkaClient("c", FRAME_BYTES), *asked)
    for cut in range(len(whole) + 1):
        client = KafkaClient("c", FRAME_BYTES)
        for message, version in asked:
            client.encode_request(message, version)
        answers = client.receive_data(whole[:cut]) + client.receive_data(whole[cut:])
        assert [answer.correlation_id for answer in answers] == [0, 1, 2, 3, 4]
        kinds = [type(answer.reply) for answer in answers]
        assert kinds == [HeartbeatReply, ListGroupsReply, ApiVersionsReply, ListGroupsReply, HeartbeatReply]
        assert client.unanswered == 0


def test_a_server_that_knows_only_older_api_versions_is_understood() -> None:
    client = KafkaClient("c", FRAME_BYTES)
    client.encode_request(ApiVersions("c", "1"), 4)
    body = pack(">ihi", 0, 35, 1) + pack(">hhh", 18, 0, 2)
    (answer,) = client.receive_data(pack(">i", len(body)) + body)
    assert answer.reply == ApiVersionsReply(ErrorCode.UNSUPPORTED_VERSION, (ApiVersion(18, 0, 2),))


def test_records_that_want_no_answer_are_not_waited_for() -> None:
    client = KafkaClient("c", FRAME_BYTES)
    assert client.encode_request(Produce((), acks=0), 9)[0] == 0
    assert client.unanswered == 0
    assert [answer.correlation_id for answer in client.receive_data(answered(client, (BEAT, 4)))] == [1]


@pytest.mark.parametrize("version", [-1, 5])
def test_a_version_that_there_is_not_is_the_caller_s_mistake(version: int) -> None:
    with pytest.raises(ValueError, match=f"Heartbeat has versions 0 to 4, not {version}"):
        KafkaClient("c", FRAME_BYTES).encode_request(BEAT, version)


def test_what_kafka_has_no_word_for_is_the_caller_s_mistake() -> None:
    with pytest.raises(KeyError):
        encode_request(Hello(), 0, 1, None)


def test_a_reply_out_of_its_turn_is_a_violation() -> None:
    client = KafkaClient("c", FRAME_BYTES)
    client.encode_request(BEAT, 4)
    client.encode_request(BEAT, 4)
    with pytest.raises(ProtocolViolation, match="a reply to request 1; request 0 is next"):
        client.receive_data(pack(">iiBihB", 12, 1, 0, 0, 0, 0))
    with pytest.raises(ProtocolViolation, match="a reply to request 7; none is awaited"):
        KafkaClient("c", FRAME_BYTES).receive_data(pack(">iiBihB", 12, 7, 0, 0, 0, 0))


@pytest.mark.parametrize("size", [-1, 0, 3, FRAME_BYTES + 1, 2**31 - 1])
def test_a_reply_of_a_length_that_none_has_is_a_violation(size: int) -> None:
    with pytest.raises(ProtocolViolation, match=f"a reply of {size} bytes"):
        KafkaClient("c", FRAME_BYTES).receive_data(pack(">i", size))


@pytest.mark.parametrize("end", [b"", b"\x01", b"\x00\x00", b"\x00\x00\x00\x00\x00\x00"])
def test_a_reply_cut_short_is_a_violation(end: bytes) -> None:
    client = KafkaClient("c", FRAME_BYTES)
    client.encode_request(BEAT, 4)
    with pytest.raises(ProtocolViolation):
        client.receive_data(pack(">ii", 4 + len(end), 0) + end)


def test_numbers_begin_again_where_they_end() -> None:
    client = KafkaClient("c", FRAME_BYTES)
    client._next_number = 0x7FFFFFFF
    assert [client.encode_request(BEAT, 4)[0] for _ in range(2)] == [0x7FFFFFFF, 0]


def test_every_request_of_every_version_reaches_a_session_as_it_was() -> None:
    for case in CASES:
        if not case.is_request or not case.api.advertised or case.api.key in {17, 18, 36}:
            continue
        if case.api.key == 0 and case.version < 3:
            continue  # refused at once
        message = sample(case, Filled())
        session = opened(EVERYTHING)
        session.receive_data(encode_request(message, case.version, 5, "größe"))
        assert session.next_request() == (5, message)
        assert session.client_id == "größe"


def test_as_many_entries_are_read_as_it_was_made_for() -> None:
    partition = MetadataPartitionReply(0, 1, replica_nodes=(1, 2, 3))
    reply = MetadataReply(topics=(MetadataTopicReply("t", partitions=(partition,) * 50),))
    for most, fits in ((100, False), (1_000, True)):
        client = KafkaClient("c", 1 << 20, most)
        number, _ = client.encode_request(Metadata(), 9)
        data = VersionCodec(WIRE_APIS[3], 9).frame(number, reply)
        if fits:
            assert client.receive_data(data) == [(number, reply)]
        else:
            with pytest.raises(ProtocolViolation):
                client.receive_data(data)
