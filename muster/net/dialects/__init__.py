"""The two dialects of a client: musterd's native protocol, and that of Apache Kafka.

A `ClientSession` is the client's side of one connection, sans-I/O: typed requests to bytes, bytes to typed replies. The
owner of the socket does the same in either dialect:

    number, data = session.encode_request(message)     send data
    for said in session.receive_data(received): ...    then send session.take_data()

The first request is preceded by the greeting: `Hello`, or ApiVersions.
"""

import enum
from typing import Final, Protocol, assert_never

from membership.events import NodeAddress
from muster.net.dialects.handshake_errors import HandshakeRefused, LoginFailed, Logins, no_login
from muster.net.dialects.native import NativeClientSession
from protocol.messages import Message
from protocol.native.client import NativeAnswer, Push

__all__ = [
    "MAX_FRAME_BYTES",
    "ClientDialect",
    "ClientSession",
    "HandshakeRefused",
    "LoginFailed",
    "NativeAnswer",
    "Push",
    "dialect_of",
    "open_session",
]

MAX_FRAME_BYTES: Final = 256 * 1024 * 1024
"""The most that a server may send: fetches of 50 MiB and rosters of large groups fit."""


class ClientDialect(enum.Enum):
    """The protocol that a server speaks. So do the nodes that it tells of, unless it says otherwise of one
    (`dialect_of`).
    """

    NATIVE = "native"
    KAFKA = "kafka"

    @property
    def default_port(self) -> int:
        return 9390 if self is ClientDialect.NATIVE else 9092

    @property
    def answers_in_order(self) -> bool:
        """A request that the server holds back then holds up every later one of its connection."""
        return self is ClientDialect.KAFKA

    @property
    def advice(self) -> str:
        """Return what to look at when nobody can be reached."""
        if self is ClientDialect.NATIVE:
            return (
                "Is musterd running there, with its native listener at that address? (Of a Kafka listener it is "
                "kafka://HOST:PORT.)"
            )
        return (
            "Is a broker of Apache Kafka, or musterd with its Kafka listener, running there? (Of musterd's native "
            "listener it is HOST:PORT, without kafka://.)"
        )


class ClientSession(Protocol):
    """The client's side of one connection."""

    def encode_request(self, message: Message, now_ms: int = 0) -> tuple[int, bytes]:
        """The request's number, and what to send now: nothing of it, while the server's versions are not known, or we
        are not to the server. A Produce with `acks` 0 is never answered, unless the session itself refuses it. By
        `now_ms`, of a clock that goes on, a login that ends is known.
        """

    def receive_data(self, data: bytes) -> list[NativeAnswer | Push]:
        """Return what the server said, and the session itself of requests that cannot be said to this server: those are
        answered `ErrorReply`, without the server having seen them, and no data is needed to hear of them.

        Raises ProtocolViolation for bytes that no server of this dialect sends, `HandshakeRefused` where it lets
        nobody in, `LoginFailed` where not us.
        """

    def take_data(self) -> bytes:
        """Return what else is to be sent; after `receive_data`, requests that waited for the greeting's answer."""

    @property
    def is_ready(self) -> bool:
        """True if nothing waits for the greeting's answer, or for that to a login."""


def dialect_of(node: NodeAddress, bootstrap: ClientDialect) -> ClientDialect:
    """Return the dialect of a node, where the bootstrap speaks that: brokers beside musterd speak Kafka's protocol."""
    return ClientDialect.KAFKA if node.speaks == ClientDialect.KAFKA.value else bootstrap


def open_session(
    dialect: ClientDialect, client_id: str, max_frame_bytes: int = MAX_FRAME_BYTES, logins: Logins = no_login
) -> ClientSession:
    """`max_frame_bytes` bounds what the server may send. `logins` makes a login whenever one is needed."""
    match dialect:
        case ClientDialect.NATIVE:
            return NativeClientSession(client_id, max_frame_bytes, logins)
        case ClientDialect.KAFKA:
            # Here, because a client of one dialect starts sooner without the other.
            from muster.net.dialects.kafka import KafkaClientSession

            return KafkaClientSession(client_id, max_frame_bytes, logins)
        case _:
            assert_never(dialect)
