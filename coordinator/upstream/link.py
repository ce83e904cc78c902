"""EDGE: a connection of our own to one broker, over which it is asked one thing after another."""

import asyncio
import contextlib
import secrets
from typing import NamedTuple

from coordinator import __version__
from coordinator.upstream.tls import UNREACHABLE, UpstreamTls, why
from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka import login as sasl
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.node import ApiVersions, ApiVersionsReply, SaslHandshake
from protocol.messages.offsets import OffsetFetch

_MAX_ANSWER_BYTES = 100 << 20
_MOST_ENTRIES = 16 << 20
"""In one answer: a cluster may have a hundred thousand partitions, each with its replicas."""
_READ_BYTES = 1 << 18
_VERSIONS_FIRST, _VERSIONS_OLDEST = 3, 0
_NEWEST: dict[type[Message], int] = {OffsetFetch: 9}
"""In which topics go by name."""
_OF_ITS_SESSION = 0.8
"""Of the time that a broker lets us stay after a login (KIP-368): how much of it a link is used."""
_ALERT = b"\x15\x03"
"""How whoever speaks TLS begins to say that something else was not understood."""


class Login(NamedTuple):
    """Who we are to the brokers."""

    username: str
    password: str
    mechanism: str = "PLAIN"

    def __repr__(self) -> str:
        return f"Login({self.username!r})"


class AskFailed(Exception):
    """The broker did not answer; the text says why."""


class Link:
    """`versions` is what the broker answered when it was connected."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: str, *, is_tls: bool = False
    ) -> None:
        self.versions = ApiVersionsReply()
        self._reader = reader
        self._writer = writer
        self._client = KafkaClient("muster", _MAX_ANSWER_BYTES, _MOST_ENTRIES)
        self._turn = asyncio.Lock()
        self._is_open = True
        self._place = place
        self._is_tls = is_tls
        self._is_known = False
        self._answers = 0
        self._until_s: float | None = None

    @classmethod
    async def open(
        cls, host: str, port: int, timeout_s: float, login: Login | None = None, tls: UpstreamTls | None = None
    ) -> "Link":
        """Connected, and known to the broker by `login`, if it wants to know. Raises AskFailed."""
        if "\0" in host:  # C takes such a name for a shorter one, and uvloop's TLS for a mistake of ours
            raise AskFailed(f"{host!r}: no host has such a name")
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=tls.context() if tls else None, server_hostname=host if tls else None
                )
        except UNREACHABLE as error:
            raise AskFailed(f"{host}:{port}: {why(error, is_tls=tls is not None)}") from None
        link = cls(reader, writer, f"{host}:{port}", is_tls=tls is not None)
        try:
            link.versions = await link._ask_versions(timeout_s)
            if login is not None:
                await link._log_in(login, timeout_s)
        except BaseException:
            link.close()
            raise
        return link

    async def _log_in(self, login: Login, timeout_s: float) -> None:
        begun_s = asyncio.get_running_loop().time()
        try:
            exchange = sasl.Login(login.mechanism, login.username, login.password, secrets.token_urlsafe(24))
            request: Message | None = exchange.begin()
            while request is not None:
                if isinstance(request, SaslHandshake):
                    reply = await self._exchange(request, sasl.HANDSHAKE_VERSION, timeout_s)
                else:
                    reply = await self.ask(request, timeout_s)
                # A password may have to be hashed a million times.
                request = await asyncio.to_thread(exchange.hear, reply)
        except sasl.LoginRefused as refused:
            is_for_none = refused.error_code is ErrorCode.ILLEGAL_SASL_STATE
            hint = "; does it want a login there (upstream.security.protocol)?" if is_for_none else ""
            raise self._failed(f"{refused}{hint}") from None
        self._is_known = True
        if exchange.session_lifetime_ms:
            self._until_s = begun_s + exchange.session_lifetime_ms / 1_000 * _OF_ITS_SESSION

    @property
    def is_open(self) -> bool:
        """Until something goes wrong, or the broker wants another login soon."""
        if not self._is_open or self._reader.at_eof():
            return False
        is_over = self._until_s is not None and asyncio.get_running_loop().time() > self._until_s
        return not is_over or self._turn.locked()  # whoever is being answered is let finish

    async def _ask_versions(self, timeout_s: float) -> ApiVersionsReply:
        for version in (_VERSIONS_FIRST, _VERSIONS_OLDEST):
            reply = await self._exchange(ApiVersions("muster", __version__), version, timeout_s)
            assert isinstance(reply, ApiVersionsReply)
            if reply.error_code is not ErrorCode.UNSUPPORTED_VERSION:
                return reply
        raise self._failed("the broker does not say which versions it speaks")

    async def ask(self, message: Message, timeout_s: float) -> Message:
        """In the newest version that both know. Raises AskFailed."""
        request = BY_MESSAGE[type(message)].request
        key = BY_MESSAGE[type(message)].key
        for row in self.versions.api_keys:
            if row.api_key == key and row.max_version >= request.oldest and row.min_version <= request.newest:
                newest = min(row.max_version, request.newest, _NEWEST.get(type(message), request.newest))
                return await self._exchange(message, newest, timeout_s)
        raise self._failed(f"the broker speaks no version of {type(message).__name__} that is known here")

    async def _exchange(self, message: Message, version: int, timeout_s: float) -> Message:
        """A link that failed once is closed: nobody knows what would come over it next."""
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                if not self._is_open or self._writer.is_closing():  # whoever had the turn before has seen to it
                    raise AskFailed("the connection to the broker is closed")
                self._writer.write(self._client.encode_request(message, version)[1])
                while True:
                    data = await self._reader.read(_READ_BYTES)
                    if not data or (data.startswith(_ALERT) and not self._answers):
                        raise self._failed(self._why_closed(data))
                    # What tells of a hundred thousand partitions takes longer to read than a heartbeat should wait.
                    for answer in await asyncio.to_thread(self._client.receive_data, data):
                        self._answers += 1
                        return answer.reply
        except (OSError, TimeoutError, ProtocolViolation) as error:
            self.close()
            raise self._failed("no answer in time" if not str(error) else why(error, is_tls=self._is_tls)) from None
        except BaseException:
            self.close()
            raise

    def _failed(self, sentence: str) -> AskFailed:
        return AskFailed(f"{self._place}: {sentence}")

    def _why_closed(self, said: bytes) -> str:
        """A broker that wants to be spoken to in another way does not say so."""
        if said:
            return "the broker speaks TLS there (upstream.security.protocol)"
        closed = "the broker closed the connection"
        if not self._answers and not self._is_tls:
            return f"{closed}; does it want TLS (upstream.security.protocol)?"
        if not self._answers:
            return f"{closed}; does it want another certificate of ours (upstream.ssl.certificate.location)?"
        if self._answers == 1 and not self._is_known:
            return f"{closed}; does it want a login (upstream.security.protocol, upstream.sasl.username)?"
        return closed

    def close(self) -> None:
        """Whatever is under way fails."""
        self._is_open = False
        with contextlib.suppress(RuntimeError):
            self._writer.transport.abort()
