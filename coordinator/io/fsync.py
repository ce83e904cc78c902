"""EDGE: what runs beside the loop, and tells it when it is done.

A `Worker` runs jobs in a thread. It takes the interpreter's lock several times a job, and each time the loop and the
thread wait for each other: that was a quarter of what a commit cost. So what is flushed mostly, a few kilobytes in one
place, needs no thread: the loop writes it to the page cache, and the kernel syncs it by itself (`KernelSync`).
"""

import asyncio
import ctypes
import os
import platform
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from struct import Struct
from typing import Final, NamedTuple


class Worker(threading.Thread):
    """Runs jobs beside the loop, one at a time, in order. An executor makes a future for each, and nobody asks it."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.submit = self._jobs.put
        self.start()

    def run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def finish(self) -> None:
        """Returns when all jobs are done."""
        self._jobs.put(None)
        self.join()


class _Calls(NamedTuple):
    """The numbers of Linux's native AIO (io_setup(2) and its kin): the C library has no functions for them."""

    setup: int
    destroy: int
    submit: int
    getevents: int


_CALLS: Final = {"x86_64": _Calls(206, 207, 209, 208), "aarch64": _Calls(0, 1, 2, 4)}
_CONTROL_BLOCK: Final = Struct("<QIiHhIQQqQII")
"""`struct iocb`: data, key, flags, what to do, priority, file, buffer, bytes, offset, reserved, flags, eventfd."""
_DATASYNC: Final = 3
_TELL_BY_EVENTFD: Final = 1
_EVENT_BYTES: Final = 32
_RESULT: Final = Struct("<q").unpack_from
_RESULT_AT: Final = 16

Synced = Callable[[OSError | None], None]


class KernelSync:
    """Syncs one file at a time as fdatasync(2) does, without a thread of ours. Raises OSError where the kernel does not
    offer it: containers may forbid it, and only Linux has it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        has_64_bits = sys.maxsize > 1 << 32  # a smaller process on the same machine has other numbers
        calls = _CALLS.get(platform.machine()) if sys.platform == "linux" and has_64_bits else None
        if calls is None:
            raise OSError("no native AIO that is known here")
        self._calls = calls
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._context = ctypes.c_ulong(0)
        self._block = ctypes.create_string_buffer(_CONTROL_BLOCK.size)
        self._blocks = ctypes.byref(ctypes.c_void_p(ctypes.addressof(self._block)))
        self._event = ctypes.create_string_buffer(_EVENT_BYTES)
        self._synced: Synced | None = None
        self._checked(self._call(calls.setup, 1, ctypes.byref(self._context)))
        self._told = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._loop = loop
        loop.add_reader(self._told, self._ended)

    def begin(self, handle: int, synced: Synced) -> None:
        """`synced` is called by the loop when what the file holds now is durable, or with why it may not be. Raises
        OSError if it cannot be begun. One at a time."""
        assert self._synced is None, "a sync is under way"
        _CONTROL_BLOCK.pack_into(
            self._block, 0, 0, 0, 0, _DATASYNC, 0, handle, 0, 0, 0, 0, _TELL_BY_EVENTFD, self._told
        )
        self._checked(self._call(self._calls.submit, self._context, 1, self._blocks))
        self._synced = synced

    def _ended(self) -> None:
        os.eventfd_read(self._told)
        self._checked(self._call(self._calls.getevents, self._context, 1, 1, self._event, None))
        (result,) = _RESULT(self._event, _RESULT_AT)
        synced, self._synced = self._synced, None
        assert synced is not None
        synced(OSError(-result, os.strerror(-result)) if result < 0 else None)

    def close(self) -> None:
        """None may be under way."""
        self._loop.remove_reader(self._told)
        os.close(self._told)
        self._call(self._calls.destroy, self._context)

    @staticmethod
    def _checked(result: int) -> None:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def kernel_sync(loop: asyncio.AbstractEventLoop) -> KernelSync | None:
    """None where it does not go without a thread."""
    try:
        return KernelSync(loop)
    except OSError:
        return None
