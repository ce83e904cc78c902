"""Bare servers, the measure of what the socket alone costs: `python -m bench.bare count|unpack`.

The same loop and the same kind of protocol class as the service (one shared receive buffer), and no service. `count`
looks for the frames' first bytes and answers as many constant replies; `unpack` lets `msgpack` make the request's
values and answers with its id, as any server in Python that speaks this protocol must at least do.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine
from typing import Any, cast

import msgpack

from bench.frames import FIRST_BYTES, NUMBER, heartbeat_reply

_BUFFER = memoryview(bytearray(64 * 1024))


class Counting(asyncio.BufferedProtocol):
    __slots__ = ("_write",)

    _reply = heartbeat_reply(0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast(asyncio.Transport, transport).write  # uvloop's is one by its methods only

    def get_buffer(self, sizehint: int) -> memoryview:
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        frames = bytes(_BUFFER[:nbytes]).count(FIRST_BYTES)
        self._write(self._reply * frames)


class Unpacking(Counting):
    __slots__ = ()

    _unpacker = msgpack.Unpacker()
    _head, _tail = heartbeat_reply(0).split(NUMBER.pack(0), 1)

    def buffer_updated(self, nbytes: int) -> None:
        unpacker = self._unpacker
        unpacker.feed(_BUFFER[:nbytes])
        self._write(b"".join([self._head + NUMBER.pack(number) + self._tail for _, number, _, _ in unpacker]))


KINDS: dict[str, type[Counting]] = {"count": Counting, "unpack": Unpacking}


async def _serve(kind: type[Counting]) -> None:
    server = await asyncio.get_running_loop().create_server(kind, "127.0.0.1", 0, backlog=1024)
    host, port = server.sockets[0].getsockname()
    print(f"ready native={host}:{port}", flush=True)
    await server.serve_forever()


def _runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.run
    return asyncio.run


if __name__ == "__main__":
    _runner()(_serve(KINDS[sys.argv[1]]))
