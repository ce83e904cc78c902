"""Strangers at the HTTP listener: they take no more connections than they may have, and none for long."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from socket import create_connection
from urllib.request import urlopen

from aiohttp import web

from coordinator.http.app import make_app, serve
from coordinator.http.connections import HttpConnections, HttpLimits
from coordinator.http.logins import Authenticator
from coordinator.io.patient_disk import patient
from muster.blocking import ClusterClient
from partition_log.disk.disk import OsDisk
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import running, within
from tests.http.scripted import ScriptedCoordinator

GET = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD_S, LOOK_S = 0.3, 0.02
WAIT_S = 60.0
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Open = Callable[[bytes], Awaitable[Pair]]


class Listener:
    def __init__(self, port: int, stack: ExitStack) -> None:
        self.port = port
        self._stack = stack
        self.gauges: dict[str, int] = {}
        self.counted: list[str] = []

    async def open(self, said: bytes = b"") -> Pair:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._stack.callback(writer.close)
        writer.write(said)
        return reader, writer


@asynccontextmanager
async def listening(
    coordinator: ScriptedCoordinator | None = None, *, authenticator: Authenticator | None = None, **limits: float
) -> AsyncIterator[Listener]:
    chosen = HttpLimits(**{"head_s": HEAD_S, "look_every_s": LOOK_S, **limits})  # type: ignore[arg-type]
    with ExitStack() as stack:
        made = Listener(0, stack)
        app = make_app((coordinator or ScriptedCoordinator()).ask, authenticator=authenticator)
        bound, stop = await serve(app, "127.0.0.1", 0, None, chosen, made.gauges, made.counted.append)
        made.port = bound[1]
        yield made
    await stop()


async def test_who_says_nothing_or_half_a_head_is_closed_in_time() -> None:
    async with listening() as listener:
        began = time.monotonic()
        silent, half = await listener.open(), await listener.open(b"GET /heal")
        assert listener.gauges["http_connections"] <= 2
        for reader, _writer in (silent, half):
            assert await asyncio.wait_for(_end_of(reader), 5) == b""
        assert time.monotonic() - began >= HEAD_S
        assert await _becomes(listener, 0)


async def _end_of(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_a_head_that_comes_byte_by_byte_has_no_more_time() -> None:
    async with listening() as listener:
        reader, writer = await listener.open()
        over = asyncio.ensure_future(_end_of(reader))
        for byte in GET * 5:
            if over.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.03)
        assert over.done()
        assert await over == b""


async def test_between_requests_a_connection_is_kept_but_not_with_half_a_head() -> None:
    async with listening() as listener:
        reader, writer = await listener.open(GET)
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        await reader.readuntil(b"}")
        await asyncio.sleep(2 * HEAD_S)
        writer.write(GET)
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"GET /")
        assert await asyncio.wait_for(_end_of(reader), 5) != GET
        assert await _becomes(listener, 0)


async def test_a_request_that_takes_long_is_answered() -> None:
    coordinator = ScriptedCoordinator()
    ask = coordinator.ask

    async def slowly(message: Message) -> Message:
        await asyncio.sleep(2 * HEAD_S)
        return await ask(message)

    coordinator.ask = slowly  # type: ignore[method-assign]
    async with listening(coordinator, keepalive_s=HEAD_S) as listener:
        reader, _writer = await listener.open(GET)
        assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)


async def test_beyond_the_most_who_has_waited_longest_for_a_request_makes_room() -> None:
    async with listening(max_connections=2, head_s=30) as listener:
        first, _second = await listener.open(b"GET /"), await listener.open(b"GET /")
        assert await _becomes(listener, 2)
        third, _writer = await listener.open(GET)
        assert b"200 OK" in await asyncio.wait_for(third.readuntil(b"\r\n\r\n"), 5)
        assert await asyncio.wait_for(_end_of(first[0]), 5) == b""
        assert await _becomes(listener, 2)
        assert listener.counted == ["http_connections_over_limit"]


async def test_where_all_are_served_a_newcomer_is_told_to_come_again() -> None:
    coordinator = ScriptedCoordinator()
    is_asked, go_on = asyncio.Event(), asyncio.Event()
    ask = coordinator.ask

    async def held(message: Message) -> Message:
        is_asked.set()
        await go_on.wait()
        return await ask(message)

    coordinator.ask = held  # type: ignore[method-assign]
    async with listening(coordinator, max_connections=1) as listener:
        busy, _writer = await listener.open(GET)
        await asyncio.wait_for(is_asked.wait(), 5)
        late, _other = await listener.open(GET)
        answer = await asyncio.wait_for(late.read(), 5)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1" in head
        assert f"Content-Length: {len(body)}".encode() in head
        go_on.set()
        assert b"200 OK" in await asyncio.wait_for(busy.readuntil(b"\r\n\r\n"), 5)


async def _becomes(listener: Listener, count: int) -> bool:
    for _ in range(500):
        if listener.gauges["http_connections"] == count:
            return True
        await asyncio.sleep(0.01)
    return False


class PretendedTransport(asyncio.Transport):
    """`unsent` bytes were not taken yet."""

    def __init__(self, unsent: int) -> None:
        super().__init__()
        self.unsent = unsent
        self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        pass


async def test_who_takes_a_long_page_slowly_gets_all_of_it_and_who_takes_nothing_is_closed() -> None:
    async def serve_nothing(request: web.BaseRequest) -> web.StreamResponse:
        raise AssertionError

    connections = HttpConnections(web.Server(serve_nothing), HttpLimits(head_s=0, look_every_s=60), {}, print)
    one, transport = connections(), PretendedTransport(900)
    one.connection_made(transport)
    for unsent in (900, 500, 100):
        transport.unsent = unsent
        connections._look()
        assert not transport.is_aborted
    connections._look()
    assert transport.is_aborted
    one.connection_lost(None)
    connections.stop()


def test_idle_strangers_at_a_daemon_leave_room_for_others_and_its_clients(tmp_path: Path) -> None:
    with (
        running(tmp_path / "data", "http.max.connections=3", "max.connections=3", with_http=True) as daemon,
        ExitStack() as stack,
    ):
        for _ in range(20):
            stack.enter_context(create_connection(("127.0.0.1", daemon.http_port))).sendall(b"GET /heal")
        with urlopen(f"http://127.0.0.1:{daemon.http_port}/metrics", timeout=10) as answer:
            page = answer.read().decode()
        assert "muster_http_connections 3.0" in page
        assert "muster_connections 0.0" in page
        with ClusterClient(daemon.bootstrap) as connection:
            assert connection.ask(CreateTopics((CreatableTopic("t", 1),))) is not None


def test_a_job_that_may_open_no_file_waits_until_it_may(tmp_path: Path) -> None:
    settings = ("wal.segment.bytes=1048576", "wal.checkpoint.bytes=1048576", "offsets.topic.max.message.bytes=524288")
    with (
        running(tmp_path / "data", *settings, "message.max.bytes=500000") as daemon,
        ClusterClient(daemon.bootstrap) as connection,
    ):
        assert daemon.process is not None
        pid = daemon.process.pid
        connection.ask(CreateTopics((CreatableTopic("t", 100),)))
        assert _commit(connection, 0) is ErrorCode.NONE
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        log = tmp_path / "data.log"
        number = 0
        deadline = time.monotonic() + 20
        while "a job waits" not in log.read_text() and daemon.process.poll() is None and time.monotonic() < deadline:
            number += 1
            _commit(connection, number)
        assert daemon.process.poll() is None
        assert "a job waits" in log.read_text()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert within(20, lambda: _commit(connection, number) is ErrorCode.NONE)
        assert daemon.stop() == 0


def _commit(connection: ClusterClient, number: int) -> ErrorCode:
    partitions = tuple(OffsetCommitPartition(index, number) for index in range(100))
    reply = connection.ask(OffsetCommit(f"g{number % 50}", (OffsetCommitTopic("t", partitions),)))
    assert isinstance(reply, OffsetCommitReply)
    return reply.topics[0].partitions[0].error_code


def test_what_fails_for_another_reason_is_not_tried_again(tmp_path: Path) -> None:
    disk = patient(OsDisk())
    try:
        disk.open(str(tmp_path / "nowhere" / "file"))
    except FileNotFoundError:
        return
    raise AssertionError


class HeldLogins:
    """An authenticator that answers nobody, and remembers who has given up."""

    def __init__(self) -> None:
        self.is_asked, self.is_cancelled = asyncio.Event(), asyncio.Event()

    async def log_in(
        self, username: str | None, password: str, host: str, *, opens_session: bool = False, certificate: str = ""
    ) -> Message:
        self.is_asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.is_cancelled.set()
            raise
        raise AssertionError

    async def show_session(self, secret: str, host: str, *, is_end: bool = False) -> Message:
        raise AssertionError


async def test_the_login_of_a_client_that_has_gone_is_given_up() -> None:
    logins = HeldLogins()
    async with listening(authenticator=logins) as listener:
        given = b"GET /v1/groups HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YWxpY2U6c2VjcmV0\r\n\r\n"
        _reader, writer = await listener.open(given)
        await asyncio.wait_for(logins.is_asked.wait(), WAIT_S)
        assert not logins.is_cancelled.is_set()
        writer.close()
        await asyncio.wait_for(logins.is_cancelled.wait(), WAIT_S)
        assert await _becomes(listener, 0)
