"""Interface of the dialects: bytes in, typed requests out; typed replies in, bytes out. No I/O.

A `Dialect` makes one `Session` for each connection. The node calls `receive_data` with the bytes that arrived, then
`next_request` until it returns None, and `take_data` for replies of the session itself (to requests that the node does
not see). Kafka's sessions must answer in order: their `next_request` returns None while a request of the connection is
unanswered. Native sessions need not, and never delay a request.
"""

from collections.abc import Generator
from typing import Protocol

import msgspec

from protocol.messages import Message
from protocol.messages.offsets import OffsetCommit


class RequestRef(msgspec.Struct, frozen=True, gc=False):
    """Reference to a request: its connection, and the number that the connection's session gave it. `kind` and
    `read_ms`: its type and the time at which it was read, for measuring the response time; None if that is not
    measured."""

    connection: int
    number: int
    kind: type[Message] | None = None
    read_ms: int = 0


Request = tuple[int, Message]
"""A decoded request after its number, which is assigned by the session and unique among its unanswered requests."""


class Encoded(Message):
    """The encoded body of a reply, for the session that encoded it."""

    body: bytes


class RepeatedCommit(Message):
    """A commit that differs from `first`, an earlier request of its connection, only in its offsets. `offsets` are in
    the order of the partitions in `first`. A session returns the same `first` as long as only offsets change."""

    first: OffsetCommit
    offsets: tuple[int, ...]

    def whole(self) -> OffsetCommit:
        """Return the commit that the client has sent."""
        offsets = iter(self.offsets)
        topics = [
            msgspec.structs.replace(
                topic,
                partitions=tuple(
                    [msgspec.structs.replace(part, committed_offset=next(offsets)) for part in topic.partitions]
                ),
            )
            for topic in self.first.topics
        ]
        return msgspec.structs.replace(self.first, topics=tuple(topics))


class Session(Protocol):
    """One connection speaking one dialect."""

    @property
    def takes_pushes(self) -> bool:
        """True if this dialect has notifications, which need no request."""

    @property
    def client_id(self) -> str:
        """Name that the client has sent; empty before."""

    @property
    def client_software(self) -> tuple[str, str]:
        """Name and version of the client's software; empty before the client has sent them."""

    def receive_data(self, data: bytes) -> None:
        """Buffer received bytes, split anywhere. Raises ProtocolViolation for bytes no conforming client sends."""

    def next_request(self) -> Request | None:
        """Return the next whole request that may be served now; None without one. Raises ProtocolViolation."""

    def encode_reply(self, number: int, reply: Message) -> bytes:
        """Return the bytes of a reply (empty if the request wants none). The number may be reused afterwards."""

    def encoding(self, reply: Message) -> Generator[None, None, Message]:
        """Encode a very large reply to the waiting request, a piece at a time. Return the message for `encode_reply`:
        the encoded body, or the reply itself if pieces gain nothing."""

    def encode_push(self, message: Message) -> bytes:
        """Return the bytes of a notification. Not called if the dialect has none."""

    def take_data(self) -> bytes:
        """Return the session's own replies since the last call."""

    @property
    def unanswered(self) -> int:
        """Number of requests returned by `next_request` and not yet answered."""

    @property
    def is_idle(self) -> bool:
        """True if no reply to the client is pending."""

    @property
    def buffered_bytes(self) -> int:
        """Number of bytes received and not yet decoded into requests."""

    @property
    def has_waiting_request(self) -> bool:
        """True if a whole request has arrived that waits for the reply to an earlier one."""

    @property
    def is_behind(self) -> bool:
        """True if so many bytes wait behind unanswered requests that the connection should not be read."""


class Dialect(Protocol):
    """A wire protocol; makes a session for each connection."""

    name: str

    def open(self) -> Session:
        """Return the session of a new connection."""
