"""EDGE: a flush of the write-ahead log by Linux's native AIO.

A thread submits it with one call, in which the write may block. The kernel then syncs by itself and notifies the loop
by an eventfd. That saves the thread's turns at the interpreter's lock (`job_runners.py`).
"""

import asyncio
import ctypes
import errno
import os
import platform
import sys
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from partition_log.wal.write_ahead_log import BlockWrite


class _Calls(NamedTuple):
    """System call numbers of Linux's native AIO (io_setup(2) …), for which the C library has no functions."""

    setup: int
    destroy: int
    submit: int
    getevents: int


_CALLS: Final = {"x86_64": _Calls(206, 207, 209, 208), "aarch64": _Calls(0, 1, 2, 4)}
_CONTROL_BLOCK: Final = Struct("<QIiHhIQQqQII")
"""`struct iocb`: data, key, flags, opcode, priority, file, buffer, bytes, offset, reserved, flags, eventfd."""
_WRITE: Final = 1
_DATASYNC: Final = 3
_TELL_BY_EVENTFD: Final = 1
_EVENT: Final = Struct("<QQqq")
"""`struct io_event`: data, control block, result, second result."""

Ended = Callable[[OSError | None], None]


class KernelFlush:
    """Writes one block at a time and syncs it as fdatasync(2) does. Raises OSError where the kernel has no native AIO:
    containers may forbid it, and only Linux has it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        has_64_bits = sys.maxsize > 1 << 32  # a smaller process on the same machine has other numbers
        calls = _CALLS.get(platform.machine()) if sys.platform == "linux" and has_64_bits else None
        if calls is None:
            raise OSError("no native AIO that is known here")
        self._calls = calls
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._context = ctypes.c_ulong(0)
        self._blocks = [ctypes.create_string_buffer(_CONTROL_BLOCK.size) for _ in range(2)]
        self._both = (ctypes.c_void_p * 2)(*[ctypes.addressof(block) for block in self._blocks])
        self._events = ctypes.create_string_buffer(2 * _EVENT.size)
        self._size = 0
        self._tell: Ended | None = None
        self._checked(self._call(calls.setup, 2, ctypes.byref(self._context)))
        self._told = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._loop = loop
        loop.add_reader(self._told, self._ended)

    def begin(self, write: BlockWrite, ended: Ended) -> None:
        """Not to be called by the loop: the write, to the page cache, is done when this returns, and may wait. `ended`
        is called by the loop when it is durable, or with why it may not be. Raises OSError if it cannot be begun. One
        at a time."""
        assert self._tell is None, "a flush is under way"
        self._tell, self._size = ended, len(write.data)
        data = ctypes.cast(ctypes.c_char_p(write.data), ctypes.c_void_p).value
        writing, syncing = self._blocks
        _CONTROL_BLOCK.pack_into(
            writing, 0, _WRITE, 0, 0, _WRITE, 0, write.handle, data, self._size, write.position, 0, 0, 0
        )
        _CONTROL_BLOCK.pack_into(
            syncing, 0, _DATASYNC, 0, 0, _DATASYNC, 0, write.handle, 0, 0, 0, 0, _TELL_BY_EVENTFD, self._told
        )
        # The kernel takes the blocks in order: the write to the page cache has ended before the sync begins.
        begun = self._call(self._calls.submit, self._context, 2, self._both)
        if begun != 2:
            self._tell = None
            self._checked(begun)
            raise OSError(errno.EINVAL, "the kernel took a write, and not its sync")

    def _ended(self) -> None:
        os.eventfd_read(self._told)
        self._checked(self._call(self._calls.getevents, self._context, 2, 2, self._events, None))
        ended, self._tell = self._tell, None
        assert ended is not None
        ended(self._problem({what: result for what, _block, result, _second in _EVENT.iter_unpack(self._events.raw)}))

    def _problem(self, results: dict[int, int]) -> OSError | None:
        worst = min(results.values())
        if worst < 0:
            return OSError(-worst, os.strerror(-worst))
        if results[_WRITE] != self._size:
            return OSError(errno.EIO, f"{results[_WRITE]} of {self._size} bytes were written")
        return None

    def close(self) -> None:
        """Release the context. No flush may be under way."""
        self._loop.remove_reader(self._told)
        os.close(self._told)
        self._call(self._calls.destroy, self._context)

    @staticmethod
    def _checked(result: int) -> None:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def kernel_flush(loop: asyncio.AbstractEventLoop) -> KernelFlush | None:
    """Return the kernel's flush; None where it has none, and a thread must write and sync."""
    try:
        return KernelFlush(loop)
    except OSError:
        return None
