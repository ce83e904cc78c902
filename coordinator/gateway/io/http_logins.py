"""EDGE: logins of HTTP requests in front of a cluster with ACLs. A password or a token is sent to a broker, as a native
client's is, over a connection to the node that has no socket. The user's requests go the same way, so the broker
authorizes them. Of a login only that connection is kept."""

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from typing import Final

from coordinator.gateway.io.proxied_sockets import RelayedClientProtocol
from coordinator.io.server import Server
from coordinator.node.events import Received
from protocol.errors import ErrorCode
from protocol.kafka.login import OAUTHBEARER, LoginRefused, SaslClient
from protocol.messages import Message
from protocol.messages.node import (
    DescribeNode,
    ErrorReply,
    HttpLoginReply,
    Login,
    LoginReply,
    Measure,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshakeReply,
)
from protocol.native.client import NativeAnswer, NativeClient

_LONGEST_REPLY_BYTES: Final = 256 << 20
_TRUSTED_S: Final = 60.0
"""Time for which a password is not sent to a broker again: the validity of brokers' decisions, a minute."""
_GRACE_S: Final = 60.0
"""Time for requests to end on a connection that gets no new ones."""
_SPARE_MS: Final = 10_000
"""Time before the end of a login within which no request begins on its connection."""
_LONGEST_SESSION_MS: Final = 12 * 3_600_000
_OF_THE_NODE: Final = (DescribeNode, Measure)
"""Requests about the node, sent without a login; pages show only those of its groups that the caller's own lists
contain."""
_GONE: Final = "the connection to the broker where the user logged in is lost; try again"


class _ConnectionEnded(Exception):
    """Raised where a connection ended before its answer."""


