"""EDGE: a proxied connection's two sockets: the client's, and the one to its broker, which opens with the first bytes
for the broker. Backpressure: a side that is read slowly stops reading from the other."""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from coordinator.gateway.events import Forwarded, Spliced, UpstreamLost
from coordinator.gateway.io.splice import PipePool, SpliceTransfer, can_splice, start_splice
from coordinator.gateway.io.tls import Unreachable, dial
from coordinator.io.server import ClientProtocol, Server

SEND_BACKLOG_BYTES = 512 * 1024
"""Bytes written to one side and not taken, beyond which the other side is not read."""
_FIRST_READ_BYTES = 64 * 1024
"""Bytes read at a time if the connection can be spliced: the rest of a long reply can then bypass this process."""
_CONNECT_TIMEOUT_S, _DRAIN_TIMEOUT_S = 10.0, 10.0


class BrokerDirectory(Protocol):
    """The brokers behind the proxied connections."""

    pipes: PipePool

    def any_broker(self) -> int | None:
        """Return a broker that can be reached, or one that is known."""

    def address_of(self, broker: int) -> tuple[str, int]:
        """Return the broker's real address; port 0 if it has left the cluster."""

    def tls(self) -> ssl.SSLContext | None:
        """Return the context of a connection to a broker; None for plaintext."""


class ProxiedClientProtocol(ClientProtocol):
    """The client's side. `broker` is the one whose listener the client connected to; None: any broker."""

    __slots__ = ("_broker", "_directory", "upstream")

    def __init__(self, server: Server, directory: BrokerDirectory, broker: int | None, dialect: str = "kafka") -> None:
        super().__init__(server, dialect)
        self._directory = directory
        self._broker = broker
        self.upstream: UpstreamProtocol | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio.Transport but have its methods.
        transport = self.transport = cast(asyncio.Transport, transport)
        broker = self._directory.any_broker() if self._broker is None else self._broker
        if broker is None:
            why = "no broker of the cluster was reached yet, or none has a listener here"
            self._server.limited_log.write("a client is sent away", why, level="warning")
            transport.abort()
            return
        self._broker = broker
        transport.set_write_buffer_limits(high=SEND_BACKLOG_BYTES)
        self.number = self._server.opened(self, "kafka", transport.get_extra_info("peername"), broker)

    def forward(self, data: bytes) -> None:
        """Send bytes to the broker."""
        if self.upstream is None:
            assert self._broker is not None
            self.upstream = UpstreamProtocol(
                self._server, self, self._directory.address_of(self._broker), self._directory.tls()
            )
        self.upstream.send(data)

    def splice_next(self, size: int) -> None:
        """Splice the broker's next `size` bytes to the client, if that is possible."""
        if self.upstream is not None and self.transport is not None:
            self.upstream.splice_next(size, self.transport, self._directory.pipes)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.upstream is not None:
            self.upstream.update_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.upstream is not None:
            self.upstream.update_reading()

    def update_reading(self) -> None:
        if self.transport is not None and self.upstream is not None and self.upstream.is_send_backlog_full:
            self.transport.pause_reading()
        else:
            super().update_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.upstream is not None:
            self.upstream.finish()
        super().connection_lost(exc)


class RelayedClientProtocol(ProxiedClientProtocol):
    """The side of a native client, or of an HTTP login, that logs in at a broker: any one that can be reached at that
    time."""

    __slots__ = ()

    def __init__(self, server: Server, directory: BrokerDirectory, dialect: str = "native") -> None:
        super().__init__(server, directory, None, dialect)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        ClientProtocol.connection_made(self, transport)

    def forward(self, data: bytes) -> None:
        """Send bytes to the broker, or to any."""
        if self._broker is None:
            self._broker = self._directory.any_broker()
        if self._broker is not None:
            super().forward(data)
        elif self.transport is not None:
            self.transport.abort()


