"""A connection in front of a broker, and frames to send over it."""

from struct import pack, unpack_from

from msgspec.structs import replace

from coordinator.gateway.session.replies import Addresses
from coordinator.gateway.session.router import Router
from coordinator.gateway.session.session import ProxySession
from protocol.apis import WIRE_APIS
from protocol.kafka.client import encode_request
from protocol.kafka.version_codec import VersionCodec
from protocol.messages import Message
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import Heartbeat
from protocol.messages.node import ApiVersion, ApiVersionsReply, FinalizedFeature
from protocol.messages.topics import MetadataBroker, MetadataReply
from protocol.session import Request

FRAME_BYTES = 4 << 20
KAFKA = {
    0: (3, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (2, 7), 22: (0, 6), 25: (0, 4),
    28: (0, 5), 32: (1, 4), 33: (0, 2), 36: (0, 2), 42: (0, 2), 44: (0, 1), 47: (0, 0),
    55: (0, 2), 60: (0, 2), 68: (0, 1), 76: (1, 1), 99: (0, 3),
}  # fmt: skip
"""Versions about as those of Apache Kafka 4.3, and an API that does not exist yet."""
BROKER = ApiVersionsReply(
    api_keys=tuple(ApiVersion(key, *versions) for key, versions in KAFKA.items()),
    finalized_features_epoch=7,
    finalized_features=(
        FinalizedFeature("group.version", 1, 1),
        FinalizedFeature("metadata.version", 29, 1),
        FinalizedFeature("transaction.version", 2, 2),
    ),
)
HERE = {1: ("front", 9100), 2: ("front", 9101)}
FETCH, LIST_OFFSETS, METADATA = 1, 2, 3
BEAT = Heartbeat("g", 1, "m")
TOPOLOGY = MetadataReply(
    brokers=(MetadataBroker(1, "hidden-1", 9092, "r"), MetadataBroker(2, "hidden-2", 9092)), cluster_id="c"
)


def opened(broker: ApiVersionsReply = BROKER, frame_bytes: int = FRAME_BYTES) -> ProxySession:
    return ProxySession(Router(broker, HERE, frame_bytes))


def raw(key: int, version: int, number: int, body: bytes, client: bytes = b"c") -> bytes:
    """Return a request whose body has an unknown format."""
    frame = pack(">hhih", key, version, number, len(client)) + client + body
    return pack(">i", len(frame)) + frame


def answer(number: int, body: bytes) -> bytes:
    return pack(">ii", 4 + len(body), number) + body


def told(key: int, version: int, number: int, reply: Message) -> bytes:
    """Return a reply as a broker encodes it."""
    return VersionCodec(WIRE_APIS[key], version).frame(number, reply)


def at_our_addresses(version: int, number: int, reply: MetadataReply, here: Addresses = HERE) -> bytes:
    """Encode the Metadata reply that the client should get, by decoding and encoding all of it."""
    brokers = [
        replace(one, host=here[one.node_id][0], port=here[one.node_id][1])
        for one in reply.brokers
        if one.node_id in here
    ]
    return told(METADATA, version, number, replace(reply, brokers=tuple(brokers)))


def produce(number: int, acks: int, version: int = 9, records: bytes = b"r" * 40, of: str | None = None) -> bytes:
    topics = (ProduceTopic("t", (ProducePartition(0, records),)),)
    return encode_request(Produce(topics, acks, 30_000, of), version, number, "c")


def requests_of(session: ProxySession) -> list[Request]:
    return list(iter(session.next_request, None))


def forwarded(session: ProxySession) -> bytes:
    return b"".join(session.take_forward())


def frames_in(data: bytes) -> list[bytes]:
    """Return the whole frames, and the remaining bytes as the last item."""
    found, position = [], 0
    while len(data) - position >= 4:
        end = position + 4 + unpack_from(">i", data, position)[0]
        if end > len(data):
            break
        found.append(data[position:end])
        position = end
    return [*found, data[position:]]


def number_of(frame: bytes) -> int:
    """Return the correlation id of a request."""
    number: int = unpack_from(">i", frame, 8)[0]
    return number


def served(number: int, reply: MetadataReply = TOPOLOGY) -> bytes:
    """Return the broker's reply to the query whether it serves the client."""
    return VersionCodec(WIRE_APIS[METADATA], 4).frame(number, reply)
