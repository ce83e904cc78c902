"""EDGE: move bytes from a broker's socket to a client's inside the kernel, with Linux's `splice(2)`.

Splicing is optional: bytes that cannot be spliced are read and forwarded as usual.
"""

import asyncio
import contextlib
import fcntl
import os
import sys
from collections.abc import Callable
from typing import Final

PIPE_BYTES: Final = 256 * 1024
"""Capacity of one pipe, and so the most bytes of one transfer that are inside the kernel."""
MAX_TRANSFERS: Final = 64
"""Transfers at a time. Linux allows an unprivileged user four times as many pipes of this size
(`pipe-user-pages-soft`)."""
FILES_PER_TRANSFER: Final = 4
"""File descriptors of one transfer: both ends of a pipe and two duplicated sockets."""
_SLICE_BYTES: Final = 1024 * 1024
"""Bytes moved before other callbacks of the event loop run."""
_REPORT_EVERY_S: Final = 1.0
"""Interval of progress reports. A report for every move would cost more than the moves."""


class SplicePipe:
    """A pipe that is empty unless a transfer has it."""

    __slots__ = ("read_end", "write_end")

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a smaller pipe works, more slowly
            fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def close(self) -> None:
        os.close(self.read_end)
        os.close(self.write_end)


class PipePool:
    """Pipes of all transfers, opened when needed and kept for reuse."""

    __slots__ = ("_free", "_used")

    def __init__(self) -> None:
        self._free: list[SplicePipe] = []
        self._used = 0

    def acquire(self) -> SplicePipe | None:
        """Return a pipe; None at `MAX_TRANSFERS`. Raises OSError if no more files may be opened."""
        if self._used == MAX_TRANSFERS:
            return None
        pipe = self._free.pop() if self._free else SplicePipe()
        self._used += 1
        return pipe

    def release(self, pipe: SplicePipe, *, is_empty: bool) -> None:
        """Take back a pipe. One with bytes left in it is closed."""
        self._used -= 1
        if is_empty:
            self._free.append(pipe)
        else:
            pipe.close()


class SpliceTransfer:
    """A transfer of the next `size` bytes from one socket to another.

    Until it ends nothing else may read from the source or write to the target. It ends after the last byte, when either
    socket ends, or with `end`. `on_progress(count, is_over)` gets the bytes moved since the last report.
    """

    __slots__ = (
        "_left",
        "_loop",
        "_on_progress",
        "_pipe",
        "_piped",
        "_pipes",
        "_reported_left",
        "_reported_s",
        "_source",
        "_target",
        "_waits_for",
    )

    def __init__(
        self,
        pipes: PipePool,
        pipe: SplicePipe,
        source: int,
        target: int,
        size: int,
        on_progress: Callable[[int, bool], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipes = pipes
        self._pipe = pipe
        # Duplicated descriptors: asyncio refuses add_reader on a transport's own, and a duplicate cannot become another
        # connection's when the transport closes.
        self._source, self._target = os.dup(source), -1
        try:
            self._target = os.dup(target)
        except OSError:
            os.close(self._source)
            raise
        self._left = self._reported_left = size
        self._piped = 0
        """Bytes in the pipe."""
        self._waits_for = -1
        self._reported_s = self._loop.time()
        self._on_progress = on_progress

    @property
    def has_stranded_bytes(self) -> bool:
        """Return whether bytes read from the source can no longer reach the target: nothing may be sent after them."""
        return self._piped > 0

    @property
    def waits_for_target(self) -> bool:
        """Return whether the target's send buffer is full."""
        return self._waits_for == self._target

    def run(self) -> None:
        """Move bytes until a socket would block, and again once it is ready. The target's write buffer must be
        empty."""
        if self._source < 0:
            return
        is_over = False
        try:
            is_over = self._move()
            if not is_over:
                self._stop_waiting()
                self._loop.call_soon(self.run)
        except BlockingIOError:
            self._wait_for(self._target if self._piped else self._source)
        except OSError:
            is_over = True  # the socket's transport reports the error
        if is_over:
            self.end()
        if is_over or self._loop.time() - self._reported_s > _REPORT_EVERY_S:
            count, self._reported_left, self._reported_s = (
                self._reported_left - self._left,
                self._left,
                self._loop.time(),
            )
            self._on_progress(count, is_over)

    def _move(self) -> bool:
        """Move up to `_SLICE_BYTES`; return whether the transfer is over. Raises OSError."""
        stop = max(self._left - _SLICE_BYTES, 0)
        while self._left > stop:
            if not self._piped:
                self._piped = _splice(self._source, self._pipe.write_end, min(self._left, PIPE_BYTES))
                if not self._piped:
                    return True
            moved = _splice(self._pipe.read_end, self._target, self._piped)
            self._piped -= moved
            self._left -= moved
        return not self._left

    def _wait_for(self, file: int) -> None:
        if file == self._waits_for:
            return
        self._stop_waiting()
        self._waits_for = file
        if file == self._source:
            self._loop.add_reader(file, self.run)
        else:
            self._loop.add_writer(file, self.run)

    def _stop_waiting(self) -> None:
        if self._waits_for == self._source:
            self._loop.remove_reader(self._source)
        elif self._waits_for == self._target:
            self._loop.remove_writer(self._target)
        self._waits_for = -1

    def end(self) -> None:
        """End the transfer without a report. May be called again."""
        if self._source < 0:
            return
        self._stop_waiting()
        os.close(self._source)
        os.close(self._target)
        self._source = self._target = -1
        self._pipes.release(self._pipe, is_empty=not self._piped)


def can_splice(*transports: asyncio.Transport) -> bool:
    """Return whether bytes can be spliced between the sockets of these transports: on Linux, without TLS."""
    return sys.platform == "linux" and all(each.get_extra_info("ssl_object") is None for each in transports)


def start_splice(
    pipes: PipePool,
    source: asyncio.Transport,
    target: asyncio.Transport,
    size: int,
    on_progress: Callable[[int, bool], None],
) -> SpliceTransfer | None:
    """Return a transfer that is yet to `run`; None if the sockets are closing or no pipe is free."""
    if source.is_closing() or target.is_closing():  # the descriptor may belong to another connection by now
        return None
    try:
        pipe = pipes.acquire()
        if pipe is None:
            return None
        try:
            return SpliceTransfer(pipes, pipe, _fd_of(source), _fd_of(target), size, on_progress)
        except OSError:
            pipes.release(pipe, is_empty=True)
            raise
    except OSError:
        return None  # out of file descriptors


def _fd_of(transport: asyncio.Transport) -> int:
    file: int = transport.get_extra_info("socket").fileno()
    return file


def _splice(source: int, target: int, most: int) -> int:
    return os.splice(source, target, most, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)
