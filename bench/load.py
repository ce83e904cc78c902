"""The load: many connections in one thread, one request outstanding on each, every reply checked.

Lean, so that the server is what is measured: the frames are made before, a reply is compared with the bytes that the
connection's first one had, and an epoll, a receive and a send are all that is done for a request.
"""

import select
import socket
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgpack

from bench.frames import Frame, UnexpectedReply, check
from bench.processes import ServerProcess

Clock = Callable[[], float]
_WAIT_S = 30.0


class Measured(NamedTuple):
    """Result of one stretch of load."""

    requests: int
    seconds: float
    cpu_s: float
    """Processor time of the server."""
    own_cpu_s: float
    """Processor time of this generator."""

    @property
    def cpu_us(self) -> float:
        """Microseconds of the server's processor a request."""
        return self.cpu_s / self.requests * 1e6

    @property
    def a_second(self) -> float:
        return self.requests / self.seconds

    @property
    def latency_ms(self) -> float:
        """Milliseconds a request, where there is but one connection."""
        return self.seconds / self.requests * 1e3


class Line:
    """A connection with its request."""

    __slots__ = ("expected", "fileno", "frame", "number", "socket")

    def __init__(self, address: tuple[str, int], number: int) -> None:
        self.socket = socket.create_connection(address, _WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fileno = self.socket.fileno()
        self.number = number
        self.frame: Frame
        self.expected = b""

    def use(self, frame: Frame, *, checked: bool = True) -> None:
        """Send it once; what the server says now it should say each time."""
        self.frame = frame
        frame.set_offset(1)
        self.socket.settimeout(_WAIT_S)
        self.socket.sendall(frame.data)
        unpacker, self.expected = msgpack.Unpacker(), b""
        while True:
            data = self.socket.recv(1 << 16)
            if not data:
                raise UnexpectedReply("the server closed the connection")
            self.expected += data
            unpacker.feed(data)
            for reply in unpacker:
                if checked:
                    check(reply, self.number)
                return

    def close(self) -> None:
        self.socket.close()


def run_load(
    server: ServerProcess, lines: Sequence[Line], seconds: float, *, warm_up_s: float = 0.2, offsets: bool = False
) -> Measured:
    """Keep one request outstanding on each line; measured after the warm-up. `offsets`: each request commits a higher
    one than the one before it."""
    poll = select.epoll()
    by_fileno = {line.fileno: line for line in lines}
    for line in lines:
        line.socket.setblocking(False)
        poll.register(line.fileno, select.EPOLLIN)
        line.socket.send(line.frame.data)
    step = _with_offsets if offsets else _plain
    requests = step(poll, by_fileno, time.perf_counter() + warm_up_s, 1)
    cpu, own, began = server.cpu_s(), time.process_time(), time.perf_counter()
    measured = step(poll, by_fileno, began + seconds, requests + 1)
    took, cpu, own = time.perf_counter() - began, server.cpu_s() - cpu, time.process_time() - own
    poll.close()
    for line in lines:
        line.socket.settimeout(_WAIT_S)
        line.socket.recv(1 << 16)
    return Measured(measured, took, cpu, own)


def _plain(poll: select.epoll, lines: dict[int, Line], ends: float, first: int) -> int:
    clock, count = time.perf_counter, 0
    while clock() < ends:
        for fileno, _ in poll.poll(_WAIT_S):
            line = lines[fileno]
            if line.socket.recv(65536) != line.expected:
                raise UnexpectedReply(f"request {line.number} was answered otherwise than before")
            line.socket.send(line.frame.data)
            count += 1
    return count


def _with_offsets(poll: select.epoll, lines: dict[int, Line], ends: float, first: int) -> int:
    clock, count = time.perf_counter, 0
    while clock() < ends:
        for fileno, _ in poll.poll(_WAIT_S):
            line = lines[fileno]
            if line.socket.recv(65536) != line.expected:
                raise UnexpectedReply(f"request {line.number} was answered otherwise than before")
            line.frame.set_offset(first + count)
            line.socket.send(line.frame.data)
            count += 1
    return count
