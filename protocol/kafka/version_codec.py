"""One version of one API: decodes its requests, encodes its replies, and has the facts that a session needs for each
request."""

from struct import Struct
from typing import Final

from protocol.apis import WireApi
from protocol.errors import ErrorCode
from protocol.kafka.quirks import ADAPT, OLDEST_PRODUCE
from protocol.kafka.reading import MAX_ENTRIES, Reader, reader
from protocol.kafka.writing import Writer, pausing_writer, pieces_writer, writer
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.data import FetchReply, Produce
from protocol.messages.groups import HeartbeatReply, ListGroupsReply
from protocol.messages.node import ApiVersions, SaslAuthenticate, SaslHandshake
from protocol.messages.offsets import OffsetCommitReply, OffsetFetch
from protocol.session import Encoded

API_VERSIONS: Final = 18
ANSWERED_BY_SESSIONS: Final = (ApiVersions, SaslHandshake, SaslAuthenticate)
_LAST_WITHOUT_ERROR: Final = 1
"""The last version of OffsetFetch without a field for a group's error, so that its replies must be adapted."""

_USUAL: Final = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
"""Errors in most replies to heartbeats, which are encoded once."""

reply_head: Final = Struct(">ii").pack
"""Packs the head of an inflexible reply: the length of the rest, and the correlation id."""
_reply_head_with_tags: Final = Struct(">iib").pack


class VersionCodec:
    """Decoder of requests and encoder of replies of one version of one API.

    `is_repeated`: clients are likely to send identical requests. `plain`: the type of replies that are encoded
    unchanged; None if a reply must be adapted to the version first. `ready`: the bytes after the correlation id in a
    heartbeat's usual replies, by error; `ready_size`: their size, including the id. `encode_slowly` encodes the body of
    a reply that may be very large, a piece at a time; None for other APIs.
    """

    __slots__ = (
        "adapt",
        "answers_itself",
        "api",
        "is_repeated",
        "encode_slowly",
        "is_flexible",
        "is_heartbeat",
        "plain",
        "read",
        "ready",
        "ready_size",
        "version",
        "_has_tags",
        "_pieces",
        "_write",
    )

    def __init__(self, api: WireApi, version: int, most_entries: int = MAX_ENTRIES) -> None:
        reply, request = api.reply.group.message, api.message
        self.api = api
        self.version = version
        self.read: Reader = reader(api.request, version, most_entries)
        self.is_flexible = api.is_flexible(version)
        self.adapt = None if request is OffsetFetch and version > _LAST_WITHOUT_ERROR else ADAPT.get(request)
        self.answers_itself = request in ANSWERED_BY_SESSIONS or (request is Produce and version < OLDEST_PRODUCE)
        self._write: Writer = writer(api.reply, version)
        # The reply to ApiVersions always has the oldest header, since the client does not know the server's versions
        # yet.
        self._has_tags = self.is_flexible and api.key != API_VERSIONS
        # The length is included when the pieces are joined, so that megabytes of records are copied only once.
        self._pieces = pieces_writer(api.reply, version) if reply is FetchReply else None
        self.encode_slowly = pausing_writer(api.reply, version) if reply is ListGroupsReply else None
        self.is_heartbeat = reply is HeartbeatReply
        self.is_repeated = self.is_heartbeat or request in {OffsetFetch, ConsumerGroupHeartbeat}
        self.ready = {error: self._ready(error) for error in _USUAL} if self.is_heartbeat else {}
        self.ready_size = 4 + max(map(len, self.ready.values()), default=0)
        looked_at = self.is_heartbeat or request is Produce or reply is OffsetCommitReply or self.adapt is not None
        self.plain: type[Message] | None = None if looked_at else reply

    def frame(self, correlation_id: int, reply: Message) -> bytes:
        """Return the whole frame of the reply, its length first."""
        if self._pieces is not None:
            pieces = self._pieces(reply)
            pieces.insert(0, self._head(correlation_id, sum(map(len, pieces))))
            return b"".join(pieces)
        body = reply.body if isinstance(reply, Encoded) else self._write(reply)
        return self._head(correlation_id, len(body)) + body

    def _ready(self, error_code: ErrorCode) -> bytes:
        return (b"\0" if self._has_tags else b"") + self._write(HeartbeatReply(error_code))

    def _head(self, correlation_id: int, body_bytes: int) -> bytes:
        if self._has_tags:
            return _reply_head_with_tags(body_bytes + 5, correlation_id, 0)
        return reply_head(body_bytes + 4, correlation_id)