class UpstreamProtocol(asyncio.BufferedProtocol):
    """The broker's side."""

    __slots__ = (
        "_buffer",
        "_client",
        "_is_closed",
        "_is_write_paused",
        "_pending",
        "_pending_bytes",
        "_server",
        "_task",
        "_transfer",
        "transport",
    )

    def __init__(
        self, server: Server, client: ProxiedClientProtocol, address: tuple[str, int], tls: ssl.SSLContext | None
    ) -> None:
        self._server = server
        self._client = client
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._is_write_paused = False
        self._is_closed = False
        self._transfer: SpliceTransfer | None = None
        self._buffer = server.receive_buffer
        self.transport: asyncio.Transport | None = None
        self._task = asyncio.ensure_future(self._connect(*address, tls))

    async def _connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        connect = partial(asyncio.get_running_loop().create_connection, lambda: self)
        try:
            await dial(connect, host, port, tls, _CONNECT_TIMEOUT_S)
        except Unreachable as failed:
            self._lost(str(failed))

    @property
    def is_send_backlog_full(self) -> bool:
        """Return whether the broker reads more slowly than the client sends."""
        return self._is_write_paused or self._pending_bytes > SEND_BACKLOG_BYTES

    def send(self, data: bytes) -> None:
        """Send bytes, or keep them until the connection is open."""
        if self.transport is not None:
            self.transport.write(data)
            return
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self.is_send_backlog_full:
            self._client.update_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = self.transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=SEND_BACKLOG_BYTES)
        if self._client.transport is not None and can_splice(transport, self._client.transport):
            self._buffer = self._buffer[:_FIRST_READ_BYTES]
        transport.writelines(self._pending)
        self._pending, self._pending_bytes = [], 0
        if self._is_closed:
            self._close_after_flush()
        else:
            self._client.update_reading()
            self.update_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self._is_closed:
            self._server.happen(Forwarded(self._client.number, bytes(self._buffer[:nbytes])))

    def splice_next(self, size: int, target: asyncio.Transport, pipes: PipePool) -> None:
        """Splice the next `size` bytes, if possible now. The transfer starts once the client's write buffer is
        empty."""
        if self.transport is None or self._is_closed or not can_splice(self.transport, target):
            return
        self._transfer = start_splice(pipes, self.transport, target, size, self._on_progress)
        if self._transfer is not None:
            self.transport.pause_reading()
            target.set_write_buffer_limits(high=0)  # resume_writing then means that the buffer is empty
            if not self._client.reads_slowly:
                asyncio.get_running_loop().call_soon(self._transfer.run)

    def _on_progress(self, count: int, is_over: bool) -> None:
        if is_over:
            self._end_transfer()
        if count:  # 0: the transfer ended before its first byte
            self._server.happen(Spliced(self._client.number, count))
            self._client.moved_ms = self._server.moment.monotonic_ms

    def _end_transfer(self) -> None:
        transfer, self._transfer = self._transfer, None
        if transfer is None:
            return
        transfer.end()
        target = self._client.transport
        if target is None or target.is_closing():
            return
        if transfer.has_stranded_bytes:
            target.abort()
        else:
            target.set_write_buffer_limits(high=SEND_BACKLOG_BYTES)
            self.update_reading()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._client.update_reading()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._client.update_reading()

    def update_reading(self) -> None:
        """Read from the broker unless the client reads slowly."""
        if self.transport is None or self._is_closed:
            return
        if self._transfer is not None:
            if not self._client.reads_slowly:
                self._transfer.run()
        elif self._client.reads_slowly:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def abandon(self, reason: str) -> None:
        """Close the connection to a broker that is silent, unless the client reads nothing: then the broker's bytes
        were not read."""
        if self._client.reads_slowly or (self._transfer is not None and self._transfer.waits_for_target):
            return
        if self.transport is not None:
            self.transport.abort()
        self._lost(reason)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._lost(str(exc) if exc else "the broker closed it")

    def _lost(self, reason: str) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._end_transfer()
        # The client repeats requests that it learns are lost, so the pending copies must not be sent as well.
        self._pending, self._pending_bytes = [], 0
        self._task.cancel()
        self._client.upstream = None
        self._client.update_reading()
        self._server.happen(UpstreamLost(self._client.number, reason))

    def finish(self) -> None:
        """Close after the client has left. Its last bytes are still delivered, since their loss would go unnoticed."""
        if not self._is_closed:
            self._is_closed = True
            self._end_transfer()
            if self.transport is not None:
                self._close_after_flush()
            elif not self._pending:
                self._task.cancel()

    def _close_after_flush(self) -> None:
        assert self.transport is not None
        abort: Callable[[], None] = self.transport.abort
        self.transport.resume_reading()  # a paused transport never sees the broker's end of file
        self.transport.close()
        asyncio.get_running_loop().call_later(_DRAIN_TIMEOUT_S, abort)
