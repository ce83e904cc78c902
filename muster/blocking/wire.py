"""One connection of the thread behind a client: its socket, what is said over it, and what is still to be sent."""

import contextlib
import socket
import ssl
import time
from dataclasses import dataclass, field

from muster.dialects.exchange import Exchange
from muster.driven import Way
from muster.tunnel import Tunnel

_READ_BYTES = 65_536


@dataclass(slots=True, eq=False)
class Wire:
    """A connection of the thread's, or one that is being made."""

    way: Way
    socket: socket.socket
    exchange: Exchange
    tunnel: Tunnel | None = None
    out: bytearray = field(default_factory=bytearray)
    is_open: bool = False

    @property
    def owes(self) -> bool:
        return self.exchange.owes

    @property
    def unsent(self) -> int:
        """At most so much of what was given has not left: TLS makes it more, and never less."""
        return len(self.out) + (self.tunnel.unsent if self.tunnel else 0)

    @property
    def closed(self) -> str:
        """What it means that the server has closed it, as a sentence."""
        tunnel = self.tunnel
        return self.exchange.closed(is_tls=tunnel is not None, is_up=tunnel is not None and tunnel.is_up)

    def give(self, data: bytes) -> None:
        """To be sent."""
        if self.tunnel is not None:
            self.tunnel.send(data)
            data = self.tunnel.take_data()
        self.out += data

    def take(self, data: bytes) -> bytes:
        """What the server said by it. Raises ssl.SSLError, once it is known there too."""
        if self.tunnel is None:
            return data
        try:
            return self.tunnel.receive(data)
        except ssl.SSLError:
            self._send_last(self.tunnel)
            raise
        finally:
            self.out += self.tunnel.take_data()

    def close(self) -> None:
        """The server hears of it if there is room for that."""
        if self.tunnel is not None:
            self.tunnel.close()
            self._send_last(self.tunnel)
        self.socket.close()

    def linger(self, deadline: float) -> None:
        """Say that we say no more, and wait until the server says so too, by `time.monotonic`: a connection that is
        closed with anything unread in it is cut off, and what was sent may be lost (RFC 1122, 4.2.2.13).
        """
        with contextlib.suppress(OSError):
            if self.tunnel is not None:
                self.tunnel.close()
                self._send_last(self.tunnel)
            self.socket.shutdown(socket.SHUT_WR)
            while (left_s := deadline - time.monotonic()) > 0:
                self.socket.settimeout(left_s)
                if not self.socket.recv(_READ_BYTES):
                    return

    def _send_last(self, tunnel: Tunnel) -> None:
        with contextlib.suppress(OSError):
            self.socket.send(self.out + tunnel.take_data())
