"""A native connection whose client logs in at a broker. The node serves its requests; its login, and queries for its
principal's permissions, go to the broker over a connection of the client's own. `protocol.session` has the contract of
a session."""

from collections.abc import Callable
from typing import Final

from coordinator.clock import Moment
from protocol.errors import ProtocolViolation
from protocol.kafka.client import KafkaClient, encode_request
from protocol.messages import Message
from protocol.messages.node import SaslAuthenticate, SaslHandshake
from protocol.messages.topics import MetadataReply
from protocol.native.session import NativeDialect, NativeSession

OnReply = Callable[[Message, Moment], None]
"""Called with the broker's reply."""
VersionOf = Callable[[type[Message], int, int], int | None]
"""The newest version of an API between two that the brokers speak; None: they speak none of them."""

_OF_LOGINS: Final = (SaslHandshake, SaslAuthenticate)


class RelayedSession(NativeSession):
    """One native connection, and its side towards the broker. While `is_logging_in` only the login is sent to the
    broker, which ends a login that another request interrupts (KIP-368)."""

    __slots__ = (
        "_awaited",
        "_client",
        "_held",
        "_received",
        "_is_logging_in",
        "_query_replies",
        "_to_forward",
        "_version_of",
        "upstream_bytes",
    )

    def __init__(self, dialect: NativeDialect, version_of: VersionOf, max_frame_bytes: int) -> None:
        super().__init__(dialect)
        self._client = KafkaClient("muster", max_frame_bytes)
        self._version_of = version_of
        self._awaited: dict[int, OnReply | None] = {}
        self._held: list[tuple[Message, int, OnReply | None]] = []
        self._received: list[tuple[OnReply, Message]] = []
        self._is_logging_in = False
        self._query_replies: list[Message] = []
        self._to_forward: list[bytes] = []
        self.upstream_bytes = 0

    def ask(self, message: Message, oldest: int, newest: int, on_reply: OnReply | None) -> bool:
        """Send the broker a request as the client. Return False if it speaks none of these versions, or if they cannot
        encode the values that the client chose."""
        version = self._version_of(type(message), oldest, newest)
        if version is None:
            return False
        try:
            encode_request(message, version, 0, None)
        except Exception:  # noqa: BLE001 - a client chose the values
            return False
        if self._is_logging_in and not isinstance(message, _OF_LOGINS):
            self._held.append((message, version, on_reply))
        else:
            self._send(message, version, on_reply)
        return True

    def send_query(self, message: Message, oldest: int, newest: int) -> bool:
        """See `coordinator.gateway.authorization.QuerySession`."""
        return self.ask(message, oldest, newest, None)

    def begin_login(self) -> None:
        """Hold back all other requests to the broker."""
        self._is_logging_in = True

    def end_login(self) -> None:
        """Send the held requests: the broker knows the client now."""
        self._is_logging_in = False
        held, self._held = self._held, []
        for message, version, on_reply in held:
            self._send(message, version, on_reply)

    def _send(self, message: Message, version: int, on_reply: OnReply | None) -> None:
        number, data = self._client.encode_request(message, version)
        self._awaited[number] = on_reply
        self._to_forward.append(data)

    # ------------------------------------------------------------------------------------------------------- the broker

    def take_forward(self) -> list[bytes]:
        """Return the bytes for the broker, in pieces."""
        pieces, self._to_forward = self._to_forward, []
        return pieces

    def receive_upstream(self, data: bytes) -> list[bytes]:
        """Read the broker's bytes; none of them go to the client. Raises ProtocolViolation."""
        self.upstream_bytes += len(data)
        for number, reply in self._client.receive_data(data):
            on_reply = self._awaited.pop(number)
            if on_reply is None:
                self._query_replies.append(reply)
            else:
                self._received.append((on_reply, reply))
        return []

    def take_replies(self) -> list[tuple[OnReply, Message]]:
        """Return the replies to `ask`, each with its receiver."""
        replies, self._received = self._received, []
        return replies

    def take_query_replies(self) -> list[Message]:
        """Return the replies to queries, in their order."""
        replies, self._query_replies = self._query_replies, []
        return replies

    def take_observed_metadata(self) -> list[MetadataReply | None]:
        """Return nothing: clients are answered by the node."""
        return []

    def take_splice(self) -> int:
        """Return 0: no bytes of the broker go to the client."""
        return 0

    def upstream_lost(self, reason: str) -> None:
        """Raise ProtocolViolation: another connection to a broker would need another login."""
        raise ProtocolViolation(f"the broker's side of the connection is gone: {reason}")

    @property
    def awaits_broker(self) -> bool:
        """Return whether a reply of the broker is pending."""
        return bool(self._awaited)
