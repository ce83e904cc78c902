"""The server's side of a Kafka connection: see `protocol.session` for what a session promises.

Requests are answered in the order they came, one at a time: `next_request` returns None until the last one is answered.
A request that waits behind another one is kept as bytes; the node stops reading when there are many.

The session itself answers requests that concern only the wire: ApiVersions; the two of SASL, if there is no
authentication; Produce in a version with an obsolete record format. These answers leave in order too.
"""

import re
from collections.abc import Generator
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from protocol.apis import WIRE_APIS
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.features import FINALIZED_FEATURES, SUPPORTED_FEATURES
from protocol.kafka.quirks import OLDEST_PRODUCE
from protocol.kafka.reading import MAX_ENTRIES
from protocol.kafka.repeats import CommitLayout, layout_of
from protocol.kafka.varint import read_tags
from protocol.kafka.version_codec import ANSWERED_BY_SESSIONS, API_VERSIONS, VersionCodec, reply_head
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply
from protocol.messages.data import Produce
from protocol.messages.node import (
    ApiVersion,
    ApiVersions,
    ApiVersionsReply,
    ErrorReply,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshake,
    SaslHandshakeReply,
)
from protocol.messages.offsets import OffsetCommit, OffsetCommitReply
from protocol.refusals import REFUSE
from protocol.session import Encoded, RepeatedCommit, Request
from protocol.strangers import guess

__all__ = ["KafkaDialect", "KafkaSession"]

MAX_WAITING_BYTES: Final = 1 << 20
"""Bytes of requests behind an unanswered one from which the connection is not read."""
MAX_LOGIN_FRAME_BYTES: Final = 512 * 1024
"""Largest request before a login, as in Kafka (sasl.server.max.receive.size)."""
_MAX_KEPT_REPLY_BYTES: Final = 1_024
"""Largest reply that a connection keeps, since its next reply may be the same."""
_CRUMB_BYTES: Final = 4_096
MAX_CLIENT_ID: Final = 255
"""Characters of a client's name: it is kept with each of the client's members, and in the log."""

_MAX_KEPT_REQUEST_BYTES: Final = 1_024
"""Largest request that a connection keeps, since its next one may be the same; extra bytes after its fields count."""

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_LENGTH: Final = Struct(">i").unpack_from
_HEAD: Final = Struct(">Iih").unpack_from
"""Unpacks the fields after a frame's length: key and version as one number, correlation id, length of the client's
name."""
_KEY_AND_VERSION: Final = Struct(">hh").unpack_from
_HEAD_AT: Final = 4
_REST_AT: Final = 12
_NAME_AT: Final = 14
_NO_AUTHENTICATION: Final = "SASL is not enabled on this listener"


@lru_cache(1_024)
def shared_software(name: str, version: str) -> tuple[str, str]:
    """Return one pair for all connections of the same software."""
    return name, version


_SERVER_DRIVEN: Final[dict[str, Any]] = {
    "supported_features": SUPPORTED_FEATURES,
    "finalized_features_epoch": 0,
    "finalized_features": FINALIZED_FEATURES,
}


