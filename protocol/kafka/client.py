"""The client's side of a Kafka connection, sans-I/O: typed requests to bytes, bytes to typed replies.

The caller chooses the version of each request, from the reply to `ApiVersions`.
"""

from collections import deque
from functools import cache
from struct import Struct
from typing import Final, NamedTuple

from protocol.apis import BY_MESSAGE, WIRE_APIS
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.reading import MAX_ENTRIES, Reader, reader
from protocol.kafka.varint import read_tags
from protocol.kafka.writing import Writer, writer
from protocol.messages import Message
from protocol.messages.data import Produce
from protocol.messages.node import ApiVersions
from protocol.strangers import guess_server

__all__ = ["KafkaAnswer", "KafkaClient", "encode_request"]

_API_VERSIONS: Final = BY_MESSAGE[ApiVersions].key
_HEADER: Final = Struct(">ihhih").pack
_INT32: Final = Struct(">i").unpack_from
_UNSUPPORTED_VERSION: Final = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")
_MAX_CORRELATION_ID: Final = 0x7FFFFFFF


class KafkaAnswer(NamedTuple):
    """Reply to the request with this correlation id."""

    correlation_id: int
    reply: Message


class _Awaited(NamedTuple):
    correlation_id: int
    key: int
    version: int


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the whole frame, its length first. Raises ValueError for a version that the API does not have here."""
    key, write, end_of_header = _request(type(message), version)
    body = write(message)
    name = b"" if client_id is None else client_id.encode()
    # The client's name has a length of two bytes in flexible versions, too. Tagged fields follow it.
    size = 10 + len(name) + len(end_of_header) + len(body)
    length = -1 if client_id is None else len(name)
    return _HEADER(size, key, version, correlation_id, length) + name + end_of_header + body


@cache
def _request(message: type[Message], version: int) -> tuple[int, Writer, bytes]:
    api = BY_MESSAGE[message]
    if not api.request.oldest <= version <= api.request.newest:
        known = f"{api.request.oldest} to {api.request.newest}"
        raise ValueError(f"{message.__name__} has versions {known}, not {version}")
    return api.key, writer(api.request, version), b"\0" if api.is_flexible(version) else b""


@cache
def _reply(key: int, version: int, most_entries: int) -> tuple[Reader, bool]:
    """Return the reply's reader, and true if its header has tagged fields."""
    api = WIRE_APIS[key]
    return reader(api.reply, version, most_entries, is_answer=True), api.is_flexible(version) and key != _API_VERSIONS


class KafkaClient:
    """A client's side of one connection. Requests are numbered as they are made, and answered in that order."""

    __slots__ = (
        "_awaited",
        "_chunks",
        "_held",
        "_max_frame_bytes",
        "_most_entries",
        "_next_number",
        "_wanted",
        "client_id",
    )

    def __init__(self, client_id: str | None, max_frame_bytes: int, most_entries: int = MAX_ENTRIES) -> None:
        """`max_frame_bytes` bounds a reply's size, `most_entries` the elements of all its arrays together."""
        self._most_entries = most_entries
        self.client_id = client_id
        self._max_frame_bytes = max_frame_bytes
        self._awaited: deque[_Awaited] = deque()
        self._chunks: list[bytes] = []  # parts of an incomplete reply, joined once
        self._held = 0
        self._wanted = 4
        self._next_number = 0

    @property
    def unanswered(self) -> int:
        return len(self._awaited)

    def encode_request(self, message: Message, version: int) -> tuple[int, bytes]:
        """Return the request's correlation id and its bytes. A Produce with `acks` 0 is never answered."""
        number = self._next_number
        data = encode_request(message, version, number, self.client_id)
        self._next_number = (number + 1) & _MAX_CORRELATION_ID
        if not (isinstance(message, Produce) and message.acks == 0):
            self._awaited.append(_Awaited(number, BY_MESSAGE[type(message)].key, version))
        return number, data

    def receive_data(self, data: bytes) -> list[KafkaAnswer]:
        """Return the replies that are now complete, in the order of the requests.

        Raises ProtocolViolation for bytes that are no reply to a request of this client.
        """
        self._chunks.append(data)
        self._held += len(data)
        if self._held < self._wanted:
            return []
        buffer = b"".join(self._chunks) if len(self._chunks) > 1 else data
        answers: list[KafkaAnswer] = []
        position, self._wanted = 0, 4
        while len(buffer) - position >= 4:
            (size,) = _INT32(buffer, position)
            if not 4 <= size <= self._max_frame_bytes:
                allowed = f"4 to {self._max_frame_bytes} are allowed{guess_server(buffer[position : position + 4])}"
                raise ProtocolViolation(f"a reply of {size} bytes; {allowed}")
            end = position + 4 + size
            if end > len(buffer):
                self._wanted = 4 + size
                break
            whole = not position and end == len(buffer)  # avoids a copy of a large reply
            answers.append(self._answer(buffer, 4) if whole else self._answer(buffer[position:end], 4))
            position = end
        rest = buffer[position:]
        self._chunks, self._held = [rest] if rest else [], len(rest)
        return answers

    def _answer(self, frame: bytes, position: int) -> KafkaAnswer:
        (number,) = _INT32(frame, position)
        if not self._awaited or self._awaited[0].correlation_id != number:
            expected = f"request {self._awaited[0].correlation_id} is next" if self._awaited else "none is awaited"
            raise ProtocolViolation(f"a reply to request {number}; {expected}")
        _, key, version = self._awaited.popleft()
        position += 4
        if key == _API_VERSIONS and frame[position : position + 2] == _UNSUPPORTED_VERSION:
            version = 0  # a server that does not know the version replies in the oldest one (KIP-511)
        read, has_tags = _reply(key, version, self._most_entries)
        if has_tags:
            try:
                position = read_tags(frame, position)[1]
            except IndexError:
                raise ProtocolViolation("the frame ends in its header") from None
        return KafkaAnswer(number, read(frame, position))
