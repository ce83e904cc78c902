"""EDGE: a client's socket in front of a broker, and its twin: the connection to the broker itself, opened when the
first byte is to go there. Whoever is slow on one side is not read from on the other."""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from coordinator.gateway.events import Forwarded, Spliced, UpstreamLost
from coordinator.gateway.io.splice import Passing, Pipes, begin, can_pass
from coordinator.gateway.io.tls import Unreachable, dial
from coordinator.io.server import ClientProtocol, Server

UNSENT_BYTES = 512 * 1024
"""Written and not taken, on either side, beyond which the other side is not read."""
_FIRST_BYTES = 64 * 1024
"""Read of what may be the beginning of a long answer: the rest had better not be read at all."""
_DIAL_S, _LAST_BYTES_S = 10.0, 10.0


class Cluster(Protocol):
    """The brokers behind the proxied connections."""

    pipes: Pipes

    def any_broker(self) -> int | None:
        """Return a broker that can be reached, or one that is known."""

    def address_of(self, broker: int) -> tuple[str, int]:
        """Return the broker's real address; port 0 if it has left the cluster."""

    def tls(self) -> ssl.SSLContext | None:
        """Return the context of a connection to a broker; None for plaintext."""


class ProxyProtocol(ClientProtocol):
    """A client. `broker` is whose listener it came by; None: of any."""

    __slots__ = ("_cluster", "_broker", "twin")

    def __init__(self, server: Server, cluster: Cluster, broker: int | None) -> None:
        super().__init__(server, "kafka")
        self._cluster = cluster
        self._broker = broker
        self.twin: ProxiedConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes; they do what a Transport promises.
        transport = self.transport = cast(asyncio.Transport, transport)
        broker = self._cluster.any_broker() if self._broker is None else self._broker
        if broker is None:
            why = "no broker of the cluster was reached yet, or none has a listener here"
            self._server.complaints.tell("a client is sent away", why, level="warning")
            transport.abort()
            return
        self._broker = broker
        transport.set_write_buffer_limits(high=UNSENT_BYTES)
        self.number = self._server.opened(self, "kafka", transport.get_extra_info("peername"), broker)

    def forward(self, data: bytes) -> None:
        """To the broker."""
        if self.twin is None:
            assert self._broker is not None
            self.twin = ProxiedConnection(
                self._server, self, self._cluster.address_of(self._broker), self._cluster.tls()
            )
        self.twin.send(data)

    def let_pass(self, size: int) -> None:
        """What the broker sends next, past this process, if there is a way."""
        if self.twin is not None and self.transport is not None:
            self.twin.let_pass(size, self.transport, self._cluster.pipes)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.twin is not None:
            self.twin.hear_or_not()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.twin is not None:
            self.twin.hear_or_not()

    def hear_or_not(self) -> None:
        if self.transport is not None and self.twin is not None and self.twin.is_full:
            self.transport.pause_reading()
        else:
            super().hear_or_not()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.twin is not None:
            self.twin.finish()
        super().connection_lost(exc)


class ProxiedConnection(asyncio.BufferedProtocol):
    """The connection to the broker."""

    __slots__ = (
        "_buffer",
        "_client",
        "_is_over",
        "_is_writing_held",
        "_passing",
        "_pending",
        "_pending_bytes",
        "_server",
        "_task",
        "transport",
    )

    def __init__(
        self, server: Server, client: ProxyProtocol, address: tuple[str, int], tls: ssl.SSLContext | None
    ) -> None:
        self._server = server
        self._client = client
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._is_writing_held = False
        self._is_over = False
        self._passing: Passing | None = None
        self._buffer = server.receive_buffer
        self.transport: asyncio.Transport | None = None
        self._task = asyncio.ensure_future(self._dial(*address, tls))

    async def _dial(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        connect = partial(asyncio.get_running_loop().create_connection, lambda: self)
        try:
            await dial(connect, host, port, tls, _DIAL_S)
        except Unreachable as failed:
            self._lost(str(failed))

    @property
    def is_full(self) -> bool:
        """Whether the broker takes less than the client sends."""
        return self._is_writing_held or self._pending_bytes > UNSENT_BYTES

    def send(self, data: bytes) -> None:
        """Now, or when there is a connection."""
        if self.transport is not None:
            self.transport.write(data)
            return
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self.is_full:
            self._client.hear_or_not()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = self.transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=UNSENT_BYTES)
        if self._client.transport is not None and can_pass(transport, self._client.transport):
            self._buffer = self._buffer[:_FIRST_BYTES]
        transport.writelines(self._pending)
        self._pending, self._pending_bytes = [], 0
        if self._is_over:
            self._close_when_sent()
        else:
            self._client.hear_or_not()
            self.hear_or_not()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self._is_over:
            self._server.happen(Forwarded(self._client.number, bytes(self._buffer[:nbytes])))

    def let_pass(self, size: int, target: asyncio.Transport, pipes: Pipes) -> None:
        """The next bytes, if there is a way now. It begins when the client has taken all it was given before."""
        if self.transport is None or self._is_over or not can_pass(self.transport, target):
            return
        self._passing = begin(pipes, self.transport, target, size, self._passed)
        if self._passing is not None:
            self.transport.pause_reading()
            target.set_write_buffer_limits(high=0)  # so we are told when it holds nothing any more
            if not self._client.reads_slowly:
                asyncio.get_running_loop().call_soon(self._passing.run)

    def _passed(self, count: int, is_over: bool) -> None:
        if is_over:
            self._pass_over()
        if count:  # else nothing has come of it
            self._server.happen(Spliced(self._client.number, count))
            self._client.moved_ms = self._server.moment.monotonic_ms

    def _pass_over(self) -> None:
        passing, self._passing = self._passing, None
        if passing is None:
            return
        passing.end()
        target = self._client.transport
        if target is None or target.is_closing():
            return
        if passing.is_torn:
            target.abort()
        else:
            target.set_write_buffer_limits(high=UNSENT_BYTES)
            self.hear_or_not()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_writing_held = True
        self._client.hear_or_not()

    def resume_writing(self) -> None:
        self._is_writing_held = False
        self._client.hear_or_not()

    def hear_or_not(self) -> None:
        """Read from the broker while the client takes what it is sent."""
        if self.transport is None or self._is_over:
            return
        if self._passing is not None:
            if not self._client.reads_slowly:
                self._passing.run()
        elif self._client.reads_slowly:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def give_up(self, reason: str) -> None:
        """The broker is silent; or the client, who takes nothing, has kept us from hearing it."""
        if self._client.reads_slowly or (self._passing is not None and self._passing.is_held_up):
            return
        if self.transport is not None:
            self.transport.abort()
        self._lost(reason)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._lost(str(exc) if exc else "the broker closed it")

    def _lost(self, reason: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._pass_over()
        # The client sends again what is said to be lost: from here it must not come as well.
        self._pending, self._pending_bytes = [], 0
        self._task.cancel()
        self._client.twin = None
        self._client.hear_or_not()
        self._server.happen(UpstreamLost(self._client.number, reason))

    def finish(self) -> None:
        """The client is gone. What it sent last still leaves: nobody would tell it that a record was lost."""
        if not self._is_over:
            self._is_over = True
            self._pass_over()
            if self.transport is not None:
                self._close_when_sent()
            elif not self._pending:
                self._task.cancel()

    def _close_when_sent(self) -> None:
        assert self.transport is not None
        later: Callable[[], None] = self.transport.abort
        self.transport.resume_reading()  # or the end of the broker's side is never seen
        self.transport.close()
        asyncio.get_running_loop().call_later(_LAST_BYTES_S, later)
