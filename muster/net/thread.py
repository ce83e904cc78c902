"""The thread behind a client: it alone touches sockets and steps cores when time passes, so that heartbeats go on
whatever the application does.
"""

import contextlib
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable

from membership.events import MemberEffect, MemberEvent, NodeAddress
from muster.net.bootstrap import Bootstrap
from muster.net.connection import ConnectionState
from muster.net.cores import ConnectionKey, Driven
from muster.net.driver import SEND_OFF_S, Driver
from muster.net.exchange import Exchange
from muster.net.fork_guard import ClientCondition
from muster.net.tunnel import Tunnel
from protocol.errors import ProtocolViolation

_READ_BYTES = 256 * 1024
_LONGEST_S = 3_600.0
"""A selector takes no wait of months."""


class SocketConnection(ConnectionState):
    """A connection of the thread's, or one that is being made."""

    def __init__(
        self, way: ConnectionKey, exchange: Exchange, tunnel: Tunnel | None, connecting: socket.socket
    ) -> None:
        super().__init__(way, exchange, tunnel)
        self.socket = connecting
        self.is_open = False

    def take(self, data: bytes) -> bytes:
        try:
            return super().take(data)
        except ssl.SSLError:
            self._send_last()  # the server is told why
            raise

    def close(self) -> None:
        """The server hears of it if there is room for that."""
        self.say_goodbye()
        self._send_last()
        self.socket.close()

    def linger(self, deadline: float) -> None:
        """Say that nothing more comes, and wait until the server says so too, by `time.monotonic`: a connection that is
        closed with anything unread in it is cut off, and what was sent may be lost (RFC 1122, 4.2.2.13).
        """
        with contextlib.suppress(OSError):
            self.say_goodbye()
            self._send_last()
            self.socket.shutdown(socket.SHUT_WR)
            while (left_s := deadline - time.monotonic()) > 0:
                self.socket.settimeout(left_s)
                if not self.socket.recv(_READ_BYTES):
                    return

    def _send_last(self) -> None:
        if self.tunnel is not None:
            with contextlib.suppress(OSError):
                self.socket.send(self.out)
            self.out.clear()


