"""A connected socket, with TLS or without, for who waits for what it asked."""

import contextlib
import socket
import ssl
import time
from typing import Self

from membership.events import NodeAddress
from muster.net.dialects.handshake_errors import closed
from muster.net.tunnel import Tunnel

_READ_BYTES = 1024 * 1024


class Pipe:
    """Times are those of `time.monotonic`."""

    def __init__(self, connected: socket.socket, tunnel: Tunnel | None) -> None:
        self._socket = connected
        self._tunnel = tunnel

    @classmethod
    def connect(cls, address: NodeAddress, context: ssl.SSLContext | None, deadline: float) -> Self:
        """Raises OSError, of which TimeoutError and ssl.SSLError are some; ValueError for what is no host."""
        tunnel = Tunnel(context, address.host) if context is not None else None
        connected = socket.create_connection((address.host, address.port), _left_s(deadline))
        pipe = cls(connected, tunnel)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tunnel is not None:
                pipe._shake_hands(tunnel, deadline)
        except BaseException:
            pipe.close()
            raise
        return pipe

    @property
    def is_tls(self) -> bool:
        return self._tunnel is not None

    def send(self, data: bytes, deadline: float) -> None:
        """Raises OSError."""
        if self._tunnel is not None:
            self._tunnel.send(data)
            data = self._tunnel.take_data()
        if data:
            self._socket.settimeout(_left_s(deadline))
            self._socket.sendall(data)

    def receive(self, deadline: float) -> bytes:
        """Return what the server says next. Raises OSError; ConnectionResetError without a word for the end."""
        tunnel = self._tunnel
        while tunnel is None or not tunnel.is_over:
            data = self._read(deadline)
            if not data:
                raise ConnectionResetError
            said = data if tunnel is None else self._take(tunnel, data)
            if said:
                return said
        raise tunnel.failure or ConnectionResetError

    @property
    def is_over(self) -> bool:
        """True if the server has closed it meanwhile, as Kafka's brokers do with connections that were idle for
        long; or has said what nobody asked for.
        """
        self._socket.settimeout(0)
        try:
            if self._tunnel is None:
                return not self._socket.recv(1, socket.MSG_PEEK)
            while data := self._socket.recv(_READ_BYTES):
                if self._tunnel.receive(data) or self._tunnel.is_over:
                    return True
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self._tunnel is not None:
                self._tunnel.close()
                self._socket.settimeout(0)
                self._socket.send(self._tunnel.take_data())
        with contextlib.suppress(OSError):
            self._socket.close()

    def _shake_hands(self, tunnel: Tunnel, deadline: float) -> None:
        self.send(b"", deadline)
        while not tunnel.is_up:
            data = self._read(deadline)
            if not data:
                raise ConnectionResetError(closed(words=0, answers=0, is_tls=True, is_up=False))
            self._take(tunnel, data)

    def _read(self, deadline: float) -> bytes:
        self._socket.settimeout(_left_s(deadline))
        return self._socket.recv(_READ_BYTES)

    def _take(self, tunnel: Tunnel, data: bytes) -> bytes:
        try:
            return tunnel.receive(data)
        finally:
            with contextlib.suppress(OSError):
                self._socket.sendall(tunnel.take_data())


def _left_s(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())
