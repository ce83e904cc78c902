"""Bytes that pass from socket to socket inside the kernel: they are the same, whoever is slow, and whoever leaves takes
nothing with it that is not its own."""

import asyncio
import hashlib
import os
import random
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import uvloop

from coordinator.gateway.events import Spliced
from coordinator.gateway.io import splice
from coordinator.gateway.io.proxied_sockets import ProxiedClientProtocol
from coordinator.gateway.io.splice import PIPE_BYTES, PipePool, SpliceTransfer, can_splice, start_splice
from coordinator.gateway.io.supervisor import Supervisor
from coordinator.io.server import Server, read_clock
from coordinator.node.events import Event

MIB = 1 << 20
_RESET = struct.pack("ii", 1, 0)
Story = Callable[[], Awaitable[None]]


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def tell(request: pytest.FixtureRequest) -> Callable[[Story], None]:
    """Runs a story on a loop of either kind."""

    def run(story: Story) -> None:
        async def in_time() -> None:
            await asyncio.wait_for(story(), 20)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(in_time())

    return run


class Deaf(asyncio.Protocol):
    def __init__(self) -> None:
        self.is_lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


class Ends:
    """Two connections: `broker` talks to `source`, and `target` to `client`."""

    def __init__(self, far: list[socket.socket], near: list[tuple[asyncio.Transport, Deaf]]) -> None:
        self.broker, self.client = far
        (self.source, self.source_side), (self.target, self.target_side) = near
        self.pipes = PipePool()
        self.counts: list[int] = []
        self.over = asyncio.Event()

    def start_splice(self, size: int) -> SpliceTransfer:
        found = start_splice(self.pipes, self.source, self.target, size, self._passed)
        assert found is not None
        return found

    def _passed(self, count: int, is_over: bool) -> None:
        assert not self.over.is_set()
        self.counts.append(count)
        if is_over:
            self.over.set()

    def has_passed(self, count: int) -> bool:
        return sum(self.counts) == count

    async def read(self, size: int) -> bytes:
        loop, pieces = asyncio.get_running_loop(), []
        while size:
            pieces.append(await loop.sock_recv(self.client, min(size, 100_000)))
            assert pieces[-1]
            size -= len(pieces[-1])
        return b"".join(pieces)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.broker, data)


@asynccontextmanager
async def two_ends() -> AsyncIterator[Ends]:
    loop = asyncio.get_running_loop()
    far: list[socket.socket] = []
    near: list[tuple[asyncio.Transport, Deaf]] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        for _ in range(2):
            transport, protocol = await loop.create_connection(Deaf, *listener.getsockname())
            near.append((transport, protocol))
            accepted, _ = await loop.sock_accept(listener)
            far.append(accepted)
    ends = Ends(far, near)
    ends.source.pause_reading()
    try:
        yield ends
    finally:
        for one in far:
            one.close()
        for transport, _protocol in near:
            transport.abort()
        await asyncio.sleep(0)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0.001)


