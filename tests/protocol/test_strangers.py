"""A client of the wrong listener is named in the log."""

import pytest

from protocol.errors import ProtocolViolation
from protocol.kafka.client import KafkaClient, encode_request
from protocol.kafka.session import KafkaDialect
from protocol.messages.node import ApiVersions, FindCoordinator, HelloReply
from protocol.native.client import NativeClient
from protocol.native.session import NativeDialect
from protocol.session import Session
from protocol.strangers import guess

TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def kafka() -> Session:
    return KafkaDialect(1 << 20, set()).open()


def native() -> Session:
    return NativeDialect(1 << 20, HelloReply("s", "0", 1, ("Hello",), {})).open()


def violation(session: Session, data: bytes) -> str:
    def serve() -> None:
        session.receive_data(data)
        session.next_request()

    with pytest.raises(ProtocolViolation) as raised:
        serve()
    return str(raised.value)


def test_at_the_kafka_listener() -> None:
    assert "a TLS handshake" in violation(kafka(), TLS)
    assert "an HTTP request" in violation(kafka(), b"GET / HTTP/1.1\r\n")
    hello = NativeClient(1 << 20).encode_request(FindCoordinator(("g",)))[1]
    assert "a client of the native protocol" in violation(kafka(), hello)


def test_at_the_native_listener() -> None:
    asked = encode_request(ApiVersions("client", "1"), 3, 1, "client")
    assert "a client of Kafka's" in violation(native(), asked)
    assert "an HTTP request" in violation(native(), b"GET / HTTP/1.1\r\n")
    assert "a TLS handshake: there is no TLS here" in violation(native(), TLS)
    assert "a TLS handshake" in violation(native(), TLS[:1])


def test_nobody_is_named_who_is_not_known() -> None:
    assert guess(b"\x7f\xff\xff\xff") == guess(b"") == ""


@pytest.mark.parametrize("client", [KafkaClient("c", 1 << 20), NativeClient(1 << 20)])
def test_a_client_at_the_http_listener(client: KafkaClient | NativeClient) -> None:
    with pytest.raises(ProtocolViolation, match="an HTTP answer: this is the port of HTTP"):
        client.receive_data(b"HTTP/1.1 400 Bad Request\r\n\r\n")
