"""A broker that requires logins: a SASL proxy in front of a listener of Kafka's protocol without logins."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from protocol.apis import WIRE_APIS
from protocol.errors import ErrorCode
from protocol.kafka.reading import reader
from protocol.kafka.writing import writer
from protocol.messages import Message
from protocol.messages.node import SaslAuthenticate, SaslAuthenticateReply, SaslHandshake, SaslHandshakeReply

_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36


@dataclass(slots=True, eq=False)
class SaslProxy:
    """A listener that requires SASL PLAIN: its port, its users, and the logins it has seen. Settings may change at any
    time."""

    users: dict[str, str] = field(default_factory=dict)
    lifetime_ms: int = 0
    port: int = 0
    before: int = 0
    """The port of the listener behind it."""
    logins: list[str] = field(default_factory=list)
    refused: int = 0
    killed: int = 0
    """Connections that were used after their logins had expired, as Apache Kafka counts them."""

    @property
    def bootstrap(self) -> str:
        return f"kafka://127.0.0.1:{self.port}"


@contextmanager
def opened(proxy: SaslProxy, context: ssl.SSLContext | None = None) -> Iterator[SaslProxy]:
    """Run the proxy in a thread of its own."""
    loop = asyncio.new_event_loop()
    is_open = threading.Event()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await _ProxiedConnection(proxy, reader, writer).serve(proxy.before)
        await _end(writer)

    async def listen() -> asyncio.Server:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        proxy.port = server.sockets[0].getsockname()[1]
        return server

    async def end(server: asyncio.Server) -> None:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.05)  # so that TLS closes its sockets

    def run() -> None:
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(listen())
        is_open.set()
        loop.run_forever()
        loop.run_until_complete(end(server))
        loop.close()

    thread = threading.Thread(target=run, name="sasl-proxy")
    thread.start()
    is_open.wait(10)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


class _ProxiedConnection:
    """One connection, whose requests are forwarded to the broker after its login."""

    def __init__(self, proxy: SaslProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._ends_s: float | None = None
        self._is_in = False
        self._asked = self._answered = 0
        self._has_answered = asyncio.Event()

    async def serve(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        back = asyncio.create_task(self._pass_back(reader))
        try:
            while True:
                frame = await _frame(self._reader)
                key = int.from_bytes(frame[4:6], "big")
                if key in {_HANDSHAKE, _AUTHENTICATE}:
                    while self._answered < self._asked:  # a broker answers in order
                        self._has_answered.clear()
                        await self._has_answered.wait()
                    await self._hear(key, frame)
                    continue
                if self._ends_s is not None and asyncio.get_running_loop().time() > self._ends_s:
                    self._proxy.killed += 1
                    return
                if not self._is_in and key != _VERSIONS:
                    return
                self._asked += 1
                writer.write(frame)
                await writer.drain()
        finally:
            writer.transport.abort()  # at once: this may be cancelled while it waits
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)
            await _end(writer)

    async def _pass_back(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                self._writer.write(await _frame(reader))
                self._answered += 1
                self._has_answered.set()
                await self._writer.drain()

    async def _hear(self, key: int, frame: bytes) -> None:
        version = int.from_bytes(frame[6:8], "big")
        api = WIRE_APIS[key]
        is_flexible = api.is_flexible(version)
        position = 14 + int.from_bytes(frame[12:14], "big") + is_flexible
        reply = self._answer(reader(api.request, version, 100)(frame, position))
        body = frame[8:12] + b"\0" * is_flexible + writer(api.reply, version)(reply)
        self._writer.write(len(body).to_bytes(4, "big") + body)
        await self._writer.drain()

    def _answer(self, message: Message) -> Message:
        if isinstance(message, SaslHandshake):
            known = message.mechanism == "PLAIN"
            code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return SaslHandshakeReply(code, ("PLAIN",))
        assert isinstance(message, SaslAuthenticate)
        _, name, password = message.auth_bytes.decode().split("\0")
        if self._proxy.users.get(name) != password:
            self._proxy.refused += 1
            return SaslAuthenticateReply(
                ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed: Invalid username or password"
            )
        self._proxy.logins.append(name)
        self._is_in = True
        lifetime_ms = self._proxy.lifetime_ms
        self._ends_s = asyncio.get_running_loop().time() + lifetime_ms / 1000 if lifetime_ms else None
        return SaslAuthenticateReply(session_lifetime_ms=lifetime_ms)


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(int.from_bytes(head, "big"))