class KafkaDialect:
    """Kafka's wire. `served`: requests that the core answers; others of the table are not served or advertised. A
    request with more than `most_entries` elements in its arrays is a ProtocolViolation. `logs_in`: the core answers
    SASL. `knows_repeated_commits`: the core serves `RepeatedCommit`."""

    __slots__ = (
        "_codecs",
        "_most_entries",
        "_served",
        "knows_repeated_commits",
        "logs_in",
        "max_frame_bytes",
        "name",
        "offer",
    )

    def __init__(
        self,
        max_frame_bytes: int,
        served: set[type[Message]],
        most_entries: int = MAX_ENTRIES,
        *,
        logs_in: bool = False,
        knows_repeated_commits: bool = False,
    ) -> None:
        self.logs_in = logs_in
        self.knows_repeated_commits = knows_repeated_commits
        self._most_entries = min(most_entries, MAX_ENTRIES)
        self.name = "kafka"
        self.max_frame_bytes = max_frame_bytes
        offered = served | set(ANSWERED_BY_SESSIONS)
        self._served = {key: api for key, api in WIRE_APIS.items() if api.message in offered}
        self._codecs: dict[int, VersionCodec] = {}
        self.offer = ApiVersionsReply(
            api_keys=tuple(
                ApiVersion(key, api.request.oldest, api.request.newest) for key, api in self._served.items()
            ),
            **(_SERVER_DRIVEN if ConsumerGroupHeartbeat in served else {}),
        )
        """Reply to ApiVersions."""

    def open(self) -> "KafkaSession":
        return KafkaSession(self)

    def codec(self, key: int, version: int) -> VersionCodec | None:
        """Return the codec of this version of an API; None if it is not served."""
        return self.codec_of((key & 0xFFFF) << 16 | (version & 0xFFFF))

    def codec_of(self, kind: int) -> VersionCodec | None:
        """Return the codec by key and version as one number of four bytes, as in a frame."""
        known = self._codecs.get(kind)
        if known is None:
            key, version = kind >> 16, kind & 0xFFFF
            api = self._served.get(key)
            if api is None or not api.request.oldest <= version <= api.request.newest:
                return None
            known = self._codecs[kind] = VersionCodec(api, version, self._most_entries)
        return known


class _KeptReply:
    """Last reply to an OffsetCommit or a ConsumerGroupHeartbeat, kept since the next is mostly the same. `tail`: its
    bytes behind the correlation id."""

    __slots__ = ("codec", "reply", "size", "tail")

    def __init__(self, codec: VersionCodec, reply: Message, frame: bytes) -> None:
        self.codec = codec
        self.reply = reply
        self.size = len(frame) - 4
        self.tail = frame[8:]


class _KeptRequest:
    """Last heartbeat or OffsetFetch of a connection: key and version, bytes behind the correlation id, and the decoded
    message. Members and monitoring tools repeat the same request. `reply`: the last one, if the node may give the same
    object again."""

    __slots__ = ("codec", "kind", "message", "reply", "rest")

    def __init__(self, kind: int, rest: bytes, codec: VersionCodec, message: Message) -> None:
        self.kind = kind
        self.rest = rest
        self.codec = codec
        self.message = message
        self.reply: _KeptReply | None = None


class _KeptCommit:
    """Last OffsetCommit of a connection: key and version, the frame's size, the decoded message and, once a second
    commit had the same size, the positions of its offsets. A member's next commit usually differs only in its
    offsets."""

    __slots__ = ("codec", "kind", "layout", "message", "size")

    def __init__(
        self, kind: int, size: int, codec: VersionCodec, message: OffsetCommit, layout: CommitLayout | None
    ) -> None:
        self.kind = kind
        self.size = size
        self.codec = codec
        self.message = message
        self.layout = layout


