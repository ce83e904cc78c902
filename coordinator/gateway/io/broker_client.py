"""EDGE: a connection of our own to one broker, over which it is asked many things at a time."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import NamedTuple, cast

from coordinator import __version__
from coordinator.gateway.io.tls import Unreachable, UpstreamTls, dial, why
from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka import login as sasl
from protocol.kafka.client import KafkaAnswer, KafkaClient
from protocol.messages import Message
from protocol.messages.node import ApiVersions, ApiVersionsReply, SaslHandshake
from protocol.messages.offsets import OffsetFetch

_MAX_ANSWER_BYTES = 100 << 20
_MOST_ENTRIES = 16 << 20
"""In one answer: a cluster may have a hundred thousand partitions, each with its replicas."""
_READ_BYTES = 1 << 18
_LONG_BYTES = 1 << 16
"""What tells of a hundred thousand partitions takes longer to read than a heartbeat should wait."""
MOST_UNDER_WAY = 64
"""Asked and not answered, on one link; who wants to ask more waits for a place."""
_VERSIONS_FIRST, _VERSIONS_OLDEST = 3, 0
_NEWEST: dict[type[Message], int] = {OffsetFetch: 9}
"""In which topics go by name."""
_OF_ITS_SESSION = 0.8
"""Of the time that a broker lets us stay after a login (KIP-368): how much of it a link is used."""
_ALERT = b"\x15\x03"
"""How whoever speaks TLS begins to say that something else was not understood."""

HostPort = tuple[str, int]


class Login(NamedTuple):
    """The login of Muster at the brokers."""

    username: str
    password: str
    mechanism: str = "PLAIN"

    def __repr__(self) -> str:
        return f"Login({self.username!r})"


class RequestFailed(Exception):
    """The broker did not answer; the text says why."""


class BrokerClient:
    """`versions` is what the broker answered when it was connected."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: str, *, is_tls: bool = False
    ) -> None:
        self.versions = ApiVersionsReply()
        self._reader = reader
        self._writer = writer
        self._client = KafkaClient("muster", _MAX_ANSWER_BYTES, _MOST_ENTRIES)
        self._under_way: dict[int, asyncio.Future[Message]] = {}
        self._places = MOST_UNDER_WAY
        self._waiting: dict[asyncio.Future[None], None] = {}
        """For a place; the one that came last in the end."""
        self._held = 0
        self._heard_s = 0.0
        self._is_open = True
        self._is_retired = False
        self._place = place
        self._is_tls = is_tls
        self._is_known = False
        self._answers = 0
        self._until_s: float | None = None
        self._hearing = asyncio.ensure_future(self._hear())

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        timeout_s: float,
        login: Login | None = None,
        tls: UpstreamTls | None = None,
        look_at: Callable[[HostPort, HostPort], None] = lambda local, remote: None,
    ) -> "BrokerClient":
        """Connected, and known to the broker by `login`, if it wants to know. `look_at` is shown the addresses of both
        ends before anything is said, and may raise RequestFailed. Raises RequestFailed."""
        context = tls.context() if tls is not None else None
        try:
            reader, writer = await dial(asyncio.open_connection, host, port, context, timeout_s)
        except Unreachable as failed:
            raise RequestFailed(str(failed)) from None
        link = cls(reader, writer, f"{host}:{port}", is_tls=tls is not None)
        try:
            look_at(*link._ends)
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
        return self._until_s is None or asyncio.get_running_loop().time() <= self._until_s

    @property
    def _ends(self) -> tuple[HostPort, HostPort]:
        """Our address, and the broker's."""
        told = (self._writer.get_extra_info(which) for which in ("sockname", "peername"))
        local, remote = (one or ("", 0) for one in told)  # a connection that is over already has none
        return cast(HostPort, local[:2]), cast(HostPort, remote[:2])

    async def _ask_versions(self, timeout_s: float) -> ApiVersionsReply:
        for version in (_VERSIONS_FIRST, _VERSIONS_OLDEST):
            reply = await self._exchange(ApiVersions("muster", __version__), version, timeout_s)
            assert isinstance(reply, ApiVersionsReply)
            if reply.error_code is not ErrorCode.UNSUPPORTED_VERSION:
                return reply
        raise self._failed("the broker does not say which versions it speaks")

    async def ask(self, message: Message, timeout_s: float) -> Message:
        """In the newest version that both know. Raises RequestFailed."""
        request = BY_MESSAGE[type(message)].request
        key = BY_MESSAGE[type(message)].key
        for row in self.versions.api_keys:
            if row.api_key == key and row.max_version >= request.oldest and row.min_version <= request.newest:
                newest = min(row.max_version, request.newest, _NEWEST.get(type(message), request.newest))
                return await self._exchange(message, newest, timeout_s)
        raise self._failed(f"the broker speaks no version of {type(message).__name__} that is known here")

    async def _exchange(self, message: Message, version: int, timeout_s: float) -> Message:
        """A broker that is asked and says nothing for `timeout_s` is not asked again: the link is closed. One that
        answers others meanwhile is slow: only this question has failed."""
        if not self._is_open:
            raise self._failed("the connection to the broker is closed")
        await self._take_place(timeout_s)
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        answered = self._write(message, version)
        try:
            async with asyncio.timeout(timeout_s):
                return await answered
        except TimeoutError:
            if self._heard_s <= asked_s:
                self._end("no answer in time")
            raise self._failed("no answer in time") from None

    def _write(self, message: Message, version: int) -> asyncio.Future[Message]:
        try:
            if not self._is_open or self._writer.is_closing():
                raise self._failed("the connection to the broker is closed")
            try:
                number, data = self._client.encode_request(message, version)
            except Exception as error:  # noqa: BLE001 - a client may have given any value; nothing was written
                raise self._failed(f"{type(message).__name__} cannot be written: {error}") from None
            self._writer.write(data)
        except RequestFailed:
            self._give_place()
            raise
        answered = self._under_way[number] = asyncio.get_running_loop().create_future()
        return answered

    async def _take_place(self, timeout_s: float) -> None:
        """Whoever waits longer than that has asked nothing, and the link is none the worse for it."""
        if self._places:
            self._places -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[place] = None
        try:
            async with asyncio.timeout(timeout_s):
                await place
        except BaseException as error:
            self._waiting.pop(place, None)
            if place.done() and not place.cancelled() and place.exception() is None:
                self._give_place()
            if isinstance(error, TimeoutError):
                raise self._failed(f"not asked: {MOST_UNDER_WAY} questions were before it all the time") from None
            raise

    def _give_place(self) -> None:
        """To who came last. If there are more questions than can be answered in time, the answers to those that have
        waited long come too late for whoever asks: in turn, all would be too late."""
        while self._waiting:
            place, _ = self._waiting.popitem()
            if not place.done():
                place.set_result(None)
                return
        self._places += 1
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        """Whoever was handed a place, and has yet to ask, has it."""
        if self._is_retired and self._places == MOST_UNDER_WAY:
            self.close()

    async def _hear(self) -> None:
        """Until the end. Whatever it is, it is told to those who wait."""
        sentence = "the connection to the broker is closed"
        try:
            while data := await self._reader.read(_READ_BYTES):
                if data.startswith(_ALERT) and not self._answers:
                    break
                for answer in await self._read(data):
                    self._hand_out(answer)
            sentence = self._why_closed(data)
        except (OSError, ProtocolViolation) as error:
            sentence = why(error, is_tls=self._is_tls) if str(error) else "the connection broke"
        except Exception as error:  # noqa: BLE001 - a broker may answer anything
            sentence = f"its answer cannot be read: {error!r}"
        finally:
            self._end(sentence)

    async def _read(self, data: bytes) -> list[KafkaAnswer]:
        self._held += len(data)
        is_long = self._held > _LONG_BYTES
        answers = (
            await asyncio.to_thread(self._client.receive_data, data) if is_long else self._client.receive_data(data)
        )
        if answers:
            self._held = 0
        return answers

    def _hand_out(self, answer: KafkaAnswer) -> None:
        self._answers += 1
        self._heard_s = asyncio.get_running_loop().time()
        answered = self._under_way.pop(answer.correlation_id, None)
        if answered is None:  # closed meanwhile
            return
        self._give_place()
        if not answered.done():
            answered.set_result(answer.reply)

    def _failed(self, sentence: str) -> RequestFailed:
        return RequestFailed(f"{self._place}: {sentence}")

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

    def retire(self) -> None:
        """Whatever is under way is let finish; then it closes. For who has another link to ask over."""
        self._is_retired = True
        self._close_if_idle()

    def close(self) -> None:
        """Whatever is under way fails."""
        self._end("the connection to the broker is closed")

    def _end(self, sentence: str) -> None:
        self._is_open = False
        waiting: list[asyncio.Future[Message] | asyncio.Future[None]] = [*self._under_way.values(), *self._waiting]
        self._under_way.clear()
        self._waiting.clear()
        for one in waiting:
            if not one.done():
                one.set_exception(self._failed(sentence))
        with contextlib.suppress(RuntimeError):
            self._writer.transport.abort()
