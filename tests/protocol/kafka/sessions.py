"""A session for tests, and the replies that it sends by itself."""

from struct import pack

from protocol.apis import WIRE_APIS
from protocol.kafka.client import KafkaAnswer, KafkaClient
from protocol.kafka.session import KafkaDialect, KafkaSession
from protocol.messages import Message
from protocol.messages.groups import Heartbeat, JoinGroup
from protocol.messages.node import (
    ApiVersions,
    SaslAuthenticate,
    SaslHandshake,
)
from protocol.session import Request
from tests.protocol.kafka.samples import CASES

FRAME_BYTES = 4 << 20
EVERYTHING = {api.message for api in WIRE_APIS.values()}
SPOKEN = [case for case in CASES if case.is_request and case.api.advertised]
ITS_OWN = {ApiVersions, SaslHandshake, SaslAuthenticate}
BEAT = Heartbeat("g", 1, "m")
JOIN = JoinGroup("g", 6_000, rebalance_timeout_ms=6_000, protocol_type="consumer")


def opened(served: set[type[Message]] | None = None) -> KafkaSession:
    return KafkaDialect(FRAME_BYTES, EVERYTHING if served is None else served).open()


def requests_of(session: KafkaSession) -> list[Request]:
    return list(iter(session.next_request, None))


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def asked(session: KafkaSession, message: Message, version: int, number: int = 7) -> list[KafkaAnswer]:
    """Return the session's own replies to this request."""
    client = KafkaClient(None, FRAME_BYTES)
    client._next_number = number
    session.receive_data(client.encode_request(message, version)[1])
    assert session.next_request() is None
    return client.receive_data(session.take_data())