class ThreadDriver(Driver[SocketConnection]):
    """Runs cores in a thread. Everything of theirs is guarded by `changed`."""

    def __init__(self, bootstrap: Bootstrap, client_id: str) -> None:
        self.changed = ClientCondition()
        super().__init__(bootstrap, client_id)
        self._attempts: dict[NodeAddress, int] = {}
        """To connect, in vain since the last that was not: a name may stand for several addresses."""
        self._has_other_addresses: set[NodeAddress] = set()
        """Names of which another address is tried at once, without a pause."""
        self._selector: selectors.BaseSelector | None = None
        self._waker: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    @staticmethod
    def time() -> float:
        """Seconds of a clock that goes on, whatever happens to the wall's."""
        return time.monotonic()

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    @property
    def trouble(self) -> str:
        with self.changed:
            return super().trouble

    def condition(self) -> ClientCondition:
        """Another with the same lock, for a caller that is not to be woken whenever anything happens."""
        return ClientCondition(self.changed)

    def feed(self, driven: Driven, event: MemberEvent) -> None:
        """Something happened to a core. Starts the thread if there is none. Raises ClientFailed."""
        self.carry_out(driven, lambda now_ms: driven.core.step(event, now_ms))

    def carry_out(self, driven: Driven, action: Callable[[int], list[MemberEffect]]) -> None:
        """Carry out what a core asks for when it is told the time. Raises ClientFailed."""
        with self.changed:
            self.refusals.raise_failure()
            self._start()
            self._carry_out(driven, action(self.now_ms()))
            self._wake()

    def stop(self) -> None:
        """End the thread and close its connections."""
        with self.changed:
            thread, self._is_stopping = self._thread, True
            self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5.0)

    # -- under the lock, in whichever thread

    def _start(self) -> None:
        if self._thread is not None:
            return
        self._selector = selectors.DefaultSelector()
        wakened, self._waker = socket.socketpair()
        wakened.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(wakened, selectors.EVENT_READ, None)
        # A daemon: a program that forgets to close must still be able to end.
        self._thread = threading.Thread(target=self._run, args=(self._selector, wakened), name="muster", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        if self._waker is not None:
            with contextlib.suppress(OSError):
                self._waker.send(b"\0")

    def _open(self, way: ConnectionKey) -> SocketConnection:
        address = way.address
        tunnel = self._tunnel(address)
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        attempt = self._attempts[address] = self._attempts.get(address, -1) + 1
        family, kind, protocol, _, where = found[attempt % len(found)]
        if (attempt + 1) % len(found):
            self._has_other_addresses.add(address)
        else:
            self._has_other_addresses.discard(address)
        connecting = socket.socket(family, kind, protocol)
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with contextlib.suppress(BlockingIOError):
                connecting.connect(where)
        except OSError:
            connecting.close()
            raise
        connection = SocketConnection(way, self._exchange(address), tunnel, connecting)
        connection.give(b"")
        assert self._selector is not None
        self._selector.register(connecting, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
        return connection

    def _is_last_address(self, address: NodeAddress) -> bool:
        return address not in self._has_other_addresses

    def _send_out(self, connection: SocketConnection) -> None:
        """Send as soon as the socket has room."""
        assert self._selector is not None
        is_waiting = bool(connection.out) or not connection.is_open
        wants = selectors.EVENT_READ | (selectors.EVENT_WRITE if is_waiting else 0)
        try:
            self._selector.modify(connection.socket, wants, connection)
        except KeyError:  # a Ctrl-C in the middle of this had the selector forget it: a connection is made anew
            self._close(connection)

    def _end(self, connection: SocketConnection) -> None:
        assert self._selector is not None
        with contextlib.suppress(KeyError, ValueError):  # ValueError: it is closed already
            self._selector.unregister(connection.socket)
        connection.close()

    # -- in the thread

    def _run(self, selector: selectors.BaseSelector, wakened: socket.socket) -> None:
        try:
            self._work(selector, wakened)
            self._send_off(selector, wakened)
        except Exception as error:  # noqa: BLE001  (whatever it is, the next call raises it)
            with self.changed:
                self._fail(error)
        finally:
            with self.changed:
                self._disconnect(selector, wakened)

    def _work(self, selector: selectors.BaseSelector, wakened: socket.socket) -> None:
        while True:
            with self.changed:
                if self._is_stopping:
                    return
                self._pass_time()
                timeout_s = self._timeout_s()
            ready = selector.select(timeout_s)
            with self.changed:
                for key, events in ready:
                    if key.data is not None:
                        self._serve(key.data, events)
                        continue
                    with contextlib.suppress(BlockingIOError):
                        wakened.recv(4096)

    def _timeout_s(self) -> float | None:
        due_ms = self._next_due_ms
        return None if due_ms is None else min(max(0.0, (due_ms - self.now_ms()) / 1000), _LONGEST_S)

    def _serve(self, connection: SocketConnection, events: int) -> None:
        if not self._is_current(connection):
            return
        try:
            if not connection.is_open:
                error = connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise OSError(error, os.strerror(error))
                connection.is_open = True
                self._attempts.pop(connection.way.address, None)
            if events & selectors.EVENT_WRITE and connection.out:
                del connection.out[: connection.socket.send(connection.out)]
                self._send_out(connection)
                self._note_departed(connection, connection.unsent)
            if events & selectors.EVENT_READ:
                self._receive(connection)
        except BlockingIOError:
            return
        except (OSError, ProtocolViolation) as error:
            self._lose(connection, error)

    def _receive(self, connection: SocketConnection) -> None:
        data = connection.socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError(connection.closed)
        self._take_in(connection, data)

    def _send_off(self, selector: selectors.BaseSelector, wakened: socket.socket) -> None:
        """Send requests that are never answered, if that takes no longer than a moment."""
        selector.unregister(wakened)
        deadline = time.monotonic() + SEND_OFF_S
        while time.monotonic() < deadline:
            with self.changed:
                if not self._owes:
                    return
            for key, events in selector.select(0.05):
                with self.changed:
                    self._serve(key.data, events)

    def _disconnect(self, selector: selectors.BaseSelector, wakened: socket.socket) -> None:
        for connection in tuple(self._connections.values()):
            if connection.exchange.has_told:
                connection.linger(time.monotonic() + SEND_OFF_S)
            self._close(connection)
        selector.close()
        wakened.close()
        if self._waker is not None:
            self._waker.close()
            self._waker = None
        self.changed.notify_all()