class _NoSocket(asyncio.Transport):
    """Transport of a connection within the process."""

    def __init__(self, host: str, received: Callable[[bytes], None], closed: Callable[[], None]) -> None:
        super().__init__({"peername": (host, -1)})
        self._received = received
        self._closed: Callable[[], None] | None = closed

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._received(bytes(data))

    def close(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            asyncio.get_running_loop().call_soon(closed)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closed is None

    def pause_reading(self) -> None:
        """Do nothing: pages send few requests at a time."""

    def resume_reading(self) -> None:
        """Do nothing: nothing was paused."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: there is no buffer."""

    def get_write_buffer_size(self) -> int:
        return 0


class _Link:
    """Connection of one login. `ends_ms`: time of the loop at which the login expires; None: it does not."""

    def __init__(self, server: Server, protocol: RelayedClientProtocol, host: str) -> None:
        self.principal = ""
        self.ends_ms: float | None = None
        self._server, self._protocol = server, protocol
        self._native = NativeClient(_LONGEST_REPLY_BYTES)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._transport = _NoSocket(host, self._received, self._lost)
        protocol.connection_made(self._transport)

    @property
    def is_open(self) -> bool:
        """Return whether requests can be sent."""
        return not self._transport.is_closing()

    @property
    def number(self) -> int:
        """Number of the connection at the node."""
        return self._protocol.number

    async def ask(self, message: Message) -> Message:
        """Return the reply. Raises _Lost."""
        if not self.is_open:
            raise _ConnectionEnded
        number, data = self._native.encode_request(message)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._server.received(Received(self._protocol.number, data))
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    def close(self) -> None:
        """Close the connection, and with it the one to the broker."""
        self._transport.close()

    def _received(self, data: bytes) -> None:
        for answer in self._native.receive_data(data):
            if isinstance(answer, NativeAnswer):
                future = self._waiting.get(answer.number)
                if future is not None and not future.done():
                    future.set_result(answer.reply)

    def _lost(self) -> None:
        self._protocol.connection_lost(None)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(_ConnectionEnded())


class BrokerLogins:
    """Users of the cluster over HTTP: see `coordinator.http.logins.Authenticator`. A password is sent to a broker by
    `mechanism`, a token by OAUTHBEARER."""

    def __init__(
        self,
        server: Server,
        connect: Callable[[], RelayedClientProtocol],
        mechanism: str,
        *,
        trusted_s: float = _TRUSTED_S,
        grace_s: float = _GRACE_S,
    ) -> None:
        self._server, self._connect, self._mechanism = server, connect, mechanism
        self._trusted_s, self._grace_s = trusted_s, grace_s
        self._links: dict[bytes, _Link] = {}
        """Logins by the hash of the secret that stands for them."""
        self._trusted: dict[bytes, asyncio.Task[HttpLoginReply]] = {}
        """Logins under way or of the last minute, by the hash of their credentials."""
        self._salt = secrets.token_bytes(32)

    async def log_in(
        self, username: str | None, password: str, host: str, *, opens_session: bool = False, certificate: str = ""
    ) -> HttpLoginReply:
        """Check a user and a password, or without a user a token; the reply has a secret by which later requests name
        the login. Its requests come over the login's own connection, which has no certificate."""
        if opens_session:
            return await self._begin(username, password, host)
        key = self._key_of(username, password, host)
        task = self._trusted.get(key)
        if task is None or (task.done() and not self._is_usable(task.result().session)):
            task = self._trusted[key] = asyncio.ensure_future(self._begin(username, password, host))
            task.add_done_callback(lambda done: self._remember(key, done))
        return await asyncio.shield(task)

    async def show_session(self, secret: str, host: str, *, is_end: bool = False) -> HttpLoginReply:
        """Return the login of the secret; `is_end`: end it."""
        if not self._is_usable(secret):
            return HttpLoginReply(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
        link = self._links[_hashed(secret)]
        if is_end:
            link.close()
        return HttpLoginReply(link.principal)

    async def ask(self, message: Message, secret: str) -> Message:
        """Send the node a request as the login with the secret; requests about the node itself need none."""
        if isinstance(message, _OF_THE_NODE):
            return await self._server.calls.ask(message)
        if not self._is_usable(secret):
            return ErrorReply(ErrorCode.COORDINATOR_NOT_AVAILABLE, _GONE)
        try:
            return await self._links[_hashed(secret)].ask(message)
        except _ConnectionEnded:
            return ErrorReply(ErrorCode.COORDINATOR_NOT_AVAILABLE, _GONE)

    def _is_usable(self, secret: str) -> bool:
        link = self._links.get(_hashed(secret))
        if link is None or not link.is_open:
            self._links.pop(_hashed(secret), None)
            return False
        return link.ends_ms is None or _now_ms() < link.ends_ms

    def _principal_of(self, link: _Link) -> str:
        connection = self._server.node.core.connections.get(link.number)
        return "" if connection is None else connection.principal

    def _key_of(self, username: str | None, password: str, host: str) -> bytes:
        """Return a hash of the credentials, salted with a secret of this process."""
        given = repr((username, password, host)).encode()
        return hashlib.blake2b(given, key=self._salt, digest_size=32).digest()

    def _remember(self, key: bytes, task: asyncio.Task[HttpLoginReply]) -> None:
        """Keep a login for a minute; after a refused login the next request asks a broker again."""
        loop = asyncio.get_running_loop()
        if task.cancelled() or task.exception() is not None or task.result().error_code:
            self._forget(key, task)
        else:
            loop.call_later(self._trusted_s, self._forget, key, task)
            loop.call_later(self._trusted_s + self._grace_s, self._links[_hashed(task.result().session)].close)

    def _forget(self, key: bytes, task: asyncio.Task[HttpLoginReply]) -> None:
        if self._trusted.get(key) is task:
            del self._trusted[key]

    async def _begin(self, username: str | None, password: str, host: str) -> HttpLoginReply:
        self._links = {key: link for key, link in self._links.items() if link.is_open}
        mechanism = OAUTHBEARER if username is None else self._mechanism
        try:
            client = SaslClient(mechanism, username or "", password, secrets.token_hex(16))
        except ValueError:  # no user can have such a name or password
            return HttpLoginReply(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
        link = _Link(self._server, self._connect(), host)
        try:
            lifetime_ms = await _log_in(link, client)
        except BaseException as failed:
            link.close()
            if isinstance(failed, LoginRefused):
                return HttpLoginReply(error_code=failed.error_code)
            if isinstance(failed, _ConnectionEnded):  # the limit of its address, or a lost broker
                return HttpLoginReply(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            raise
        link.principal = self._principal_of(link)
        if lifetime_ms:
            link.ends_ms = _now_ms() + lifetime_ms - min(_SPARE_MS, lifetime_ms // 2)
        secret = secrets.token_hex(32)
        self._links[_hashed(secret)] = link
        return HttpLoginReply(link.principal, secret, min(lifetime_ms or _LONGEST_SESSION_MS, _LONGEST_SESSION_MS))


async def _log_in(link: _Link, client: SaslClient) -> int:
    """Log in; return the lifetime of the login, 0 if it is unlimited. Raises LoginRefused and _Lost."""
    client.begin()
    more = client.on_reply(SaslHandshakeReply())
    while True:
        assert isinstance(more, SaslAuthenticate)
        reply = await link.ask(Login(client.mechanism, more.auth_bytes))
        if not isinstance(reply, LoginReply):
            raise LoginRefused(ErrorCode.UNKNOWN_SERVER_ERROR, "no login is answered so")
        if reply.error_code:
            raise LoginRefused(reply.error_code, reply.error_message)
        # In a thread: the broker chooses the number of iterations.
        answer = SaslAuthenticateReply(auth_bytes=reply.auth_bytes, session_lifetime_ms=reply.session_lifetime_ms)
        more = await asyncio.to_thread(client.on_reply, answer)
        if more is None:
            if not reply.done:
                raise LoginRefused(ErrorCode.ILLEGAL_SASL_STATE, "the broker wants more than the mechanism has")
            return client.session_lifetime_ms


def _hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _now_ms() -> float:
    return asyncio.get_running_loop().time() * 1_000
