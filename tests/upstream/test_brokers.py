"""Discovered brokers, as open connections and the next ones see them."""

from msgspec.structs import replace

from coordinator.gateway.brokers import Broker, Brokers
from coordinator.gateway.session.session import ProxySession
from protocol.kafka.client import KafkaClient, encode_request
from protocol.messages.groups import HeartbeatReply
from protocol.messages.node import ApiVersion, ApiVersions, ApiVersionsReply, SaslHandshake, SaslHandshakeReply
from protocol.messages.topics import Metadata, MetadataReply
from tests.upstream.session.frames import (
    BEAT,
    BROKER,
    FRAME_BYTES,
    METADATA,
    TOPOLOGY,
    forwarded,
    number_of,
    requests_of,
    served,
    told,
)


def found(brokers: Brokers, *numbers: int, versions: ApiVersionsReply = BROKER, now_ms: int = 0) -> None:
    some = [Broker(number, "hidden", 9092, "front", 9100 + number, versions) for number in numbers]
    brokers.found(tuple(some), now_ms)


def begun(*numbers: int) -> Brokers:
    brokers = Brokers(FRAME_BYTES, 1_000)
    found(brokers, *numbers)
    return brokers


def ports_told(session: ProxySession) -> list[int]:
    """Return the brokers' ports as a client of the connection is told them."""
    client = KafkaClient("c", FRAME_BYTES)
    number, data = client.encode_request(Metadata(), 9)
    session.receive_data(data)
    assert requests_of(session) == []
    ((_, reply),) = client.receive_data(b"".join(session.receive_upstream(told(METADATA, 9, number, TOPOLOGY))))
    assert isinstance(reply, MetadataReply)
    return [one.port for one in reply.brokers]


def newest_fetch(session: ProxySession) -> int:
    client = KafkaClient("c", FRAME_BYTES)
    session.receive_data(client.encode_request(ApiVersions("c", "1"), 3)[1])
    assert requests_of(session) == []
    ((_, reply),) = client.receive_data(session.take_data())
    assert isinstance(reply, ApiVersionsReply)
    return {row.api_key: row.max_version for row in reply.api_keys}[1]


def test_a_broker_that_left_is_told_of_to_nobody_nor_to_whom_was_there_before() -> None:
    brokers = begun(1, 2)
    session = brokers.open(1)
    before = ports_told(session)
    found(brokers, 1)
    assert (before, ports_told(session), ports_told(brokers.open(1))) == ([9101, 9102], [9101], [9101])


def test_a_broker_that_is_another_version_now_is_offered_so_to_whoever_comes_next() -> None:
    brokers = begun(1)
    session = brokers.open(1)
    rows = tuple(ApiVersion(1, 4, 13) if row.api_key == 1 else row for row in BROKER.api_keys)
    found(brokers, 1, versions=replace(BROKER, api_keys=rows))
    assert (newest_fetch(session), newest_fetch(brokers.open(1))) == (15, 13)


def test_whom_a_broker_let_in_it_is_asked_about_again_in_the_next_minute_in_which_it_is_found() -> None:
    brokers = begun(1)
    session = brokers.open(1)
    session.receive_data(encode_request(SaslHandshake("PLAIN"), 1, 1, "c"))
    requests_of(session)
    session.receive_upstream(told(17, 1, 1, SaslHandshakeReply()))
    forwarded(session)
    for now_ms, asks in ((0, True), (59_999, False), (60_000, True), (119_999, False), (125_000, True)):
        found(brokers, 1, now_ms=now_ms)
        session.receive_data(encode_request(BEAT, 4, 2, "c"))
        is_held = not requests_of(session)
        assert is_held is asks, now_ms
        if is_held:
            session.receive_upstream(served(number_of(forwarded(session))))
            assert requests_of(session) == [(2, BEAT)]
        session.encode_reply(2, HeartbeatReply())
