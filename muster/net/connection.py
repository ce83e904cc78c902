"""One connection of a client's driver, without its socket: session, TLS, and the send buffer."""

from muster.net.cores import ConnectionKey
from muster.net.exchange import Exchange
from muster.net.tunnel import Tunnel


class ConnectionState:
    """A connection from before it is made until it is closed. Drivers add what moves the bytes."""

    def __init__(self, way: ConnectionKey, exchange: Exchange, tunnel: Tunnel | None) -> None:
        self.way = way
        self.exchange = exchange
        self.tunnel = tunnel
        self.out = bytearray()
        """Bytes that the socket has not taken yet."""
        self.is_open = False
        """True once the socket is connected."""
        self.up_by_ms: int | None = None
        """The time by which it must be up; None once it is."""

    @property
    def is_up(self) -> bool:
        """True if it is connected, and TLS is agreed on."""
        return self.is_open and (self.tunnel is None or self.tunnel.is_up)

    @property
    def unsent(self) -> int:
        """Return an upper bound of the given bytes that have not left: TLS makes them more, and never less."""
        return len(self.out) + (self.tunnel.unsent if self.tunnel else 0)

    @property
    def closed(self) -> str:
        """Return what it means that the server has closed it, as a sentence."""
        tunnel = self.tunnel
        return self.exchange.closed(is_tls=tunnel is not None, is_up=tunnel is not None and tunnel.is_up)

    def give(self, data: bytes) -> None:
        """Have it sent."""
        if self.tunnel is not None:
            self.tunnel.send(data)
            data = self.tunnel.take_data()
        self.out += data

    def take(self, data: bytes) -> bytes:
        """Return what the server said by these bytes; what TLS answers is given. Raises ssl.SSLError."""
        if self.tunnel is None:
            return data
        try:
            return self.tunnel.receive(data)
        finally:
            self.out += self.tunnel.take_data()

    def check_over(self) -> None:
        """Raises ssl.SSLError or ConnectionResetError once TLS has ended."""
        if self.tunnel is not None and self.tunnel.is_over:
            raise self.tunnel.failure or ConnectionResetError(self.closed)

    def say_goodbye(self) -> None:
        """Have TLS say that nothing more comes."""
        if self.tunnel is not None:
            self.tunnel.close()
            self.out += self.tunnel.take_data()
