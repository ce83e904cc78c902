"""EDGE: TLS of the listeners: contexts for handshakes, a limit on handshakes at once, and the end of failed ones."""

import asyncio
import contextlib
import ssl
import time
import weakref
from collections.abc import Callable
from typing import cast

import structlog

from coordinator.io.keepalive import keep_alive
from coordinator.io.rate_limited_log import RateLimitedLog
from coordinator.io.tls.connection import ClientSide, TlsConnection
from coordinator.io.tls.contexts import OwnCertificate, PemFile, Renewed, in_words, trust

log = structlog.get_logger()

HANDSHAKE_S = 10.0
"""Time limit of a handshake."""
MOST_HANDSHAKES = 1_000
"""Limit of concurrent handshakes: a connection counts against no other limit until its handshake is over."""
_MOST_LINGERING = 100
_BACKLOG = 1024
_SOON_S = 14 * 86_400
_NO_TLS = frozenset({"HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL"})


class Handshakes:
    """Counts handshakes under way, and logs failed ones: at most one line a second for each reason."""

    def __init__(self, most: int = MOST_HANDSHAKES) -> None:
        self.under_way = 0
        self.lingering = 0
        """Failed handshakes whose connections may still be open."""
        self.count: Callable[[], None] = lambda: None
        """Called for each handshake that fails."""
        self._most = most
        self._limited_log = RateLimitedLog()

    def begin(self) -> None:
        """Count a handshake that begins. Raises SSLError, which closes the connection, beyond the limit."""
        if self.under_way >= self._most:
            self.failed(f"{self._most} others are under way")
            raise ssl.SSLError("too many handshakes at once")
        self.under_way += 1

    def over(self) -> None:
        """Count a handshake that ended."""
        self.under_way -= 1

    def hung_up(self, deadline: asyncio.TimerHandle) -> None:
        """Count a handshake that ended because the client closed the connection."""
        deadline.cancel()
        self.over()
        self.failed("the client hung up")

    def gone(self) -> None:
        """Count a failed connection as closed."""
        self.lingering -= 1

    def failed(self, why: str) -> None:
        """Count and log a failed handshake."""
        self.count()
        self._limited_log.write("TLS handshakes failed", why)


class _Watched(ssl.SSLObject):
    """A TLS session whose handshake is counted and timed: the loop does not notify the protocol above before its
    end."""

    handshakes: Handshakes
    _loop: asyncio.AbstractEventLoop
    _deadline: asyncio.TimerHandle | None = None
    _is_over = False
    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._deadline is None and not self._is_over:
            self._begin()
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self._end(_why(error))
            if error.reason in _NO_TLS or not self._may_linger():
                raise
            # On a failure the loop would close without sending the alert with the reason, so it is reported later.
            self._failure = error
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the client is told why") from None
        self._end("")

    def _begin(self) -> None:
        try:
            self.handshakes.begin()
        except ssl.SSLError:
            self._is_over = True
            raise
        # At the deadline the loop closes the connection. If the client closes it earlier, only `__del__` is called.
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.call_later(HANDSHAKE_S, self._too_late, weakref.ref(self))

    @staticmethod
    def _too_late(watched: "weakref.ref[_Watched]") -> None:
        one = watched()
        if one is not None:
            one._end("the client did not finish it")  # noqa: SLF001  (its own)

    def __del__(self) -> None:
        """Count a client that hung up during its handshake; may run in any thread."""
        if self._deadline is not None and not self._is_over:
            self._is_over = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.handshakes.hung_up, self._deadline)

    def _end(self, why: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._deadline is not None:
            self._deadline.cancel()
        self.handshakes.over()
        if why:
            self.handshakes.failed(why)

    def _may_linger(self) -> bool:
        """Return true if the connection may stay open until the client has read the alert, or until its deadline."""
        handshakes = self.handshakes
        if handshakes.lingering >= _MOST_LINGERING:
            return False
        handshakes.lingering += 1
        asyncio.get_running_loop().call_later(HANDSHAKE_S, handshakes.gone)
        return True


def _why(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if reason in _NO_TLS:
        return "the client does not speak TLS"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "the client shows no certificate"
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return f"the client refuses our certificate: {in_words(error)}"
    return in_words(error)


class _Current(ssl.SSLContext):
    """The context that a listener keeps. Each connection uses the current renewed context, which has separate TLS
    sessions: so no client resumes a session from a time when other authorities were trusted."""

    renewed: Renewed

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return self.renewed.context().wrap_bio(incoming, outgoing, server_side=server_side)


class ListeningTls:
    """TLS of the listeners. `context` is for them; each connection uses the files' content at the time it opens."""

    def __init__(self, own: OwnCertificate, client_ca: PemFile | None, most_handshakes: int = MOST_HANDSHAKES) -> None:
        """With `client_ca` clients must show a certificate. Raises TlsRefused."""
        self._own = own
        self._client_ca = client_ca
        self.handshakes = Handshakes(most_handshakes)
        self._gauges: dict[str, int] = {}
        files = (own.chain, own.key) if client_ca is None else (own.chain, own.key, client_ca)
        self._watched = type("Watched", (_Watched,), {"handshakes": self.handshakes})
        self.context = _Current(ssl.PROTOCOL_TLS_SERVER)
        self.context.renewed = Renewed(files, self._make)

    def report_to(self, gauges: dict[str, int], count: Callable[[str], None]) -> None:
        """Publish the certificate's expiry in `gauges`, also when it is renewed, and count failed handshakes."""
        gauges.update(self._gauges)
        self._gauges = gauges
        self.handshakes.count = lambda: count("tls_handshakes_failed")

    def reread(self) -> None:
        """Use the files' present content for connections to come."""
        self.context.renewed.reread()

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.sslobject_class = self._watched
        validity = self._own.load_into(context)
        if self._client_ca is not None:
            trust(context, self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
            # A resumed session does not verify the client's certificate again, which may have expired since.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        self._gauges["tls_certificate_expiry_timestamp_seconds"] = validity.ends_s
        now_s = time.time()
        if validity.ends_s - now_s < _SOON_S:
            told = "our certificate has expired" if validity.ends_s < now_s else "our certificate expires soon"
            log.warning(told, file=self._own.chain.path, ends=_day(validity.ends_s))
        elif validity.begins_s > now_s:
            log.warning("our certificate does not hold yet", file=self._own.chain.path, begins=_day(validity.begins_s))
        return context


async def listen_at(
    client: Callable[[], ClientSide], host: str, port: int, tls: ListeningTls | None, *, starts: bool = True
) -> asyncio.Server:
    """Bind a listener, which accepts at once if it `starts`. Raises OSError."""
    loop = asyncio.get_running_loop()
    if tls is None:
        plain = cast(Callable[[], asyncio.BaseProtocol], client)
        server = await loop.create_server(plain, host, port, backlog=_BACKLOG, start_serving=False)
    else:
        server = await loop.create_server(
            lambda: TlsConnection(client()),
            host,
            port,
            backlog=_BACKLOG,
            start_serving=False,
            ssl=tls.context,
            ssl_handshake_timeout=HANDSHAKE_S,
        )
    keep_alive(server)
    if starts:
        await server.start_serving()
    return server


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
