"""Connections as sockets of one selector: opened, served and closed in the calling thread."""

import contextlib
import os
import selectors
import socket
import ssl
import time
from abc import abstractmethod
from collections.abc import Callable

from membership.events import MemberEffect, NodeAddress
from muster.net.bootstrap import Bootstrap
from muster.net.connection import ConnectionState
from muster.net.cores import ConnectionKey, Driven
from muster.net.driver import CONNECT_MS, Driver
from muster.net.exchange import Exchange
from muster.net.fork_guard import ClientCondition
from muster.net.tunnel import Tunnel
from protocol.errors import ProtocolViolation

_READ_BYTES = 1024 * 1024


class SocketConnection(ConnectionState):
    """A connection of a selector, open or being opened."""

    def __init__(
        self, way: ConnectionKey, exchange: Exchange, tunnel: Tunnel | None, connecting: socket.socket
    ) -> None:
        super().__init__(way, exchange, tunnel)
        self.socket = connecting

    def take(self, data: bytes) -> bytes:
        try:
            return super().take(data)
        except ssl.SSLError:
            self._send_last()  # sends the server the reason
            raise

    def close(self) -> None:
        """Close the connection; the server gets a close_notify if the socket has space for it."""
        self.say_goodbye()
        self._send_last()
        self.socket.close()

    def linger(self, deadline: float) -> None:
        """Shut down sending, and wait until the server closes its side, until `deadline` by `time.monotonic`: closing a
        socket with unread bytes resets the connection, and sent bytes may be lost (RFC 1122, 4.2.2.13).
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


class SocketDriver(Driver[SocketConnection]):
    """Runs cores over sockets; `changed` guards all of their state."""

    changed: ClientCondition

    def __init__(self, bootstrap: Bootstrap, client_id: str, connect_timeout_ms: int = CONNECT_MS) -> None:
        super().__init__(bootstrap, client_id, connect_timeout_ms)
        self._attempts: dict[NodeAddress, int] = {}
        """Failed attempts to connect since the last success, since a name may have several addresses."""
        self._has_other_addresses: set[NodeAddress] = set()
        """Names whose next address is tried at once, without a pause."""
        self._selector: selectors.BaseSelector | None = None

    def time(self) -> float:
        return time.monotonic()

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    @property
    def trouble(self) -> str:
        with self.changed.lock:
            return super().trouble

    def carry_out(self, driven: Driven, action: Callable[[int], list[MemberEffect]]) -> None:
        with self.changed.lock:
            self.refusals.raise_failure()
            self._start()
            self._carry_out(driven, action(self.now_ms()))
            self._wake()

    @abstractmethod
    def stop(self) -> None:
        """Close the connections."""

    @abstractmethod
    def _start(self) -> None:
        """Prepare for a core's effects."""

    def _wake(self) -> None:
        """Wake the thread that waits for the sockets."""

    # -- opening and closing

    @property
    def _sockets(self) -> selectors.BaseSelector:
        if self._selector is None:
            self._selector = selectors.DefaultSelector()
        return self._selector

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
        exchange = self._exchange(address)
        connecting = socket.socket(family, kind, protocol)
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with contextlib.suppress(BlockingIOError):
                connecting.connect(where)
        except OSError:
            connecting.close()
            raise
        connection = SocketConnection(way, exchange, tunnel, connecting)
        connection.give(b"")
        self._sockets.register(connecting, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
        return connection

    def is_last_address(self, address: NodeAddress) -> bool:
        return address not in self._has_other_addresses

    def _send_out(self, connection: SocketConnection) -> None:
        """Send as soon as the socket has space."""
        is_waiting = bool(connection.out) or not connection.is_open
        wants = selectors.EVENT_READ | (selectors.EVENT_WRITE if is_waiting else 0)
        try:
            self._sockets.modify(connection.socket, wants, connection)
        except KeyError:  # a Ctrl-C in between has removed it from the selector: the connection is opened again
            self._close(connection)

    def _end(self, connection: SocketConnection) -> None:
        with contextlib.suppress(KeyError, ValueError):  # ValueError: the socket is closed already
            self._sockets.unregister(connection.socket)
        connection.close()

    # -- moving bytes

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

    def _until_due_s(self) -> float | None:
        """Return the time until something is due; None if nothing is."""
        due_ms = self._next_due_ms
        return None if due_ms is None else max(0.0, (due_ms - self.now_ms()) / 1000)
