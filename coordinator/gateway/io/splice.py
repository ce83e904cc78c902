"""EDGE: bytes that go from a broker's socket to a client's inside the kernel, without a visit here: Linux's `splice`.

None of it has to succeed. What does not go this way is read and handed over like all other bytes.
"""

import asyncio
import contextlib
import fcntl
import os
import sys
from collections.abc import Callable
from typing import Final

PIPE_BYTES: Final = 256 * 1024
"""Under way inside the kernel, a pass, at most."""
MAX_PASSES: Final = 64
"""At a time. Linux gives an ordinary user room for four times as many pipes of this size."""
FILES_A_PASS: Final = 4
_TURN_BYTES: Final = 1024 * 1024
"""Moved in one go, before others of the loop have their turn."""
_TOLD_EVERY_S: Final = 1.0
"""How much has gone. At every move, it would cost more than the moves."""


class Pipe:
    """Empty while nobody has it."""

    __slots__ = ("inlet", "outlet")

    def __init__(self) -> None:
        self.outlet, self.inlet = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a smaller one is only slower
            fcntl.fcntl(self.inlet, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def close(self) -> None:
        os.close(self.outlet)
        os.close(self.inlet)


class Pipes:
    """Those of all passes, made when they are needed and kept for the next."""

    __slots__ = ("_free", "_used")

    def __init__(self) -> None:
        self._free: list[Pipe] = []
        self._used = 0

    def take(self) -> Pipe | None:
        """None: there are passes enough. Raises OSError where no more files are allowed."""
        if self._used == MAX_PASSES:
            return None
        pipe = self._free.pop() if self._free else Pipe()
        self._used += 1
        return pipe

    def put_back(self, pipe: Pipe, *, is_empty: bool) -> None:
        self._used -= 1
        if is_empty:
            self._free.append(pipe)
        else:
            pipe.close()


class Passing:
    """The next `size` bytes from one socket to another. Until it is over nobody else may read from the one or write to
    the other. It ends with the last of them, where one of the sockets ends, and by `end`.

    `passed(count, is_over)` is told how many have gone since it was told last, as they go.
    """

    __slots__ = (
        "_held",
        "_left",
        "_loop",
        "_passed",
        "_pipe",
        "_pipes",
        "_source",
        "_target",
        "_told",
        "_told_s",
        "_waits_for",
    )

    def __init__(
        self, pipes: Pipes, pipe: Pipe, source: int, target: int, size: int, passed: Callable[[int, bool], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipes = pipes
        self._pipe = pipe
        # Files of their own: the loop lets nobody wait for those of its transports, and these are not taken for another
        # connection's when a transport has closed its own.
        self._source, self._target = os.dup(source), -1
        try:
            self._target = os.dup(target)
        except OSError:
            os.close(self._source)
            raise
        self._left = self._told = size
        self._held = 0
        """What is in the pipe."""
        self._waits_for = -1
        self._told_s = self._loop.time()
        self._passed = passed

    @property
    def is_torn(self) -> bool:
        """Whether bytes have left the one socket that will never reach the other: nothing may follow them there."""
        return self._held > 0

    @property
    def is_held_up(self) -> bool:
        """Whether it is the target that takes nothing."""
        return self._waits_for == self._target

    def run(self) -> None:
        """As far as it goes now, and on whenever it can. The target must have taken what it was given before."""
        if self._source < 0:
            return
        is_over = False
        try:
            is_over = self._move()
            if not is_over:
                self._wait_no_more()
                self._loop.call_soon(self.run)
        except BlockingIOError:
            self._wait_for(self._target if self._held else self._source)
        except OSError:
            is_over = True  # why, the socket's transport will hear
        if is_over:
            self.end()
        if is_over or self._loop.time() - self._told_s > _TOLD_EVERY_S:
            count, self._told, self._told_s = self._told - self._left, self._left, self._loop.time()
            self._passed(count, is_over)

    def _move(self) -> bool:
        """Whether there is an end to it; False: others have their turn. Raises OSError."""
        stop = max(self._left - _TURN_BYTES, 0)
        while self._left > stop:
            if not self._held:
                self._held = _splice(self._source, self._pipe.inlet, min(self._left, PIPE_BYTES))
                if not self._held:
                    return True
            gone = _splice(self._pipe.outlet, self._target, self._held)
            self._held -= gone
            self._left -= gone
        return not self._left

    def _wait_for(self, file: int) -> None:
        if file == self._waits_for:
            return
        self._wait_no_more()
        self._waits_for = file
        if file == self._source:
            self._loop.add_reader(file, self.run)
        else:
            self._loop.add_writer(file, self.run)

    def _wait_no_more(self) -> None:
        if self._waits_for == self._source:
            self._loop.remove_reader(self._source)
        elif self._waits_for == self._target:
            self._loop.remove_writer(self._target)
        self._waits_for = -1

    def end(self) -> None:
        """Here and now; nothing is told any more. Again, it does nothing."""
        if self._source < 0:
            return
        self._wait_no_more()
        os.close(self._source)
        os.close(self._target)
        self._source = self._target = -1
        self._pipes.put_back(self._pipe, is_empty=not self._held)


def can_pass(*transports: asyncio.Transport) -> bool:
    """Whether bytes may go by themselves between the sockets of these."""
    return sys.platform == "linux" and all(each.get_extra_info("ssl_object") is None for each in transports)


def begin(
    pipes: Pipes,
    source: asyncio.Transport,
    target: asyncio.Transport,
    size: int,
    passed: Callable[[int, bool], None],
) -> Passing | None:
    """A pass that is yet to be `run`, between transports that can. None: not now."""
    if source.is_closing() or target.is_closing():  # their files may be another's by now
        return None
    try:
        pipe = pipes.take()
        if pipe is None:
            return None
        try:
            return Passing(pipes, pipe, _file_of(source), _file_of(target), size, passed)
        except OSError:
            pipes.put_back(pipe, is_empty=True)
            raise
    except OSError:
        return None  # no more files


def _file_of(transport: asyncio.Transport) -> int:
    file: int = transport.get_extra_info("socket").fileno()
    return file


def _splice(source: int, target: int, most: int) -> int:
    return os.splice(source, target, most, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)
