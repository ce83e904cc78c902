"""The driver of a client's cores in an event loop: connections are asyncio's transports, deadlines its timers. There is
no thread and no permanent task: heartbeats are sent while the application awaits.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from membership.events import MemberEffect
from muster.errors import MusterError
from muster.net.bootstrap import Bootstrap
from muster.net.connection import ConnectionState
from muster.net.cores import ConnectionKey, Driven
from muster.net.driver import SEND_OFF_S, Driver
from muster.net.exchange import Exchange
from muster.net.notification import Changed
from muster.net.tunnel import Tunnel
from protocol.errors import ProtocolViolation


class LoopDriver(Driver["LoopConnection"]):
    """Runs cores in the event loop of the first use."""

    def __init__(self, bootstrap: Bootstrap, client_id: str) -> None:
        self.changed = Changed()
        super().__init__(bootstrap, client_id)
        self._ending: set[LoopConnection] = set()
        """Closed connections whose transports are not finished yet."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop. Raises RuntimeError outside an event loop, MusterError in another one than before."""
        running = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = running
        elif self._loop is not running:
            raise MusterError("this client belongs to another event loop: make one in each")
        return running

    def time(self) -> float:
        """Seconds of the loop's clock."""
        return self.loop.time()

    def now_ms(self) -> int:
        return int(self.loop.time() * 1000)

    def carry_out(self, driven: Driven, action: Callable[[int], list[MemberEffect]]) -> None:
        """Run an action of a core, except after `stop`. Raises ClientFailed."""
        self.refusals.raise_failure()
        if not self._is_stopped:
            self._carry_out(driven, action(self.now_ms()))
            self._set_timer()

    async def stop(self) -> None:
        """Close the connections, after requests without replies are sent, for which this waits a short time."""
        if self._loop is None:
            return
        try:
            if not self._is_stopped:
                await self.changed.wait_for(lambda: not self._owes, SEND_OFF_S)
            self._stop()
            await self.changed.wait_for(lambda: not self._ending, SEND_OFF_S)
        finally:
            self._stop()
            for connection in tuple(self._ending):
                connection.abort()

    def _stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in tuple(self._connections.values()):
            self._close(connection)
        self._due.clear()
        self._held.clear()

    def _open(self, way: ConnectionKey) -> "LoopConnection":
        connection = LoopConnection(self, way, self._exchange(way.address), self._tunnel(way.address))
        connection.connect(self.loop)
        return connection

    def _send_out(self, connection: "LoopConnection") -> None:
        connection.write_out()
        self._note_departed(connection, connection.unsent)

    def _end(self, connection: "LoopConnection") -> None:
        if connection.close(lingers=self._is_stopped and connection.exchange.has_sent_unacknowledged):
            self._ending.add(connection)

    # -- time

    def _look(self) -> None:
        """Handle due deadlines."""
        if not self._is_stopped:
            self._pass_time()
            self._set_timer()

    def _woke(self) -> None:
        self._timer = None
        with self._ending_if_it_fails():
            self._look()

    def _set_timer(self) -> None:
        """Set the timer. One that fires too early finds nothing due, and is set again."""
        due_ms = self._next_due_ms
        if due_ms is None:
            return
        at_s = due_ms / 1000
        if self._timer is not None:
            if self._timer.when() <= at_s:
                return
            self._timer.cancel()
        self._timer = self.loop.call_at(at_s, self._woke)

    @contextmanager
    def _ending_if_it_fails(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  (whatever it is, the next call raises it)
            self._stop()
            self._fail(error)

    # -- called by connections

    def opened(self, connection: "LoopConnection") -> None:
        self.changed.notify_all()
        self.sent(connection)

    def sent(self, connection: "LoopConnection") -> None:
        """Note that written bytes were sent."""
        if self._is_current(connection):
            with self._ending_if_it_fails():
                self._note_departed(connection, connection.unsent)
                self._look()

    def received(self, connection: "LoopConnection", data: bytes) -> None:
        if not self._is_current(connection):
            return
        with self._ending_if_it_fails():
            try:
                self._take_in(connection, data)
            except (OSError, ProtocolViolation) as error:
                self._send_out(connection)  # sends the server the reason
                self._lose(connection, error)
            self._look()

    def lost(self, connection: "LoopConnection", error: Exception) -> None:
        if self._is_current(connection):
            with self._ending_if_it_fails():
                self._lose(connection, error)
                self._look()

    def ended(self, connection: "LoopConnection") -> None:
        self._ending.discard(connection)
        self.changed.notify_all()


class LoopConnection(ConnectionState, asyncio.Protocol):
    """A connection, from before it is opened until its transport is finished."""

    def __init__(self, driver: LoopDriver, way: ConnectionKey, exchange: Exchange, tunnel: Tunnel | None) -> None:
        super().__init__(way, exchange, tunnel)
        self._driver = driver
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def unsent(self) -> int:
        return super().unsent + (self._transport.get_write_buffer_size() if self._transport else 0)

    def connect(self, loop: asyncio.AbstractEventLoop) -> None:
        self._connecting = loop.create_task(self._connect(loop))

    def write_out(self) -> None:
        if self._transport is not None and self.out and not self._is_closed:
            self._transport.write(bytes(self.out))
            self.out.clear()

    def close(self, *, lingers: bool = False) -> bool:
        """Send written bytes, then close. Return true if `LoopDriver.ended` will be called later. If it `lingers`, that
        is when the server closes it, too: closing with unread bytes would reset the connection, and sent bytes might be
        lost (RFC 1122, 4.2.2.13).
        """
        is_first = not self._is_closed
        if self._transport is not None:
            if is_first:
                self.say_goodbye()
                self.write_out()
            self._is_closed = True
            if lingers:
                self._transport.write_eof()
            else:
                self._transport.close()
            return is_first
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        return is_first and self._connecting is not None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> None:
        address = self.way.address
        try:
            await loop.create_connection(lambda: self, address.host, address.port)
        except (OSError, ValueError) as error:  # ValueError: a node's name is invalid
            self._connecting = None
            self._driver.lost(self, _plain(error) if isinstance(error, OSError) else error)
        finally:
            self._connecting = None
            if self._transport is None:
                self._driver.ended(self)

    # -- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._is_closed:
            self._transport.abort()
            return
        self.is_open = True
        self._transport.set_write_buffer_limits(high=0)  # so that the callback comes as soon as everything is written
        self.give(b"")
        self.write_out()
        self._driver.opened(self)

    def data_received(self, data: bytes) -> None:
        if not self._is_closed:
            self._driver.received(self, data)

    def resume_writing(self) -> None:
        self._driver.sent(self)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_closed:
            self._driver.lost(self, error if isinstance(error, OSError) else ConnectionResetError(self.closed))
        self._driver.ended(self)


def _plain(error: OSError) -> OSError:
    """Return the error without the event loop's text, which repeats the address."""
    number = error.errno or 0
    return OSError(number, os.strerror(number)) if number > 0 else error