def some(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_what_passes_arrives_as_it_was_and_the_files_are_closed(tell: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with two_ends() as ends:
            await ends.send(b".")
            ends.start_splice(1).run()
            await ends.over.wait()
            ends.over.clear()
            ends.counts.clear()
            before = open_files()  # with the pipe that is kept
            data = some(5 * MIB + 7)
            one = ends.start_splice(len(data))
            asyncio.get_running_loop().call_soon(one.run)
            sending = asyncio.ensure_future(ends.send(data + b"more"))
            assert hashlib.sha256((await ends.read(1 + len(data)))[1:]).digest() == hashlib.sha256(data).digest()
            await ends.over.wait()
            await sending
            assert sum(ends.counts) == len(data)
            assert not one.has_stranded_bytes
            assert open_files() == before
            one.run()  # late: as a loop may
            ends.client.setblocking(False)
            with pytest.raises(BlockingIOError):
                ends.client.recv(1)  # what is behind it is not ours to take

    tell(story)


def test_a_client_that_reads_nothing_holds_a_pipe_and_no_more(tell: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with two_ends() as ends:
            data = some(24 * MIB)
            one = ends.start_splice(len(data))
            one.run()
            sending = asyncio.ensure_future(ends.send(data))
            done, _ = await asyncio.wait({sending}, timeout=0.3)
            assert not done
            assert 0 < one._piped <= PIPE_BYTES
            assert await ends.read(len(data)) == data
            await ends.over.wait()
            await sending

    tell(story)


def test_how_much_has_gone_is_told_now_and_then(tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splice, "_REPORT_EVERY_S", -1.0)

    async def story() -> None:
        async with two_ends() as ends:
            ends.start_splice(3).run()
            for number in range(3):
                await ends.send(b"x")
                assert await ends.read(1) == b"x"
                await until(partial(ends.has_passed, number + 1))
            await ends.over.wait()

    tell(story)


def test_a_broker_that_goes_ends_it_with_what_had_come(tell: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with two_ends() as ends:
            one = ends.start_splice(10 * MIB)
            one.run()
            await ends.send(b"first")
            assert await ends.read(5) == b"first"
            ends.broker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            ends.broker.close()
            await ends.over.wait()
            assert sum(ends.counts) == 5
            assert not one.has_stranded_bytes
            ends.source.resume_reading()
            await until(lambda: ends.source_side.is_lost)  # its transport hears it too

    tell(story)


def test_a_client_that_goes_ends_it_and_what_was_on_its_way_is_torn(tell: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with two_ends() as ends:
            before = open_files()
            one = ends.start_splice(100 * MIB)
            one.run()
            sending = asyncio.ensure_future(ends.send(bytes(24 * MIB)))
            await until(lambda: one._waits_for == one._target)
            ends.target.pause_reading()  # so nobody else hears it
            ends.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            ends.client.close()
            await ends.over.wait()
            assert one.has_stranded_bytes
            assert open_files() == before - 1  # the pipe is not kept with somebody's bytes in it
            sending.cancel()

    tell(story)


def test_ended_from_outside_it_tells_nothing_more(tell: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with two_ends() as ends:
            before = open_files()
            one = ends.start_splice(10)
            one.run()
            one.end()
            one.end()
            await ends.send(b"x" * 10)
            await asyncio.sleep(0.01)
            assert ends.counts == []
            assert open_files() == before + 2  # the pipe is empty, and kept
            assert ends.start_splice(10) is not None
            assert open_files() == before + 4

    tell(story)


def test_beyond_so_many_passes_and_open_files_there_is_none(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with two_ends() as ends:
            monkeypatch.setattr(splice, "MAX_TRANSFERS", 1)
            one = ends.start_splice(10)
            assert start_splice(ends.pipes, ends.source, ends.target, 10, ends._passed) is None
            one.end()
            before = open_files()
            dup, left = os.dup, [1]

            def scarce(file: int) -> int:
                if not left:
                    raise OSError(24, "Too many open files")
                left.pop()
                return dup(file)

            monkeypatch.setattr(os, "dup", scarce)
            assert start_splice(ends.pipes, ends.source, ends.target, 10, ends._passed) is None
            monkeypatch.undo()
            assert open_files() == before
            ends.start_splice(10).end()
            ends.target.abort()
            assert (
                start_splice(ends.pipes, ends.source, ends.target, 10, ends._passed) is None
            )  # its file may be another's

    tell(story)


def test_what_is_encrypted_does_not_pass_by_itself() -> None:
    plain, secret = (
        cast(asyncio.Transport, SimpleNamespace(get_extra_info={"ssl_object": of}.get)) for of in (None, object())
    )
    assert can_splice(plain, plain)
    assert not can_splice(plain, secret)
    assert not can_splice(secret, plain)


def test_what_passes_waits_until_the_client_has_what_it_was_given_before(tell: Callable[[Story], None]) -> None:
    async def story() -> None:
        loop, events = asyncio.get_running_loop(), list[Event]()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            place = listener.getsockname()
            server = SimpleNamespace(
                receive_buffer=memoryview(bytearray(MIB)),
                happen=events.append,
                opened=lambda *_: 1,
                lost=events.append,
                moment=read_clock(),
            )
            beside = SimpleNamespace(pipes=PipePool(), address_of=lambda broker: place, tls=lambda: None)
            proxied = ProxiedClientProtocol(cast(Server, server), cast(Supervisor, beside), 1)
            await loop.create_connection(lambda: proxied, *place)
            client, _ = await loop.sock_accept(listener)
            proxied.forward(b"asked")
            broker, _ = await loop.sock_accept(listener)
            with client, broker:
                assert await loop.sock_recv(broker, 5) == b"asked"
                assert proxied.transport is not None
                given = some(16 * MIB)
                proxied.transport.write(given)
                await loop.sock_sendall(broker, b"passing")
                proxied.splice_next(7)
                await until(lambda: proxied.upstream is not None and proxied.upstream._transfer is not None)
                assert proxied.upstream is not None
                assert proxied.upstream._transfer is not None
                assert proxied.upstream._transfer._piped == 0
                got = bytearray()
                while len(got) < len(given) + 7:
                    got += await loop.sock_recv(client, MIB)
                assert got == given + b"passing"
                await until(lambda: Spliced(1, 7) in events)
                proxied.transport.abort()
                await until(lambda: proxied.transport is None)

    tell(story)
