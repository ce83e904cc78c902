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
"""Largest frame from a server: fetches of 50 MiB and the member lists of large groups fit."""


class ClientDialect(enum.Enum):
    """The protocol of a server, and of the nodes in its Metadata, except those with a dialect of their own
    (`dialect_of`).
    """

    NATIVE = "native"
    KAFKA = "kafka"

    @property
    def default_port(self) -> int:
        return 9390 if self is ClientDialect.NATIVE else 9092

    @property
    def answers_in_order(self) -> bool:
        """True if replies come in the order of requests, so that a delayed reply delays all later ones of its
        connection."""
        return self is ClientDialect.KAFKA

    @property
    def advice(self) -> str:
        """Return advice for the case that no server can be reached."""
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
        """Return the request's number, and the bytes to send now; the request waits while the server's versions are
        unknown or a login is under way. A Produce with `acks` 0 is never answered, unless the session itself refuses
        it. `now_ms`, of a monotonic clock, shows when a login ends.
        """

    def receive_data(self, data: bytes) -> list[NativeAnswer | Push]:
        """Return the server's replies and notifications, and the session's own replies to requests that cannot be
        encoded for this server: `ErrorReply`, which need no received data. Raises ProtocolViolation for bytes that no
        server of this dialect sends, `HandshakeRefused` if the server refuses the handshake, `LoginFailed` if it
        refuses the login.
        """

    def take_data(self) -> bytes:
        """Return other bytes to send; after `receive_data` for instance requests that waited for the handshake."""

    @property
    def is_ready(self) -> bool:
        """True if no request waits for the handshake or a login."""


def dialect_of(node: NodeAddress, bootstrap: ClientDialect) -> ClientDialect:
    """Return the dialect of a node, given the bootstrap's, since brokers behind musterd have Kafka's protocol."""
    return ClientDialect.KAFKA if node.speaks == ClientDialect.KAFKA.value else bootstrap


def open_session(
    dialect: ClientDialect, client_id: str, max_frame_bytes: int = MAX_FRAME_BYTES, logins: Logins = no_login
) -> ClientSession:
    """`max_frame_bytes` bounds the server's frames. `logins` makes a login whenever one is needed."""
    match dialect:
        case ClientDialect.NATIVE:
            return NativeClientSession(client_id, max_frame_bytes, logins)
        case ClientDialect.KAFKA:
            # Imported here, since a client starts faster without the other dialect.
            from muster.net.dialects.kafka import KafkaClientSession

            return KafkaClientSession(client_id, max_frame_bytes, logins)
        case _:
            assert_never(dialect)
