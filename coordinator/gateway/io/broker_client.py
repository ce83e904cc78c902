"""EDGE: a connection of Muster's own to one broker, with many requests in flight."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import NamedTuple, cast

from coordinator import __version__
from coordinator.gateway.io.tls import Unreachable, UpstreamTls, describe_failure, dial
from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka import login as sasl
from protocol.kafka.client import KafkaAnswer, KafkaClient
from protocol.messages import Message
from protocol.messages.data import Fetch, Produce
from protocol.messages.node import ApiVersions, ApiVersionsReply, SaslHandshake
from protocol.messages.offsets import OffsetFetch

_MAX_REPLY_BYTES = 100 << 20
_MAX_REPLY_ENTRIES = 16 << 20
"""Array entries in one reply: a cluster may have a hundred thousand partitions, each with its replicas."""
_READ_BYTES = 1 << 18
_DECODE_IN_THREAD_BYTES = 1 << 16
"""Replies longer than this are decoded in a thread: metadata of a hundred thousand partitions takes longer than a
heartbeat should wait."""
MAX_IN_FLIGHT = 64
"""Requests in flight on one connection; further ones wait for a slot."""
_API_VERSIONS_NEWEST, _API_VERSIONS_OLDEST = 3, 0
_NEWEST_VERSIONS: dict[type[Message], int] = {OffsetFetch: 9, Fetch: 12, Produce: 11}
"""Newest versions in which requests name topics instead of giving their ids, and in which a Produce takes part in no
transaction by itself (docs/spec/shared-log.md#6)."""
_SESSION_LIFETIME_SHARE = 0.8
"""Share of the session lifetime (KIP-368) after which the connection is replaced."""
_TLS_ALERT = b"\x15\x03"
"""First bytes of a TLS alert, version byte included: the peer speaks TLS and was sent plaintext."""

HostPort = tuple[str, int]


class BrokerLogin(NamedTuple):
    """Credentials of Muster at the brokers."""

    username: str
    password: str
    mechanism: str = "PLAIN"

    def __repr__(self) -> str:
        return f"BrokerLogin({self.username!r})"


class RequestFailed(Exception):
    """A broker did not answer a request; the text says why."""


class BrokerClient:
    """A connection to one broker. `versions` is the broker's reply to ApiVersions."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, *, is_tls: bool = False
    ) -> None:
        self.versions = ApiVersionsReply()
        self._reader = reader
        self._writer = writer
        self._client = KafkaClient("muster", _MAX_REPLY_BYTES, _MAX_REPLY_ENTRIES)
        self._in_flight: dict[int, asyncio.Future[Message]] = {}
        self._free_slots = MAX_IN_FLIGHT
        self._slot_waiters: dict[asyncio.Future[None], None] = {}
        """Requests that wait for a slot, in order of arrival."""
        self._undecoded_bytes = 0
        self._received_s = 0.0
        self._is_open = True
        self._is_retired = False
        self._address = address
        self._is_tls = is_tls
        self._is_authenticated = False
        self._reply_count = 0
        self._session_ends_s: float | None = None
        self._reader_task = asyncio.ensure_future(self._read_replies())

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        timeout_s: float,
        login: BrokerLogin | None = None,
        tls: UpstreamTls | None = None,
        check_addresses: Callable[[HostPort, HostPort], None] = lambda local, remote: None,
    ) -> "BrokerClient":
        """Connect, ask for versions, and log in if `login` is given. `check_addresses` gets the local and the remote
        address before anything is sent, and may raise RequestFailed. Raises RequestFailed."""
        context = tls.context() if tls is not None else None
        try:
            reader, writer = await dial(asyncio.open_connection, host, port, context, timeout_s)
        except Unreachable as failed:
            raise RequestFailed(str(failed)) from None
        client = cls(reader, writer, f"{host}:{port}", is_tls=tls is not None)
        try:
            check_addresses(*client._socket_addresses)
            client.versions = await client._negotiate_versions(timeout_s)
            if login is not None:
                await client._authenticate(login, timeout_s)
        except BaseException:
            client.close()
            raise
        return client

    async def _authenticate(self, login: BrokerLogin, timeout_s: float) -> None:
        begun_s = asyncio.get_running_loop().time()
        try:
            exchange = sasl.SaslClient(login.mechanism, login.username, login.password, secrets.token_urlsafe(24))
            request: Message | None = exchange.begin()
            while request is not None:
                if isinstance(request, SaslHandshake):
                    reply = await self._exchange(request, sasl.HANDSHAKE_VERSION, timeout_s)
                else:
                    reply = await self.ask(request, timeout_s)
                # In a thread: SCRAM may hash a password a million times.
                request = await asyncio.to_thread(exchange.on_reply, reply)
        except sasl.LoginRefused as refused:
            wants_no_login = refused.error_code is ErrorCode.ILLEGAL_SASL_STATE
            hint = "; does it want a login there (upstream.security.protocol)?" if wants_no_login else ""
            raise self._error(f"{refused}{hint}") from None
        self._is_authenticated = True
        if exchange.session_lifetime_ms:
            self._session_ends_s = begun_s + exchange.session_lifetime_ms / 1_000 * _SESSION_LIFETIME_SHARE

    @property
    def is_open(self) -> bool:
        """Return whether the connection works and its SASL session has not nearly expired."""
        if not self._is_open or self._reader.at_eof():
            return False
        return self._session_ends_s is None or asyncio.get_running_loop().time() <= self._session_ends_s

    @property
    def _socket_addresses(self) -> tuple[HostPort, HostPort]:
        """The local and the remote address."""
        found = (self._writer.get_extra_info(which) for which in ("sockname", "peername"))
        local, remote = (one or ("", 0) for one in found)  # None once the connection is closed
        return cast(HostPort, local[:2]), cast(HostPort, remote[:2])

    async def _negotiate_versions(self, timeout_s: float) -> ApiVersionsReply:
        for version in (_API_VERSIONS_NEWEST, _API_VERSIONS_OLDEST):
            reply = await self._exchange(ApiVersions("muster", __version__), version, timeout_s)
            assert isinstance(reply, ApiVersionsReply)
            if reply.error_code is not ErrorCode.UNSUPPORTED_VERSION:
                return reply
        raise self._error("the broker does not answer ApiVersions")

    async def ask(self, message: Message, timeout_s: float) -> Message:
        """Send the request in the newest version that both sides know; return the reply. Raises RequestFailed."""
        request = BY_MESSAGE[type(message)].request
        key = BY_MESSAGE[type(message)].key
        for row in self.versions.api_keys:
            if row.api_key == key and row.max_version >= request.oldest and row.min_version <= request.newest:
                newest = min(row.max_version, request.newest, _NEWEST_VERSIONS.get(type(message), request.newest))
                return await self._exchange(message, newest, timeout_s)
        raise self._error(f"the broker speaks no version of {type(message).__name__} that Muster speaks")

    async def _exchange(self, message: Message, version: int, timeout_s: float) -> Message:
        """Send a request and wait for the reply.

        A timeout closes the connection only if the broker has sent nothing since the request. A broker that answers
        other requests is slow: only this request fails. Raises RequestFailed.
        """
        if not self._is_open:
            raise self._error("the connection to the broker is closed")
        await self._acquire_slot(timeout_s)
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        answered = self._send(message, version)
        try:
            async with asyncio.timeout(timeout_s):
                return await answered
        except TimeoutError:
            if self._received_s <= asked_s:
                self._shut_down("no answer in time")
            raise self._error("no answer in time") from None

    def _send(self, message: Message, version: int) -> asyncio.Future[Message]:
        try:
            if not self._is_open or self._writer.is_closing():
                raise self._error("the connection to the broker is closed")
            try:
                number, data = self._client.encode_request(message, version)
            except Exception as error:  # noqa: BLE001 - a client chose the values; nothing was written yet
                raise self._error(f"{type(message).__name__} cannot be written: {error}") from None
            self._writer.write(data)
        except RequestFailed:
            self._release_slot()
            raise
        answered = self._in_flight[number] = asyncio.get_running_loop().create_future()
        return answered

    async def _acquire_slot(self, timeout_s: float) -> None:
        """Wait for a slot. A timeout leaves the connection as it is: nothing was sent."""
        if self._free_slots:
            self._free_slots -= 1
            return
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._slot_waiters[slot] = None
        try:
            async with asyncio.timeout(timeout_s):
                await slot
        except BaseException as error:
            self._slot_waiters.pop(slot, None)
            if slot.done() and not slot.cancelled() and slot.exception() is None:
                self._release_slot()
            if isinstance(error, TimeoutError):
                raise self._error(f"not sent: {MAX_IN_FLIGHT} requests were in flight all the time") from None
            raise

    def _release_slot(self) -> None:
        """Give the slot to the newest waiter.

        Under overload the oldest waiters are about to time out. Serving them first would make every reply come too
        late.
        """
        while self._slot_waiters:
            slot, _ = self._slot_waiters.popitem()
            if not slot.done():
                slot.set_result(None)
                return
        self._free_slots += 1
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        """Close a retired connection once every slot is free. A slot that was assigned to a waiter counts as taken."""
        if self._is_retired and self._free_slots == MAX_IN_FLIGHT:
            self.close()

    async def _read_replies(self) -> None:
        """Read replies until the connection ends; then fail the pending requests with the reason."""
        reason = "the connection to the broker is closed"
        try:
            while data := await self._reader.read(_READ_BYTES):
                if data.startswith(_TLS_ALERT) and not self._reply_count:
                    break
                for answer in await self._decode(data):
                    self._resolve(answer)
            reason = self._why_closed(data)
        except (OSError, ProtocolViolation) as error:
            reason = describe_failure(error, is_tls=self._is_tls) if str(error) else "the connection broke"
        except Exception as error:  # noqa: BLE001 - a broker may answer anything
            reason = f"its answer cannot be read: {error!r}"
        finally:
            self._shut_down(reason)

    async def _decode(self, data: bytes) -> list[KafkaAnswer]:
        self._undecoded_bytes += len(data)
        is_long = self._undecoded_bytes > _DECODE_IN_THREAD_BYTES
        answers = (
            await asyncio.to_thread(self._client.receive_data, data) if is_long else self._client.receive_data(data)
        )
        if answers:
            self._undecoded_bytes = 0
        return answers

    def _resolve(self, answer: KafkaAnswer) -> None:
        self._reply_count += 1
        self._received_s = asyncio.get_running_loop().time()
        answered = self._in_flight.pop(answer.correlation_id, None)
        if answered is None:  # closed since
            return
        self._release_slot()
        if not answered.done():
            answered.set_result(answer.reply)

    def _error(self, reason: str) -> RequestFailed:
        return RequestFailed(f"{self._address}: {reason}")

    def _why_closed(self, data: bytes) -> str:
        """Guess why the broker closed the connection: it does not say which protocol or login it expects."""
        if data:
            return "the broker speaks TLS there (upstream.security.protocol)"
        closed = "the broker closed the connection"
        if not self._reply_count and not self._is_tls:
            return f"{closed}; does it want TLS (upstream.security.protocol)?"
        if not self._reply_count:
            return f"{closed}; does it require another client certificate (upstream.ssl.certificate.location)?"
        if self._reply_count == 1 and not self._is_authenticated:
            return f"{closed}; does it want a login (upstream.security.protocol, upstream.sasl.username)?"
        return closed

    def retire(self) -> None:
        """Close once the requests in flight are answered. Another connection takes the new ones."""
        self._is_retired = True
        self._close_if_idle()

    def close(self) -> None:
        """Close now; requests in flight fail."""
        self._shut_down("the connection to the broker is closed")

    def _shut_down(self, reason: str) -> None:
        self._is_open = False
        waiting: list[asyncio.Future[Message] | asyncio.Future[None]] = [*self._in_flight.values(), *self._slot_waiters]
        self._in_flight.clear()
        self._slot_waiters.clear()
        for one in waiting:
            if not one.done():
                one.set_exception(self._error(reason))
        with contextlib.suppress(RuntimeError):
            self._writer.transport.abort()
