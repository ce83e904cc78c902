"""The transport that a client's protocol is given where there is TLS: how much it takes ahead, and how it ends."""

import asyncio
import gc
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from coordinator.config.config import Config, ConfigError, load_config
from coordinator.gateway.io.security import upstream_login, upstream_tls
from coordinator.io.tls.connection import AHEAD_BYTES, TlsConnection
from coordinator.io.tls.contexts import PemFile
from coordinator.io.tls.from_config import listening_tls
from coordinator.io.tls.listening import HANDSHAKE_S, Handshakes, ListeningTls, listen_at
from tests.edges.certificates import Folder

MIB = 1 << 20
Run = Callable[[Coroutine[Any, Any, None]], None]


class Wire(asyncio.Transport):
    """The transport that a loop hands the connection: it accepts all writes, and pauses the writer above its limit."""

    def __init__(self) -> None:
        super().__init__()
        self.above: TlsConnection
        self.got = bytearray()
        self.unsent = 0
        self.high = 0
        self.is_held = self.hears = False
        self.calls: list[str] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high or 0

    def get_write_buffer_size(self) -> int:
        assert not self.calls, "closed"
        return self.unsent

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.calls, "closed"
        self.got += data
        self.unsent += len(data)
        if self.unsent > self.high and not self.is_held:
            self.is_held = True
            self.above.pause_writing()

    def take(self) -> None:
        """All of it leaves."""
        self.unsent = 0
        if self.is_held:
            self.is_held = False
            self.above.resume_writing()

    def pause_reading(self) -> None:
        assert not self.calls, "closed"
        self.hears = False

    def resume_reading(self) -> None:
        assert not self.calls, "closed"
        self.hears = True

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")


