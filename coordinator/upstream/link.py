"""EDGE: a connection of our own to one broker, over which it is asked one thing after another."""

import asyncio
import contextlib
from typing import NamedTuple

from coordinator import __version__
from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.node import (
    ApiVersions,
    ApiVersionsReply,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshake,
    SaslHandshakeReply,
)
from protocol.messages.offsets import OffsetFetch

UNREACHABLE = (OSError, TimeoutError, ValueError, OverflowError)
"""What comes of connecting to an address that may be anything: a broker told it. The last two are names and ports that
are none."""
_MAX_ANSWER_BYTES = 100 << 20
_MOST_ENTRIES = 16 << 20
"""In one answer: a cluster may have a hundred thousand partitions, each with its replicas."""
_READ_BYTES = 1 << 18
_VERSIONS_FIRST, _VERSIONS_OLDEST = 3, 0
_NEWEST: dict[type[Message], int] = {OffsetFetch: 9}
"""In which topics go by name."""


class Login(NamedTuple):
    """Who we are to the brokers."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.username!r})"


class AskFailed(Exception):
    """The broker did not answer; the text says why."""


class Link:
    """`versions` is what the broker answered when it was connected."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.versions = ApiVersionsReply()
        self._reader = reader
        self._writer = writer
        self._client = KafkaClient("muster", _MAX_ANSWER_BYTES, _MOST_ENTRIES)
        self._turn = asyncio.Lock()
        self._is_open = True

    @classmethod
    async def open(cls, host: str, port: int, timeout_s: float, login: Login | None = None) -> "Link":
        """Connected, and known to the broker by `login`, if it wants to know. Raises AskFailed."""
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(host, port)
        except UNREACHABLE as error:
            raise AskFailed(f"{host}:{port}: {str(error) or 'no connection in time'}") from None
        link = cls(reader, writer)
        try:
            link.versions = await link._ask_versions(timeout_s)
            if login is not None:
                await link._log_in(login, timeout_s)
        except BaseException:
            link.close()
            raise
        return link

    async def _log_in(self, login: Login, timeout_s: float) -> None:
        """SASL's PLAIN (RFC 4616)."""
        offered = await self.ask(SaslHandshake("PLAIN"), timeout_s)
        assert isinstance(offered, SaslHandshakeReply)
        if not offered.error_code:
            secret = f"\0{login.username}\0{login.password}".encode()
            known = await self.ask(SaslAuthenticate(secret), timeout_s)
            assert isinstance(known, SaslAuthenticateReply)
            if not known.error_code:
                return
            why = known.error_message or known.error_code.name
        else:
            why = f"{offered.error_code.name}; it offers {', '.join(offered.mechanisms) or 'nothing'}"
        raise AskFailed(f"the broker does not let {login.username} in: {why}")

    @property
    def is_open(self) -> bool:
        """Until something goes wrong."""
        return self._is_open and not self._reader.at_eof()

    async def _ask_versions(self, timeout_s: float) -> ApiVersionsReply:
        for version in (_VERSIONS_FIRST, _VERSIONS_OLDEST):
            reply = await self._exchange(ApiVersions("muster", __version__), version, timeout_s)
            assert isinstance(reply, ApiVersionsReply)
            if reply.error_code is not ErrorCode.UNSUPPORTED_VERSION:
                return reply
        raise AskFailed("the broker does not say which versions it speaks")

    async def ask(self, message: Message, timeout_s: float) -> Message:
        """In the newest version that both know. Raises AskFailed."""
        request = BY_MESSAGE[type(message)].request
        key = BY_MESSAGE[type(message)].key
        for row in self.versions.api_keys:
            if row.api_key == key and row.max_version >= request.oldest and row.min_version <= request.newest:
                newest = min(row.max_version, request.newest, _NEWEST.get(type(message), request.newest))
                return await self._exchange(message, newest, timeout_s)
        raise AskFailed(f"the broker speaks no version of {type(message).__name__} that is known here")

    async def _exchange(self, message: Message, version: int, timeout_s: float) -> Message:
        """A link that failed once is closed: nobody knows what would come over it next."""
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                self._writer.write(self._client.encode_request(message, version)[1])
                while True:
                    data = await self._reader.read(_READ_BYTES)
                    if not data:
                        raise AskFailed("the broker closed the connection")
                    # What tells of a hundred thousand partitions takes longer to read than a heartbeat should wait.
                    for answer in await asyncio.to_thread(self._client.receive_data, data):
                        return answer.reply
        except (OSError, TimeoutError, ProtocolViolation) as error:
            self.close()
            raise AskFailed(str(error) or "no answer in time") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Whatever is under way fails."""
        self._is_open = False
        with contextlib.suppress(RuntimeError):
            self._writer.transport.abort()
