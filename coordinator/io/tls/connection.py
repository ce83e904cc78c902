"""EDGE: a client's connection over TLS. To the protocol above it is a transport like any other."""

import asyncio
import contextlib
import ssl
from collections import deque
from typing import Any, Protocol

AHEAD_BYTES = 256 * 1024
"""Bytes encrypted ahead of the socket; the rest waits unencrypted. The TLS of asyncio and uvloop encrypts all data at
once, keeps a buffer of the largest size for ever, and does not count the bytes that it has passed to the socket."""
_PIECE_BYTES = 128 * 1024


class ClientSide(Protocol):
    """Methods that a connection calls on the protocol above it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def eof_received(self) -> bool: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


class TlsConnection(asyncio.BufferedProtocol, asyncio.Transport):
    """A protocol to the loop's TLS transport, and a transport to `client`."""

    __slots__ = (
        "_client",
        "_high_bytes",
        "_is_closing",
        "_is_held",
        "_is_over",
        "_is_paused",
        "_transport",
        "_waiting",
        "_waiting_bytes",
    )

    def __init__(self, client: ClientSide) -> None:
        self._client = client
        self._transport: asyncio.Transport
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._high_bytes = AHEAD_BYTES
        self._is_held = self._is_paused = False
        self._is_closing = False
        """True once nothing more is read or accepted for writing; waiting data is still sent."""
        self._is_over = False
        """True once nothing is sent either. asyncio's closing transport allows no call but `abort`."""

    # ------------------------------------------------------------------------------------------- to the loop: protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's do not derive from asyncio's classes
        self._transport.set_write_buffer_limits(high=AHEAD_BYTES)
        self._client.connection_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._client.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if not self._is_closing:
            self._client.buffer_updated(nbytes)

    def eof_received(self) -> bool:
        self._read_rest()
        self._end()  # a client that ended its TLS session reads no replies: the loop closes now
        return self._client.eof_received()

    def pause_writing(self) -> None:
        self._is_held = True

    def resume_writing(self) -> None:
        self._is_held = False
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self._read_rest()
        self._end()
        self._client.connection_lost(exc)

    def _read_rest(self) -> None:
        """Pass on bytes that were received and not read yet. When a client closes its socket while reading is paused,
        uvloop drops them, and asyncio drops those beyond one buffer: records of `acks=0`, which no client would resend.
        """
        tls = self._transport.get_extra_info("ssl_object")
        if self._is_closing or tls is None:
            return
        with contextlib.suppress(ssl.SSLError):
            while count := tls.read(len(room := self._client.get_buffer(-1)), room):
                self._client.buffer_updated(count)

    # ---------------------------------------------------------------------------------------- to the client: transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        if not self._waiting and not self._is_held and len(data) <= _PIECE_BYTES:
            self._transport.write(data)
        else:
            self._waiting.append(memoryview(data))
            self._waiting_bytes += len(data)
            self._pump()
        if self._is_held and not self._is_paused and self.get_write_buffer_size() > self._high_bytes:
            self._is_paused = True
            self._client.pause_writing()

    def _pump(self) -> None:
        while self._waiting and not self._is_held:  # handling a piece may end the connection
            first = self._waiting[0]
            piece, rest = first[:_PIECE_BYTES], first[_PIECE_BYTES:]
            if rest:
                self._waiting[0] = rest
            else:
                self._waiting.popleft()
            self._waiting_bytes -= len(piece)
            self._transport.write(piece)
        if self._waiting or self._is_held or self._is_over:
            return
        if self._is_closing:
            self._close()
        elif self._is_paused:
            self._is_paused = False
            self._client.resume_writing()

    def _close(self) -> None:
        self._is_over = True
        self._transport.close()

    def _end(self) -> None:
        self._is_closing = self._is_over = True
        self._waiting.clear()
        self._waiting_bytes = 0

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes + (0 if self._is_over else self._transport.get_write_buffer_size())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = AHEAD_BYTES if high is None else high

    def pause_reading(self) -> None:
        if not self._is_closing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_closing:
            self._transport.resume_reading()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Close once the socket has taken everything written."""
        if self._is_closing:
            return
        self._is_closing = True
        if not self._waiting:
            self._close()

    def abort(self) -> None:
        self._end()
        self._transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)