class Client:
    """The protocol above."""

    def __init__(self) -> None:
        self.transport: TlsConnection
        self.buffer = memoryview(bytearray(1_000))
        self.heard = bytearray()
        self.is_paused = self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsConnection)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.heard += self.buffer[:nbytes]

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_writing(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def wire(client: Client) -> Wire:
    wire = Wire()
    wire.above = TlsConnection(client)
    wire.above.connection_made(wire)
    client.transport.set_write_buffer_limits(high=MIB)
    return wire


def test_no_more_is_encrypted_ahead_than_a_little_and_all_of_it_counts(client: Client, wire: Wire) -> None:
    data = bytes(range(256)) * 4 * 1024 * 4
    client.transport.write(data)
    assert len(wire.got) <= 2 * AHEAD_BYTES
    assert client.transport.get_write_buffer_size() == len(data)
    assert client.is_paused
    while wire.unsent:
        wire.take()
    assert wire.got == data
    assert client.transport.get_write_buffer_size() == 0
    assert not client.is_paused


def test_small_answers_go_straight_on_and_in_their_order_behind_a_large_one(client: Client, wire: Wire) -> None:
    client.transport.write(b"first")
    assert wire.got == b"first"
    client.transport.write(b"x" * 3 * MIB)
    client.transport.write(b"last")
    assert not wire.got.endswith(b"last")
    while wire.unsent:
        wire.take()
    assert wire.got == b"first" + b"x" * 3 * MIB + b"last"


def test_a_close_lets_leave_what_was_written_and_hears_nothing_more(client: Client, wire: Wire) -> None:
    client.transport.write(b"x" * MIB)
    client.transport.close()
    client.transport.close()
    client.transport.write(b"too late")
    wire.above.buffer_updated(10)
    assert wire.calls == []
    while wire.unsent and not wire.calls:
        wire.take()
    assert wire.calls == ["close"]
    assert wire.got == b"x" * MIB
    assert client.heard == b""
    assert client.transport.is_closing()


def test_what_is_closed_may_be_asked_and_aborted_still(client: Client, wire: Wire) -> None:
    client.transport.close()
    client.transport.pause_reading()
    client.transport.resume_reading()
    assert client.transport.get_write_buffer_size() == 0
    client.transport.abort()
    assert wire.calls == ["close", "abort"]
    wire.above.connection_lost(None)
    assert client.is_lost


def test_an_abort_forgets_what_waits(client: Client, wire: Wire) -> None:
    client.transport.write(b"x" * 4 * MIB)
    client.transport.abort()
    assert client.transport.get_write_buffer_size() == 0
    wire.above.resume_writing()
    assert wire.calls == ["abort"]


def test_who_has_closed_its_side_is_written_to_no_more(client: Client, wire: Wire) -> None:
    client.transport.write(b"x" * 4 * MIB)
    assert wire.above.eof_received() is False
    wire.calls.append("the loop closes")
    wire.above.resume_writing()
    client.transport.write(b"more")
    assert client.transport.get_write_buffer_size() == 0


# ------------------------------------------------------------------------------------------------------ with real loops


class Large(Client):
    """Sends much, and notes how much the loop holds at most."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=MIB)
        self.transport.write(b"\1" * self.size)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.done.set_result(None)


async def made(served: list[Large]) -> Large:
    """Wait for the first connection: a client of TLS 1.3 ends its handshake before the server does."""
    async with asyncio.timeout(5):
        while not (served and hasattr(served[0], "transport")):  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)
    return served[0]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_either_loop_counts_what_a_silent_reader_leaves_and_ends_it(run: Run, tmp_path: Path) -> None:
    folder = Folder(tmp_path)

    async def serve() -> None:
        tls = ListeningTls(folder.own(), None)
        served: list[Large] = []

        def client() -> Large:
            served.append(Large(64 * MIB))
            return served[-1]

        server = await listen_at(client, "127.0.0.1", 0, tls)
        port = server.sockets[0].getsockname()[1]
        silent = await asyncio.to_thread(dial, port, folder.trusting())
        with silent:
            large = await made(served)
            assert large.is_paused
            left = large.transport.get_write_buffer_size()
            assert left > 64 * MIB - 16 * MIB, "all but what the system's buffers took"
            got = await asyncio.to_thread(read, silent, 32 * MIB)
            assert got == 32 * MIB
            async with asyncio.timeout(5):
                while large.transport.get_write_buffer_size() >= left - 16 * MIB:  # noqa: ASYNC110  it has no event
                    await asyncio.sleep(0.01)
            large.transport.close()
            large.transport.abort()
            await asyncio.wait_for(large.done, 5)
        server.close()

    run(serve())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_either_loop_sends_all_that_was_written_before_a_close(run: Run, tmp_path: Path) -> None:
    folder = Folder(tmp_path)

    async def serve() -> None:
        tls = ListeningTls(folder.own(), None)
        served: list[Large] = []

        def client() -> Large:
            served.append(Large(20 * MIB))
            return served[-1]

        server = await listen_at(client, "127.0.0.1", 0, tls)
        peer = await asyncio.to_thread(dial, server.sockets[0].getsockname()[1], folder.trusting())
        with peer:
            (await made(served)).transport.close()
            assert await asyncio.to_thread(read, peer, 30 * MIB) == 20 * MIB
        await asyncio.wait_for(served[0].done, 5)
        server.close()

    run(serve())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_beyond_the_most_handshakes_under_way_connections_are_closed_until_others_are_over(
    run: Run, tmp_path: Path
) -> None:
    folder = Folder(tmp_path)
    failed: list[str] = []
    gauges: dict[str, int] = {}

    async def serve() -> None:
        tls = ListeningTls(folder.own(), None, most_handshakes=3)
        tls.report_to(gauges, failed.append)
        server = await listen_at(lambda: Large(1), "127.0.0.1", 0, tls)
        port = server.sockets[0].getsockname()[1]
        halves = [await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port)) for _ in range(3)]
        while tls.handshakes.under_way < 3:  # noqa: ASYNC110  the loop accepts meanwhile
            await asyncio.sleep(0.01)
        with pytest.raises(OSError, match=r".*"):
            await asyncio.to_thread(dial, port, folder.trusting())
        halves[0].sendall(b"no TLS at all")
        assert await asyncio.to_thread(halves[0].recv, 100) == b""
        (await asyncio.to_thread(dial, port, folder.trusting())).close()
        assert failed == ["tls_handshakes_failed"] * 2
        for half in halves:
            half.close()
        server.close()

    run(serve())
    assert gauges == {"tls_certificate_expiry_timestamp_seconds": folder.ends_s}


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_who_hangs_up_before_a_handshake_is_over_keeps_nobody_out(
    run: Run, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = Folder(tmp_path)
    failed: list[str] = []
    gc.freeze()  # what other tests left is not collected here
    request.addfinalizer(gc.unfreeze)

    async def serve() -> None:
        tls = ListeningTls(folder.own(), None, most_handshakes=3)
        tls.report_to({}, failed.append)
        server = await listen_at(lambda: Large(1), "127.0.0.1", 0, tls)
        port = server.sockets[0].getsockname()[1]
        for _ in range(3):
            (await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port))).close()
        async with asyncio.timeout(HANDSHAKE_S / 2):
            while len(failed) < 3 or tls.handshakes.under_way:
                await asyncio.sleep(0.01)
                gc.collect()  # asyncio's own loop leaves it to that, uvloop lets go at once
        (await asyncio.to_thread(dial, port, folder.trusting())).close()
        server.close()

    run(serve())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_who_is_not_let_in_is_told_why_unless_too_many_are(run: Run, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    failed: list[str] = []

    async def serve() -> None:
        tls = ListeningTls(folder.own(), PemFile("tls.client.ca.location", str(folder.ca)))
        tls.report_to({}, failed.append)
        server = await listen_at(lambda: Large(1), "127.0.0.1", 0, tls)
        port = server.sockets[0].getsockname()[1]
        said = [await asyncio.to_thread(refusal, port, folder.trusting()) for _ in range(2)]
        assert all("certificate required" in one for one in said), said
        assert (tls.handshakes.under_way, tls.handshakes.lingering) == (0, 2)
        tls.handshakes.lingering = 100
        assert "certificate required" not in await asyncio.to_thread(refusal, port, folder.trusting())
        (await asyncio.to_thread(dial, port, folder.trusting(shows=True))).close()
        server.close()

    run(serve())
    assert failed == ["tls_handshakes_failed"] * 3


def refusal(port: int, context: ssl.SSLContext) -> str:
    try:
        with dial(port, context) as client:
            return "closed" if client.recv(1) == b"" else "let in"
    except OSError as error:
        return str(error)


async def test_handshakes_are_counted_to_the_most() -> None:
    handshakes = Handshakes(1)
    handshakes.begin()
    with pytest.raises(ssl.SSLError):
        handshakes.begin()
    handshakes.over()
    handshakes.begin()
    assert handshakes.under_way == 1


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_what_came_while_reading_was_paused_is_read_though_its_client_has_closed(run: Run, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    sent = bytes(range(256)) * 800

    said = threading.Event()

    def say_and_close(port: int) -> None:
        with dial(port, folder.trusting()) as peer:
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            said.set()
            read(peer, MIB)  # until the server closes: unread bytes would reset the connection

    async def serve() -> None:
        served: list[Large] = []

        def client() -> Large:
            served.append(Large(0))
            return served[-1]

        server = await listen_at(client, "127.0.0.1", 0, ListeningTls(folder.own(), None))
        saying = asyncio.create_task(asyncio.to_thread(say_and_close, server.sockets[0].getsockname()[1]))
        one = await made(served)
        one.transport.pause_reading()
        await asyncio.to_thread(said.wait)
        await asyncio.wait([one.done], timeout=0.5)  # uvloop closes now; asyncio waits for what is paused
        one.transport.resume_reading()
        await one.done
        await saying
        server.close()
        assert (len(one.heard), bytes(one.heard)) == (len(sent), sent)

    run(serve())


def dial(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=10)
    try:
        return context.wrap_socket(plain, server_hostname="127.0.0.1")
    except OSError:
        plain.close()
        raise


def read(peer: ssl.SSLSocket, most: int) -> int:
    got = 0
    while got < most and (data := peer.recv(min(MIB, most - got))):
        got += len(data)
    return got


# ------------------------------------------------------------------------------------------------------------ from keys


def config(*settings: str) -> Config:
    return load_config([part for one in settings for part in ("--set", one)], {}, lambda _: b"")


def test_without_keys_nothing_is_secured() -> None:
    assert (listening_tls(Config()), upstream_tls(Config()), upstream_login(Config())) == (None, None, None)


def test_keys_name_the_files_and_say_which_is_wrong(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert listening_tls(config(*folder.listening(clients_show=True))) is not None
    one_file = config(f"tls.certificate.location={folder.client}")
    assert listening_tls(one_file) is not None
    towards = ("upstream.security.protocol=SSL", f"upstream.ssl.ca.location={folder.ca}")
    tls = upstream_tls(config(*towards, f"upstream.ssl.certificate.location={folder.client}"))
    assert tls is not None
    assert tls.context().check_hostname
    lenient = upstream_tls(config(*towards, "upstream.ssl.endpoint.identification.algorithm=none"))
    assert lenient is not None
    assert not lenient.context().check_hostname
    assert lenient.context().verify_mode is ssl.CERT_REQUIRED
    assert upstream_tls(config("upstream.security.protocol=SSL")) is not None, "whom the system trusts"
    folder.ca.write_text("nothing")
    with pytest.raises(ConfigError, match=r"^upstream.ssl.ca.location = .*ca.pem: it holds no certificate in PEM$"):
        upstream_tls(config(*towards))
    with pytest.raises(ConfigError, match=r"^tls.client.ca.location = .*ca.pem: it holds no certificate in PEM$"):
        listening_tls(config(*folder.listening(clients_show=True)))


def test_a_login_has_a_mechanism() -> None:
    named = ("upstream.sasl.username=muster", "upstream.sasl.password=p")
    login = upstream_login(config(*named, "upstream.sasl.mechanism=SCRAM-SHA-256"))
    assert login is not None
    assert login.mechanism == "SCRAM-SHA-256"
