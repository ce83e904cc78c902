"""One version of one API: how its requests are read, how its replies are framed, and what a session need not ask again
for each request."""

from struct import Struct
from typing import Final

from protocol.apis import Api
from protocol.kafka.quirks import ADAPT, OLDEST_PRODUCE
from protocol.kafka.reading import MAX_ENTRIES, Reader, reader
from protocol.kafka.writing import Writer, pausing_writer, pieces_writer, writer
from protocol.messages import Message
from protocol.messages.data import FetchReply, Produce
from protocol.messages.groups import HeartbeatReply, ListGroupsReply
from protocol.messages.node import ApiVersions, SaslAuthenticate, SaslHandshake
from protocol.messages.offsets import OffsetCommitReply, OffsetFetch
from protocol.session import Encoded

API_VERSIONS: Final = 18
ANSWERED_BY_SESSIONS: Final = (ApiVersions, SaslHandshake, SaslAuthenticate)
_LAST_WITHOUT_ERROR: Final = 1
"""The last version of OffsetFetch that has no place for a group's error, so that its replies must be changed."""

reply_head: Final = Struct(">ii").pack
"""What stands before the body of an inflexible reply: the length of what follows it, and the correlation id."""
_reply_head_with_tags: Final = Struct(">iib").pack


class Call:
    """`comes_again`: whether a client is likely to ask the very same again. `plain` is the type of replies that go out
    as they are; None where a reply must be looked at first. `ready` is the body of a heartbeat's good answer,
    `ready_size` its length on the wire. `encode_slowly` makes the body of a reply that may be very large, a piece at a
    time; None of others."""

    __slots__ = (
        "adapt",
        "answers_itself",
        "api",
        "comes_again",
        "encode_slowly",
        "is_flexible",
        "is_quiet",
        "plain",
        "read",
        "ready",
        "ready_size",
        "version",
        "_has_tags",
        "_pieces",
        "_write",
    )

    def __init__(self, api: Api, version: int, most_entries: int = MAX_ENTRIES) -> None:
        reply, request = api.reply.group.message, api.message
        self.api = api
        self.version = version
        self.read: Reader = reader(api.request, version, most_entries)
        self.is_flexible = api.is_flexible(version)
        self.adapt = None if request is OffsetFetch and version > _LAST_WITHOUT_ERROR else ADAPT.get(request)
        self.answers_itself = request in ANSWERED_BY_SESSIONS or (request is Produce and version < OLDEST_PRODUCE)
        self._write: Writer = writer(api.reply, version)
        # ApiVersions is answered with the oldest header always: who asks does not know yet what we speak.
        self._has_tags = self.is_flexible and api.key != API_VERSIONS
        # Megabytes of records are moved once, not once more for the length before them.
        self._pieces = pieces_writer(api.reply, version) if reply is FetchReply else None
        self.encode_slowly = pausing_writer(api.reply, version) if reply is ListGroupsReply else None
        # A heartbeat's good answer says nothing: its bytes are made once.
        self.is_quiet = reply is HeartbeatReply
        self.comes_again = self.is_quiet or request is OffsetFetch
        body = self._write(HeartbeatReply()) if self.is_quiet else b""
        self.ready = (b"\0" if self._has_tags else b"") + body
        self.ready_size = len(self.ready) + 4
        looked_at = self.is_quiet or request is Produce or reply is OffsetCommitReply or self.adapt is not None
        self.plain: type[Message] | None = None if looked_at else reply

    def frame(self, correlation_id: int, reply: Message) -> bytes:
        """The whole reply, length first."""
        if self._pieces is not None:
            pieces = self._pieces(reply)
            pieces.insert(0, self._head(correlation_id, sum(map(len, pieces))))
            return b"".join(pieces)
        body = reply.body if isinstance(reply, Encoded) else self._write(reply)
        return self._head(correlation_id, len(body)) + body

    def _head(self, correlation_id: int, body_bytes: int) -> bytes:
        if self._has_tags:
            return _reply_head_with_tags(body_bytes + 5, correlation_id, 0)
        return reply_head(body_bytes + 4, correlation_id)
