"""One connection of a client's driver, without its socket: session, TLS, and the send buffer."""

from muster.net.cores import ConnectionKey
from muster.net.exchange import Exchange
from muster.net.tunnel import Tunnel


class ConnectionState:
    """State of a connection, from before it is opened until it is closed. Drivers add the socket."""

    def __init__(self, way: ConnectionKey, exchange: Exchange, tunnel: Tunnel | None) -> None:
        self.way = way
        self.exchange = exchange
        self.tunnel = tunnel
        self.out = bytearray()
        """Send buffer: bytes that the socket has not taken yet."""
        self.is_open = False
        """True once the socket is connected."""
        self.up_by_ms: int | None = None
        """Time by which it must be up; None once it is."""

    @property
    def is_up(self) -> bool:
        """True if it is connected, and the TLS handshake is done."""
        return self.is_open and (self.tunnel is None or self.tunnel.is_up)

    @property
    def unsent(self) -> int:
        """Return an upper bound for the number of given bytes that are not sent: TLS only adds bytes."""
        return len(self.out) + (self.tunnel.unsent if self.tunnel else 0)

    @property
    def closed(self) -> str:
        """Return an error message for a connection that the server has closed."""
        tunnel = self.tunnel
        return self.exchange.closed(is_tls=tunnel is not None, is_up=tunnel is not None and tunnel.is_up)

    def give(self, data: bytes) -> None:
        """Add bytes to send."""
        if self.tunnel is not None:
            self.tunnel.send(data)
            data = self.tunnel.take_data()
        self.out += data

    def take(self, data: bytes) -> bytes:
        """Return the plaintext of received bytes; TLS's own replies are added to the send buffer. Raises
        ssl.SSLError."""
        if self.tunnel is None:
            return data
        try:
            return self.tunnel.receive(data)
        finally:
            self.out += self.tunnel.take_data()

    def check_over(self) -> None:
        """Raise ssl.SSLError or ConnectionResetError if TLS has ended."""
        if self.tunnel is not None and self.tunnel.is_over:
            raise self.tunnel.failure or ConnectionResetError(self.closed)

    def say_goodbye(self) -> None:
        """Add TLS's close_notify to the send buffer."""
        if self.tunnel is not None:
            self.tunnel.close()
            self.out += self.tunnel.take_data()
