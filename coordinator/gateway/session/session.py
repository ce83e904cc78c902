"""A client's connection to a broker through the gateway; `protocol.session` has the contract of a session.

Group requests go to the node. Every other frame is forwarded as it came, and so are the broker's replies: only headers
are decoded, and nothing is buffered but the few replies that name addresses.

Replies leave in the order of the requests, as Kafka promises. A local request is served once everything before it is
answered, and nothing behind it is forwarded until its own reply is out. So the two streams of replies never have to be
merged. Only requests wait, and reading stops when there are many.
"""

from collections import deque
from collections.abc import Generator
from struct import Struct
from typing import Final, NamedTuple

from coordinator.gateway.session.acks import read_acks
from coordinator.gateway.session.apis import API_VERSIONS, METADATA, PRODUCE, SASL_KEYS, SHARED_KEYS
from coordinator.gateway.session.byte_queue import ByteQueue
from coordinator.gateway.session.replies import ReplyRewriter, reply_rewriter
from coordinator.gateway.session.router import Route, Router
from coordinator.gateway.session.usernames import LONGEST_LOGIN_BYTES, ClaimedUser
from protocol.apis import BY_MESSAGE
from protocol.errors import ProtocolViolation
from protocol.kafka.client import encode_request
from protocol.kafka.session import MAX_WAITING_BYTES
from protocol.messages import Message
from protocol.messages.topics import Metadata, MetadataReply
from protocol.session import Request
from protocol.strangers import guess

MAX_IN_FLIGHT: Final = 1_024
"""Requests of one connection that the broker has not answered; more are not forwarded."""
ACKS_WITHIN_BYTES: Final = 1 << 17
"""Bytes of a Produce within which `acks` must lie, which follows two strings."""
SPLICE_MIN_BYTES: Final = 64 * 1024
"""Bytes of a reply that must be left to make splicing worth it."""
_REQUEST_HEADER_BYTES: Final = 14
_MIN_FRAME_BYTES: Final = 10
_REPLY_HEADER_BYTES: Final = 8
_FIRST_ACKS_BYTES: Final = 64
_PROBE_CORRELATION_ID: Final = -7
_QUERY_CORRELATION_ID: Final = -8

_LENGTH: Final = Struct(">i").unpack_from
_REQUEST_HEADER: Final = Struct(">ihhi").unpack_from
_REPLY_HEADER: Final = Struct(">ii").unpack_from


class _InFlight(NamedTuple):
    """A pending reply of the broker.

    `is_internal`: the gateway sent the request, and the client gets no reply. `reader` decodes the reply to a
    query of `ProxySession.send_query`, or, if it `is_probe`, to the query whether the broker serves the client.
    `login`: it answers a request of the client's login, in which it had `claimed` to be a user.
    """

    correlation_id: int
    rewriter: ReplyRewriter | None = None
    is_internal: bool = False
    reader: ReplyRewriter | None = None
    is_probe: bool = False
    login: ClaimedUser | None = None
    claimed: str = ""


def _reply_to_login(
    user: ClaimedUser, router: Router, key: int, version: int, correlation_id: int, frame: bytes
) -> _InFlight:
    """Read a request of a login, which may not be whole; return its pending reply."""
    user.read(router, key, version, frame)
    return _InFlight(correlation_id, reader=reply_rewriter(key, version), login=user, claimed=user.claimed)


def _probe(version: int) -> tuple[bytes, _InFlight]:
    """Ask whether the broker serves the client: else it does not answer Metadata."""
    reply = _InFlight(_PROBE_CORRELATION_ID, None, True, reply_rewriter(METADATA, version), is_probe=True)
    return encode_request(Metadata(()), version, _PROBE_CORRELATION_ID, "muster"), reply


