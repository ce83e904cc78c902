"""EDGE: limits on HTTP connections: their number, and their time without a request.

aiohttp has neither limit. HTTP connections are counted apart from clients' connections, so neither displaces the other.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, cast

import msgspec
from aiohttp import web

HEAD_S: Final = 10.0
"""Time limit for the head of a request."""
KEEPALIVE_S: Final = 75.0
"""Time that an idle connection is kept for its next request."""
_LOOK_EVERY_S: Final = 1.0
_BUSY: Final = (
    b'{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"all HTTP connections are in use",'
    b'"error_code":503,"message":"all HTTP connections are in use"}\n'
)
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json; charset=utf-8\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(_BUSY)
) + _BUSY

Count = Callable[[str], None]

_LOST: Final = web.RequestKey("LOST", asyncio.Future[None])
"""Done when the connection of the request is lost."""


@contextmanager
def cancelled_once_lost(request: web.Request) -> Iterator[None]:
    """Cancel the task that serves the request when its client disconnects."""
    lost, task = request.get(_LOST), asyncio.current_task()
    if lost is None or task is None:
        yield
        return

    def cancel(_lost: asyncio.Future[None]) -> None:
        task.cancel()

    lost.add_done_callback(cancel)
    try:
        yield
    finally:
        lost.remove_done_callback(cancel)


class HttpLimits(msgspec.Struct, frozen=True):
    """Limits: number of connections, seconds for a request's head, seconds between requests."""

    max_connections: int = 256
    head_s: float = HEAD_S
    keepalive_s: float = KEEPALIVE_S
    look_every_s: float = _LOOK_EVERY_S


class _Connection(asyncio.Protocol):
    """Stands between the loop and aiohttp's protocol for one connection."""

    __slots__ = ("_all", "inner", "is_admitted", "limit_s", "lost", "since_s", "transport", "unsent_bytes")

    def __init__(self, every: "HttpConnections", inner: web.RequestHandler) -> None:
        self._all = every
        self.inner = inner
        self.transport: asyncio.Transport
        self.is_admitted = False
        self.since_s = 0.0
        self.limit_s = 0.0
        self.unsent_bytes = 0
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's classes, but have the methods of a Transport.
        self.transport = cast(asyncio.Transport, transport)
        self.is_admitted = self._all.admit(self)
        if self.is_admitted:
            self.inner.connection_made(transport)
        else:
            self.transport.write(_FULL)
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self.is_admitted:
            self._all.on_data(self)
            self.inner.data_received(data)

    def eof_received(self) -> None:
        if self.is_admitted:
            self.inner.eof_received()

    def pause_writing(self) -> None:
        if self.is_admitted:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        if self.is_admitted:
            self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_admitted:
            self._all.forget(self)
            self.inner.connection_lost(exc)
        self.lost.set_result(None)


class HttpConnections:
    """Makes the protocols of a listener from those of `server`, and closes connections that exceed the limits."""

    def __init__(self, server: web.Server, limits: HttpLimits, gauges: dict[str, int], count: Count) -> None:
        self._server = server
        self._limits = limits
        self._gauges = gauges
        self._count = count
        self._open: dict[object, _Connection] = {}
        """Open connections, by aiohttp's protocol object."""
        self._waiting: dict[_Connection, None] = {}
        """Open connections without a whole request, the longest waiting first."""
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(limits.look_every_s, self._look)
        handle = server.request_handler

        async def serve(request: web.BaseRequest) -> web.StreamResponse:
            one = self._open.get(request.protocol)
            if one is not None:
                request[_LOST] = one.lost
            with self._serving(request.protocol):
                return await handle(request)

        server.request_handler = serve
        self._show()

    def __call__(self) -> _Connection:
        return _Connection(self, self._server())

    def stop(self) -> None:
        self._timer.cancel()

    def admit(self, one: _Connection) -> bool:
        """Count the connection. At the limit, close the one that has waited longest for a request; if none waits,
        `one`."""
        if len(self._open) >= self._limits.max_connections:
            oldest = next(iter(self._waiting), None)
            self._count("http_connections_over_limit")
            if oldest is None:
                return False
            self._close(oldest)
        self._open[one.inner] = one
        self._wait(one, self._limits.head_s)
        self._show()
        return True

    def on_data(self, one: _Connection) -> None:
        """Start the time limit of a request's head if the received bytes begin a request."""
        if one in self._waiting and one.limit_s != self._limits.head_s:
            self._wait(one, self._limits.head_s)

    def forget(self, one: _Connection) -> None:
        self._open.pop(one.inner, None)
        self._waiting.pop(one, None)
        self._show()

    @contextmanager
    def _serving(self, protocol: object) -> Iterator[None]:
        one = self._open.get(protocol)
        if one is not None:
            self._waiting.pop(one, None)
        try:
            yield
        finally:
            if one is not None and protocol in self._open:
                self._wait(one, self._limits.keepalive_s)

    def _wait(self, one: _Connection, limit_s: float) -> None:
        self._waiting.pop(one, None)
        self._waiting[one] = None
        one.since_s, one.limit_s = self._loop.time(), limit_s

    def _look(self) -> None:
        now_s = self._loop.time()
        for one in list(self._waiting):
            unsent_bytes = one.transport.get_write_buffer_size()
            if unsent_bytes != one.unsent_bytes:  # a client that reads a long answer slowly is not idle
                one.unsent_bytes, one.since_s = unsent_bytes, now_s
            elif now_s - one.since_s >= one.limit_s:
                self._close(one)
        self._timer = self._loop.call_later(self._limits.look_every_s, self._look)

    def _close(self, one: _Connection) -> None:
        self.forget(one)
        one.transport.abort()

    def _show(self) -> None:
        self._gauges["http_connections"] = len(self._open)
