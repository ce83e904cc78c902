"""What every dialect offers a connection: bytes in, typed requests out; typed replies in, bytes out. No I/O.

A `Dialect` makes one `Session` for each connection. The node calls `receive_data` with what arrived, then
`next_request` until it gives None, and `take_data` for what the session itself has to say (an answer to bytes that
never became a request). A session that must keep its connection's order (Kafka's) gives None from `next_request` while
a request of its connection is unanswered; one that need not (the native one) never holds a request back.
"""

from collections.abc import Generator
from typing import NamedTuple, Protocol

from protocol.messages import Message


class RequestRef(NamedTuple):
    """Which request a reply belongs to: the connection, and the number its session gave the request."""

    connection: int
    number: int


class Request(NamedTuple):
    """A request as the core sees it. `number` is the session's own and unique among the unanswered ones."""

    number: int
    message: Message


class Encoded(Message):
    """The body of a reply, for the session that made it."""

    body: bytes


class Session(Protocol):
    """One connection speaking one dialect."""

    @property
    def client_id(self) -> str:
        """How the client named itself; empty until it did."""

    def receive_data(self, data: bytes) -> None:
        """Take in what arrived, in any split. Raises ProtocolViolation for bytes no conforming client sends."""

    def next_request(self) -> Request | None:
        """The next whole request that may be served now. Raises ProtocolViolation."""

    def encode_reply(self, number: int, reply: Message) -> bytes:
        """The bytes of a reply (empty if the request wants none); the number is free afterwards."""

    def encoding(self, reply: Message) -> Generator[None, None, Message]:
        """Encode a very large reply to the request that waits, a piece at a time; `encode_reply` takes what is
        returned: the reply itself where there is nothing to gain."""

    def encode_push(self, message: Message) -> bytes:
        """The bytes of a notification, or none if this dialect has no push."""

    def take_data(self) -> bytes:
        """What the session itself wants sent since last asked."""

    @property
    def unanswered(self) -> int:
        """Requests given out and not yet answered."""

    @property
    def is_idle(self) -> bool:
        """Whether nobody owes the client an answer."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes received and not yet turned into requests."""

    @property
    def has_waiting_request(self) -> bool:
        """True if a whole request has arrived that is not read before an earlier one is answered."""

    @property
    def is_behind(self) -> bool:
        """Whether so much waits behind unanswered requests that no more should be read."""


class Dialect(Protocol):
    """A wire language: makes sessions."""

    name: str

    def open(self) -> Session:
        """A session for a connection just opened."""