class ProxySession:
    """One proxied connection. `receive_data` and `take_forward` are the client's side, `receive_upstream` the
    broker's."""

    __slots__ = (
        "_can_splice",
        "_frame_left",
        "_in_flight",
        "_is_blocked",
        "_is_serving",
        "_local",
        "_needed_bytes",
        "_needed_reply_bytes",
        "_observed_metadata",
        "_query_replies",
        "_received",
        "_reply_left",
        "_router",
        "_sent_unacknowledged",
        "_to_forward",
        "_upstream_received",
        "upstream_bytes",
        "user",
    )
    takes_pushes: Final = False

    def __init__(self, router: Router) -> None:
        self._router = router
        self._local = router.open_local()
        self._received = ByteQueue()
        self._needed_bytes = 4
        """Bytes that must have arrived before the next frame is routed."""
        self._frame_left = 0
        """Bytes left of the frame that is being forwarded."""
        self._is_blocked = self._is_serving = False
        self._to_forward: list[bytes] = []
        self._in_flight: deque[_InFlight] | None = None
        self._upstream_received = ByteQueue()
        self._needed_reply_bytes = _REPLY_HEADER_BYTES
        self._reply_left = 0
        self._can_splice = False
        self.user: ClaimedUser | None = None
        """Login of a client that has begun one."""
        self._sent_unacknowledged = False
        """True once a request without a reply was forwarded: its loss could not be noticed."""
        self._observed_metadata: list[MetadataReply | None] = []
        self._query_replies: list[Message] = []
        self.upstream_bytes = 0

    @property
    def client_id(self) -> str:
        return self._local.client_id

    @property
    def client_software(self) -> tuple[str, str]:
        return self._local.client_software

    def receive_data(self, data: bytes) -> None:
        self._received.add(data)

    def next_request(self) -> Request | None:
        received = self._received
        self._is_blocked = False
        while received.size and not self._is_serving:
            if self._frame_left:
                piece = received.take(self._frame_left)
                self._frame_left -= len(piece)
                self._to_forward.append(piece)
                continue
            if received.size < self._needed_bytes or not self._route_next_frame():
                return None
            request = self._local.next_request()
            if request is not None:
                self._is_serving = True
                return request
        return None

    def _route_next_frame(self) -> bool:
        """Route the next frame; return whether it was served or its forwarding begun. False: more bytes or earlier
        replies must arrive first."""
        header = self._received.peek(_REQUEST_HEADER_BYTES)
        (size,) = _LENGTH(header)
        if not _MIN_FRAME_BYTES <= size <= self._router.max_frame_bytes:
            allowed = f"{_MIN_FRAME_BYTES} to {self._router.max_frame_bytes} are allowed"
            raise ProtocolViolation(f"a frame of {size} bytes; {allowed}{guess(header[:4])}")
        if not self._has_bytes(_REQUEST_HEADER_BYTES):
            return False
        size, key, version, correlation_id = _REQUEST_HEADER(header)
        route = self._router.route(key, version)
        if route.is_local or self._router.serves_offline(key):
            return self._take_local(4 + size, key, version, correlation_id, route)
        if self._in_flight_count >= MAX_IN_FLIGHT:
            self._is_blocked = True
            return False
        if key == PRODUCE:
            is_unacknowledged = self._is_unacknowledged(4 + size, version)
            if is_unacknowledged is None:
                return False
            if is_unacknowledged:
                self._sent_unacknowledged = True
                self._forward(4 + size)
                return True
        expected = _InFlight(correlation_id, route.rewriter)
        if key in SASL_KEYS:
            if size < LONGEST_LOGIN_BYTES and not self._has_bytes(4 + size):
                return False
            self.user = self.user or ClaimedUser()
            frame = self._received.peek(min(4 + size, self._received.size))
            expected = _reply_to_login(self.user, self._router, key, version, correlation_id, frame)
        self._expect_reply(expected)
        self._forward(4 + size)
        return True

    def _take_local(self, length: int, key: int, version: int, correlation_id: int, route: Route) -> bool:
        """Hand the node a local request once all of it has arrived and everything before it is answered."""
        if self._in_flight and not self._awaits_only_queries:
            self._is_blocked = True
            return False
        if not self._has_bytes(length):
            return False
        if key in SHARED_KEYS and self._router.belongs_to_broker(key, version, self._received.peek(length)):
            self._expect_reply(_InFlight(correlation_id, route.rewriter))
            self._forward(length)
            return True
        if self._router.requires_sasl and self.user is None and key != API_VERSIONS:
            raise ProtocolViolation("a group request before SASL authentication, which the broker requires")
        if self.user is not None and self.user.is_unsure(self._router.reachability.minute) and key != API_VERSIONS:
            probe, expected = _probe(self._router.probe_version)  # only the broker knows if it is still logged in
            self._to_forward.append(probe)
            self._expect_reply(expected)
            self._is_blocked = True
            return False
        self._needed_bytes = 4
        self._local.receive_data(self._received.take_whole(length))
        return True

    def _has_bytes(self, length: int) -> bool:
        self._needed_bytes = 4 if self._received.size >= length else length
        return self._received.size >= length

    def _forward(self, length: int) -> None:
        self._frame_left = length
        self._needed_bytes = 4

    def _expect_reply(self, expected: _InFlight) -> None:
        if self._in_flight is None:
            self._in_flight = deque()
        self._in_flight.append(expected)

    def _is_unacknowledged(self, length: int, version: int) -> bool | None:
        """Return whether a Produce has `acks` 0; None if more bytes must arrive first."""
        have = min(self._received.size, length)
        try:
            return read_acks(self._received.peek(min(have, ACKS_WITHIN_BYTES)), version) == 0
        except IndexError:
            if have == length or have >= ACKS_WITHIN_BYTES:
                raise ProtocolViolation("a Produce without acks") from None
            self._needed_bytes = min(length, max(2 * have, _FIRST_ACKS_BYTES))  # doubled: few attempts
            return None

    def encoding(self, reply: Message) -> Generator[None, None, Message]:
        return self._local.encoding(reply)

    def encode_reply(self, number: int, reply: Message) -> bytes:
        self._is_serving = False
        return self._local.encode_reply(number, reply)

    def encode_push(self, message: Message) -> bytes:
        return b""

    def take_data(self) -> bytes:
        return self._local.take_data()

    # ------------------------------------------------------------------------------------------------------- the broker

    def take_forward(self) -> list[bytes]:
        """Return the bytes for the broker, in pieces."""
        pieces, self._to_forward = self._to_forward, []
        return pieces

    def receive_upstream(self, data: bytes) -> list[bytes]:
        """Return the client's part of the broker's bytes, in pieces. Requests that waited for a reply may then come out
        of `next_request`. Raises ProtocolViolation for a reply that does not match the requests."""
        self.upstream_bytes += len(data)
        replies, out = self._upstream_received, []
        replies.add(data)
        while replies.size:
            if self._reply_left:
                piece = replies.take(self._reply_left)
                self._reply_left -= len(piece)
                assert self._in_flight
                if not self._in_flight[0].is_internal:
                    out.append(piece)
                if not self._reply_left:
                    self._complete_reply()
            elif replies.size < self._needed_reply_bytes or not self._handle_next_reply(out):
                break
        is_clients = not (self._in_flight and self._in_flight[0].is_internal)
        self._can_splice = is_clients and self._reply_left >= SPLICE_MIN_BYTES
        return out

    def take_observed_metadata(self) -> list[MetadataReply | None]:
        """Return Metadata replies that went to the client; None stands for one that was too long to decode."""
        observed, self._observed_metadata = self._observed_metadata, []
        return observed

    def send_query(self, message: Message, oldest: int, newest: int) -> bool:
        """Send the broker a query on the client's connection, where it is authorized as the client. Allowed while the
        node serves a request of the client. Return False if the broker speaks none of these versions."""
        version = self._router.version_of(type(message), oldest, newest)
        if version is None:
            return False
        assert self._is_serving and not self._frame_left
        self._to_forward.append(encode_request(message, version, _QUERY_CORRELATION_ID, "muster"))
        reader = reply_rewriter(BY_MESSAGE[type(message)].key, version)
        self._expect_reply(_InFlight(_QUERY_CORRELATION_ID, None, True, reader))
        return True

    def take_query_replies(self) -> list[Message]:
        """Return the replies to queries, in their order."""
        replies, self._query_replies = self._query_replies, []
        return replies

    def take_splice(self) -> int:
        """Return the count of bytes that may be spliced to the client now; 0 if it is not worth it. Spliced bytes are
        reported to `spliced`, others go to `receive_upstream`, in any parts."""
        size, self._can_splice = self._reply_left if self._can_splice else 0, False
        return size

    def spliced(self, count: int) -> bool:
        """Count bytes that were spliced. Return whether the reply is complete, so that waiting requests may come out of
        `next_request`."""
        assert 0 < count <= self._reply_left
        self.upstream_bytes += count
        self._reply_left -= count
        if not self._reply_left:
            self._complete_reply()
        return not self._reply_left

    def _handle_next_reply(self, out: list[bytes]) -> bool:
        size, correlation_id = _REPLY_HEADER(self._upstream_received.peek(_REPLY_HEADER_BYTES))
        if not self._in_flight:
            raise ProtocolViolation("the broker sent a reply without a request")
        expected = self._in_flight[0]
        if correlation_id != expected.correlation_id:
            wanted = expected.correlation_id
            raise ProtocolViolation(f"the broker answered request {correlation_id}, but {wanted} is next")
        is_decoded = expected.rewriter is not None or expected.reader is not None
        if size < 4 or (is_decoded and size > self._router.max_frame_bytes):
            raise ProtocolViolation(f"the broker's answer has a length of {size} bytes")
        if not is_decoded:
            self._reply_left = 4 + size
            return True
        if self._upstream_received.size < 4 + size:
            self._needed_reply_bytes = 4 + size
            return False
        self._needed_reply_bytes = _REPLY_HEADER_BYTES
        frame = self._upstream_received.take_whole(4 + size)
        if expected.reader is not None:
            answered = expected.reader.decode(frame)
            if expected.login is not None:
                out.append(frame)
                expected.login.answered(expected.claimed, answered)
            elif not expected.is_probe:
                self._query_replies.append(answered)
            elif self.user is not None:
                self.user.served(answered, self._router.reachability.minute)
            self._complete_reply()
            return True
        assert expected.rewriter is not None
        frame, decoded = expected.rewriter.rewrite(frame, correlation_id, self._router.addresses)
        if decoded is None or isinstance(decoded, MetadataReply):
            self._observed_metadata.append(decoded)
        out.append(frame)
        self._complete_reply()
        return True

    def _complete_reply(self) -> None:
        assert self._in_flight
        self._in_flight.popleft()
        if not self._in_flight:
            self._in_flight = None

    def upstream_lost(self, reason: str) -> None:
        """Drop the broker's pending replies. Raises ProtocolViolation if the client must reconnect: a reply or a record
        may be lost, or the next broker connection would not be authenticated."""
        if not self._awaits_only_queries or self.user is not None or self._sent_unacknowledged or self._frame_left:
            raise ProtocolViolation(f"the broker's side of the connection is gone: {reason}")
        self._in_flight = None
        self._upstream_received.clear()
        self._needed_reply_bytes = _REPLY_HEADER_BYTES

    # ------------------------------------------------------------------------------------------------------------ state

    @property
    def _in_flight_count(self) -> int:
        return len(self._in_flight) if self._in_flight else 0

    @property
    def _awaits_only_queries(self) -> bool:
        """Return true if no reply to the client is pending at the broker."""
        return all(one.is_internal and not one.is_probe for one in self._in_flight or ())

    @property
    def awaits_broker(self) -> bool:
        """Return true if the broker's reply to a completely forwarded request is pending."""
        return self._in_flight_count > (1 if self._frame_left else 0)

    @property
    def awaits_rewritten_reply(self) -> bool:
        """Return whether the next reply names addresses: the gateway could answer such a request itself."""
        return self._in_flight is not None and self.awaits_broker and self._in_flight[0].rewriter is not None

    @property
    def unanswered(self) -> int:
        """Requests that the node has not answered: 0 or 1."""
        return 1 if self._is_serving else 0

    @property
    def is_idle(self) -> bool:
        return not (self._is_serving or self.awaits_broker)

    @property
    def buffered_bytes(self) -> int:
        return self._received.size + self._upstream_received.size

    @property
    def has_waiting_request(self) -> bool:
        return not self._frame_left and self._received.has_frame

    @property
    def is_behind(self) -> bool:
        return (self._is_serving or self._is_blocked) and self._received.size > MAX_WAITING_BYTES
