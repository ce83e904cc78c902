"""Both ends of a native connection, and frames written by hand with another library."""

from typing import Any

import msgpack

from protocol.messages.node import HelloReply
from protocol.native.session import METHODS, NativeDialect, NativeSession
from protocol.session import Request

FRAME_BYTES = 1 << 20
GREETING = HelloReply("musterd", "0.1.0", 3, tuple(METHODS), {"max_frame_bytes": FRAME_BYTES})


def open_session(max_frame_bytes: int = FRAME_BYTES) -> NativeSession:
    return NativeDialect(max_frame_bytes, GREETING).open()


def frame(*parts: object) -> bytes:
    packed: bytes = msgpack.packb(list(parts))
    return packed


def call(number: int, method: str, **params: object) -> bytes:
    return frame(0, number, method, [params])


def requests_of(session: NativeSession) -> list[Request]:
    return list(iter(session.next_request, None))


def said_by(session: NativeSession) -> list[Any]:
    """Return the session's own answers, as values."""
    return values_in(session.take_data())


def values_in(data: bytes) -> list[Any]:
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    return list(unpacker)
