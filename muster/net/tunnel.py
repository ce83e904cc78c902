"""TLS without I/O, for a connection whose owner reads and writes the bytes."""

import contextlib
import ssl

_READ_BYTES = 256 * 1024


class Tunnel:
    """Encrypts bytes to send and decrypts received bytes. No received plaintext is kept in here, so that waiting for
    the socket misses nothing.
    """

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        """Raises ValueError for an invalid host name."""
        self._received = ssl.MemoryBIO()
        self._to_send = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_hostname=host)
        self._early = bytearray()
        """Plaintext to send once the handshake is done."""
        self.is_up = False
        """True once the handshake is done."""
        self.is_over = False
        """True if the server has ended TLS, or broken it."""
        self.failure: ssl.SSLError | None = None
        """The reason, if TLS was broken."""
        self._is_closed = False
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()

    @property
    def unsent(self) -> int:
        """Return the number of bytes that wait to be sent."""
        return len(self._early) + self._to_send.pending

    def send(self, data: bytes) -> None:
        """Encrypt bytes to send. Raises OSError."""
        if not data or self._is_closed:
            return
        if self.is_up:
            self._tls.write(data)
        else:
            self._early += data

    def receive(self, data: bytes) -> bytes:
        """Return the plaintext of received bytes, maybe empty. Always send `take_data` afterwards, even if this raises.
        Raises ssl.SSLError; plaintext before invalid bytes is returned first, with `is_over` and `failure` set, and the
        next call raises the failure.
        """
        if self.failure is not None:
            raise self.failure
        self._received.write(data)
        heard: list[bytes] = []
        try:
            if not self.is_up:
                self._tls.do_handshake()
                self.is_up = True
                if self._early:
                    self._tls.write(self._early)
                    self._early.clear()
            while True:
                more = self._tls.read(_READ_BYTES)
                if not more:
                    self.is_over = True
                    break
                heard.append(more)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_over = True
        except ssl.SSLError as error:
            self.is_over, self.failure = True, error
            if not heard:
                raise
        return b"".join(heard)

    def close(self) -> None:
        """Send close_notify; `take_data` must be sent once more."""
        if self.is_up and not self._is_closed:
            with contextlib.suppress(ssl.SSLError):  # the server has not sent its own close_notify yet
                self._tls.unwrap()
        self._is_closed = True

    def take_data(self) -> bytes:
        """Return the encrypted bytes to send now."""
        return self._to_send.read()