class KafkaSession:
    """The server's side of one connection. An idle one keeps no receive buffer. It keeps its last heartbeat or
    OffsetFetch as bytes and decoded, its last OffsetCommit decoded and, from the second of one size on, the bytes
    between its offsets, and its last replies to a ConsumerGroupHeartbeat and to an OffsetCommit: 1 KiB each at most as
    bytes."""

    __slots__ = (
        "_kept_commit",
        "_kept_request",
        "_codec",
        "_chunks",
        "_client_id_bytes",
        "_dialect",
        "_frames",
        "_own",
        "_request",
        "_kept_reply",
        "_max_frame_bytes",
        "_unfinished_bytes",
        "buffered_bytes",
        "client_id",
        "client_software",
    )
    takes_pushes: Final = False

    def __init__(self, dialect: KafkaDialect) -> None:
        self.client_id = ""
        self.client_software = ("", "")
        self._client_id_bytes = b""
        self._dialect = dialect
        self._max_frame_bytes = dialect.max_frame_bytes
        if dialect.logs_in:
            self._max_frame_bytes = min(self._max_frame_bytes, MAX_LOGIN_FRAME_BYTES)
        # An idle connection has no list for bytes to come, since there are many connections.
        self._frames: list[bytes] | None = None
        """Whole frames not yet decoded, including their lengths, the oldest last."""
        self.buffered_bytes = 0
        self._chunks: list[bytes | bytearray] | None = None
        """Parts of an incomplete frame."""
        self._unfinished_bytes = 0
        self._codec: VersionCodec | None = None
        """Codec of the unanswered request."""
        self._request: Message | None = None
        self._kept_request: _KeptRequest | None = None
        self._kept_commit: _KeptCommit | None = None
        self._kept_reply: _KeptReply | None = None
        self._own: list[bytes] | None = None
        """The session's own replies, sent before the next reply of the node."""

    def logged_in(self) -> None:
        """Allow requests of any size, since the client has logged in."""
        self._max_frame_bytes = self._dialect.max_frame_bytes

    # ---------------------------------------------------------------------------------------------------------- framing

    def receive_data(self, data: bytes) -> None:
        chunks = self._chunks
        self.buffered_bytes += len(data)
        if chunks:
            self._put_aside(chunks, data)
            if self._unfinished_bytes < 4 or self._unfinished_bytes < 4 + self._length_of(_first_four(chunks)):
                return
            data = b"".join(chunks)
            self._chunks = None
            self._unfinished_bytes = 0
        length = len(data)
        if length >= 4 and not self._frames and _LENGTH(data)[0] == length - 4 <= self._max_frame_bytes:
            # The usual case: one whole frame arrives.
            self._frames = [data]
            return
        position = 0
        frames: list[bytes] = []
        while length - position >= 4:
            end = position + 4 + self._length_of(data, position)
            if end > length:
                break
            frames.append(data[position:end])
            position = end
        if position < length:
            self._chunks = [data[position:] if position else data]
            self._unfinished_bytes = length - position
        if frames:
            if len(frames) > 1:
                frames.reverse()
            self._frames = frames + self._frames if self._frames else frames

    def _put_aside(self, chunks: list[bytes | bytearray], data: bytes) -> None:
        """Keep part of a frame. Small parts are joined, since a small bytes object takes up to twenty times its
        content."""
        last = chunks[-1]
        if len(last) < _CRUMB_BYTES and isinstance(last, bytearray):
            last += data
        else:
            chunks.append(bytearray(data) if len(data) < _CRUMB_BYTES else data)
        self._unfinished_bytes += len(data)

    def _length_of(self, data: bytes | bytearray, position: int = 0) -> int:
        size: int = _LENGTH(data, position)[0]
        if not 0 <= size <= self._max_frame_bytes:
            who = guess(bytes(data[position : position + 4]))
            raise ProtocolViolation(f"a frame of {size} bytes; {self._max_frame_bytes} are allowed{who}")
        return size

    # --------------------------------------------------------------------------------------------------------- requests

    def next_request(self) -> Request | None:
        frames = self._frames
        while frames and self._codec is None:
            frame = frames.pop()
            if not frames:
                self._frames = None
            self.buffered_bytes -= len(frame)
            if len(frame) < _NAME_AT:
                raise ProtocolViolation(f"a frame of {len(frame) - 4} bytes has no header")
            kind, number, name_size = _HEAD(frame, _HEAD_AT)
            commit = self._kept_commit
            if commit is not None and kind == commit.kind and len(frame) == commit.size and commit.layout is not None:
                offsets = commit.layout.offsets(frame)
                if offsets is not None:
                    self._codec, self._request = commit.codec, commit.message
                    return number, RepeatedCommit(commit.message, offsets)
            kept = self._kept_request
            if kept is not None and kind == kept.kind and frame[_REST_AT:] == kept.rest:
                self._codec, message = kept.codec, kept.message
            else:
                codec, position = self._read_header(frame, kind, number, name_size)
                if codec is None:
                    continue
                message = codec.read(frame, position)
                if codec.answers_itself and (own := self._answer(codec, message)) is not None:
                    self._say(codec.frame(number, own))
                    continue
                self._codec = codec
                if codec.is_repeated and len(frame) <= _MAX_KEPT_REQUEST_BYTES:
                    self._kept_request = _KeptRequest(kind, frame[_REST_AT:], codec, message)
                elif type(message) is OffsetCommit and self._dialect.knows_repeated_commits:
                    self._keep_commit(kind, frame, position, codec, message)
            self._request = message
            return number, message
        return None

    def _read_header(self, frame: bytes, kind: int, number: int, size: int) -> tuple[VersionCodec | None, int]:
        """Return the request's codec and the position of its body; None if the session has answered it."""
        position = _NAME_AT
        if size > 0:
            position += size
            name = frame[_NAME_AT:position]
            if name != self._client_id_bytes:
                self._name(name, size)
        elif self._client_id_bytes:
            self._name(b"", 0)
        codec = self._dialect.codec_of(kind)
        if codec is None:
            key, version = _KEY_AND_VERSION(frame, _HEAD_AT)
            if key == API_VERSIONS:
                self._answer_unsupported(number)
                return None, position
            raise ProtocolViolation(f"API {key} in version {version} is not served")
        if codec.is_flexible:
            try:
                if frame[position]:
                    position = read_tags(frame, position)[1]
                else:
                    position += 1
            except IndexError:
                raise ProtocolViolation("the frame ends in its header") from None
        return codec, position

    def _keep_commit(self, kind: int, frame: bytes, body: int, codec: VersionCodec, commit: OffsetCommit) -> None:
        """Keep the commit unless it is large. Its layout is computed if the last commit had the same size and no layout
        yet."""
        before, size = self._kept_commit, len(frame)
        if size > _MAX_KEPT_REQUEST_BYTES:
            self._kept_commit = None
            return
        is_alike = before is not None and before.kind == kind and before.size == size and before.layout is None
        layout = layout_of(codec, frame, body) if is_alike else None
        self._kept_commit = _KeptCommit(kind, size, codec, commit, layout)

    def _name(self, name: bytes, size: int) -> None:
        if len(name) < size:
            raise ProtocolViolation("the frame ends in its header")
        self._client_id_bytes = name
        self._kept_request = self._kept_commit = None
        self.client_id = name.decode(errors="replace")[:MAX_CLIENT_ID]

    def _answer_unsupported(self, number: int) -> None:
        """Answer an ApiVersions of an unknown version in the oldest one, with the versions of ApiVersions itself."""
        api = WIRE_APIS[API_VERSIONS]
        itself = ApiVersion(API_VERSIONS, api.request.oldest, api.request.newest)
        oldest = self._dialect.codec(API_VERSIONS, 0)
        assert oldest is not None
        self._say(oldest.frame(number, ApiVersionsReply(ErrorCode.UNSUPPORTED_VERSION, (itself,))))

    def _answer(self, codec: VersionCodec, message: Message) -> Message | None:
        """Return the session's own reply; None if the node must answer."""
        if isinstance(message, ApiVersions):
            software = (message.client_software_name, message.client_software_version)
            if codec.is_flexible and not all(map(_SOFTWARE.fullmatch, software)):
                return ApiVersionsReply(ErrorCode.INVALID_REQUEST)
            self.client_software = shared_software(*software)
            self._kept_commit = None
            return self._dialect.offer
        if isinstance(message, SaslHandshake) and not self._dialect.logs_in:
            return SaslHandshakeReply(ErrorCode.ILLEGAL_SASL_STATE)
        if isinstance(message, SaslAuthenticate) and not self._dialect.logs_in:
            return SaslAuthenticateReply(ErrorCode.ILLEGAL_SASL_STATE, _NO_AUTHENTICATION)
        if isinstance(message, Produce) and codec.version < OLDEST_PRODUCE and message.acks != 0:
            return REFUSE[Produce](message, ErrorCode.UNSUPPORTED_VERSION, None)
        return None

    # ---------------------------------------------------------------------------------------------------------- replies

    def encode_reply(self, number: int, reply: Message) -> bytes:
        codec, request = self._codec, self._request
        assert codec is not None and request is not None, "a reply to nothing"
        self._codec = self._request = None
        kind = type(reply)
        if kind is ConsumerGroupHeartbeatReply:
            data = self._heartbeat_reply(codec, number, reply)
        elif kind is codec.plain:
            data = codec.frame(number, reply)
        elif codec.is_heartbeat and (ready := codec.ready.get(reply.error_code)) is not None:  # type: ignore[attr-defined]
            data = reply_head(codec.ready_size, number) + ready
        elif kind is OffsetCommitReply:
            data = self._commit_reply(codec, number, reply)
        elif isinstance(request, Produce) and request.acks == 0:
            data = b""
        else:
            if isinstance(reply, ErrorReply):
                reply = REFUSE[type(request)](request, reply.error_code, reply.error_message)
            if codec.adapt is not None:
                reply = codec.adapt(codec.version, request, reply)
            data = codec.frame(number, reply)
        return self.take_data() + data if self._own else data

    def encoding(self, reply: Message) -> Generator[None, None, Message]:
        codec = self._codec
        if codec is None or codec.encode_slowly is None or type(reply) is not codec.plain:
            return reply
        return Encoded((yield from codec.encode_slowly(reply)))

    def _heartbeat_reply(self, codec: VersionCodec, number: int, reply: Message) -> bytes:
        """Return the frame of a reply, which is encoded once as long as the member's heartbeats change nothing."""
        request = self._kept_request
        if request is None or request.codec is not codec:
            return codec.frame(number, reply)
        kept = request.reply
        if kept is None or kept.reply is not reply:
            data = codec.frame(number, reply)
            request.reply = _KeptReply(codec, reply, data) if len(data) <= _MAX_KEPT_REPLY_BYTES else None
            return data
        return reply_head(kept.size, number) + kept.tail

    def _commit_reply(self, codec: VersionCodec, number: int, reply: Message) -> bytes:
        kept = self._kept_reply
        if kept is not None and kept.codec is codec and (kept.reply is reply or kept.reply == reply):
            return reply_head(kept.size, number) + kept.tail
        data = codec.frame(number, reply)
        self._kept_reply = _KeptReply(codec, reply, data) if len(data) <= _MAX_KEPT_REPLY_BYTES else None
        return data

    def encode_push(self, message: Message) -> bytes:
        return b""

    def take_data(self) -> bytes:
        own = self._own
        if own is None:
            return b""
        self._own = None
        return b"".join(own)

    def _say(self, data: bytes) -> None:
        """Add a reply of the session itself, which is sent before the next reply of the node."""
        if self._own is None:
            self._own = []
        self._own.append(data)

    @property
    def unanswered(self) -> int:
        return 0 if self._codec is None else 1

    @property
    def is_idle(self) -> bool:
        return self._codec is None

    @property
    def has_waiting_request(self) -> bool:
        return bool(self._frames)

    @property
    def is_behind(self) -> bool:
        """True if so many bytes wait behind an unanswered request that the connection should not be read."""
        return self._codec is not None and self.buffered_bytes > MAX_WAITING_BYTES


def _first_four(chunks: list[bytes | bytearray]) -> bytes | bytearray:
    """Return the first chunk with a frame's length in it; shorter ones are joined."""
    first = chunks[0]
    if len(first) < 4:
        first = chunks[0] = b"".join(chunks)
        del chunks[1:]
    return first
