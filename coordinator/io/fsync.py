"""EDGE: threads and kernel calls that run disk jobs outside the loop, and call back in the loop when a job is done.

A thread takes the interpreter's lock several times a job, and each time the loop and the thread wait for each other:
that was a quarter of the cost of a commit. The loop must not write by itself either (`disk_jobs.py`). So where the
kernel offers native AIO, a thread submits a flush with one call, in which the write may block. The kernel then syncs by
itself and notifies the loop by an eventfd (`KernelFlush`).
"""

import asyncio
import ctypes
import errno
import os
import platform
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from struct import Struct
from typing import Any, Final, NamedTuple

from coordinator.io.exit import exit_on_error
from partition_log.disk.disk import Disk
from partition_log.store.jobs import FlushJob
from partition_log.wal.write_ahead_log import BlockWrite


class JobThread(threading.Thread):
    """Runs jobs outside the loop, one at a time, in order. An executor would make an unused future for each."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.submit = self._jobs.put
        self.start()

    def run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def finish(self) -> None:
        """Return when all jobs are done."""
        self._jobs.put(None)
        self.join()


class JobThreadRunner:
    """Runs jobs in a thread of its own. A job that fails ends the process."""

    def __init__(self, what: str, loop: asyncio.AbstractEventLoop) -> None:
        self._what = what
        self._loop = loop
        self._thread = JobThread(what)

    def run(self, job: Any, disk: Disk, done: Callable[[], None]) -> None:
        """See `disk_jobs.JobRunner`."""

        def attempt() -> None:
            with exit_on_error(self._what):
                job.run(disk)
            self._loop.call_soon_threadsafe(done)

        self._thread.submit(attempt)

    def finish(self) -> None:
        """Return when all jobs are done."""
        self._thread.finish()


class FlushRunner(JobThreadRunner):
    """Runs flushes: one of a single write, as nearly all are, by the kernel where it can; others in the thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__("flush", loop)
        self._kernel = kernel_flush(loop)

    def run(self, job: FlushJob, disk: Disk, done: Callable[[], None]) -> None:
        kernel = self._kernel
        if kernel is None or len(job.writes) != 1:
            super().run(job, disk, done)
            return

        def ended(error: OSError | None) -> None:
            with exit_on_error(self._what):
                if error is not None:
                    raise OSError(error.errno, f"{error.strerror}: a flush of the write-ahead log")
            done()

        def attempt() -> None:
            with exit_on_error(self._what):
                kernel.begin(job.writes[0], ended)

        self._thread.submit(attempt)

    def finish(self) -> None:
        super().finish()
        if self._kernel is not None:
            self._kernel.close()


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
