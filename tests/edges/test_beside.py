"""Work beside the event loop: jobs in a thread, and flushes that the kernel completes."""

import asyncio
import ctypes
import errno
import fcntl
import os
import resource
import signal
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from coordinator.io.job_runners import JobThread
from coordinator.io.kernel_flush import KernelFlush, kernel_flush
from partition_log.wal.wal_segment import BlockWrite


def test_a_worker_runs_its_jobs_in_order_and_finishes_them() -> None:
    worker, done = JobThread("test"), list[int]()
    for number in range(100):
        worker.submit(partial(done.append, number))
    worker.finish()
    assert done == list(range(100))


async def _flush(kernel: KernelFlush, handle: int, data: bytes, position: int = 0) -> OSError | None:
    ended: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    kernel.begin(BlockWrite(handle, position, data), ended.set_result)
    return await asyncio.wait_for(ended, 30)


async def _kernel() -> KernelFlush:
    kernel = kernel_flush(asyncio.get_running_loop())
    if kernel is None:
        pytest.skip("the kernel does not offer io_uring here")
    return kernel


async def test_the_kernel_writes_and_syncs_one_block_after_the_other(tmp_path: Path) -> None:
    kernel, path = await _kernel(), tmp_path / "log"
    with path.open("wb", buffering=0) as file:
        for number in range(3):
            assert await _flush(kernel, file.fileno(), b"%d" % number * 1_000, number * 1_000) is None
    assert path.read_bytes() == b"0" * 1_000 + b"1" * 1_000 + b"2" * 1_000
    kernel.close()


async def test_a_write_that_fails_is_heard_of(tmp_path: Path) -> None:
    kernel, path = await _kernel(), tmp_path / "log"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, limits[1]))
    try:
        with path.open("wb", buffering=0) as file:
            short = await _flush(kernel, file.fileno(), b"x" * 1_000)
            refused = await _flush(kernel, file.fileno(), b"x" * 1_000, 600)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert short is not None and short.strerror == "600 of 1000 bytes were written"
    assert refused is not None and refused.errno == errno.EFBIG
    kernel.close()


async def test_what_cannot_be_flushed_is_refused_and_others_are_flushed(tmp_path: Path) -> None:
    kernel, path = await _kernel(), tmp_path / "log"
    path.touch()
    full = os.open("/dev/full", os.O_WRONLY)
    with path.open("rb") as only_read:
        not_for_writing = await _flush(kernel, only_read.fileno(), b"x")
        no_space = await _flush(kernel, full, b"x")
    os.close(full)
    assert [error and error.errno for error in (not_for_writing, no_space)] == [errno.EBADF, errno.ENOSPC]
    with path.open("wb") as file:
        assert await _flush(kernel, file.fileno(), b"x") is None
    kernel.close()


async def test_the_loop_goes_on_while_a_write_waits() -> None:
    kernel, (reading, writing) = await _kernel(), os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4_096)
    os.write(writing, b"x" * 4_096)  # the next write waits until somebody reads
    ended: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    kernel.begin(BlockWrite(writing, 0, b"y"), ended.set_result)
    assert not ended.done()
    assert os.read(reading, 4_096) == b"x" * 4_096
    assert await asyncio.wait_for(ended, 30) is None
    assert os.read(reading, 1) == b"y"
    kernel.close()
    os.close(reading)
    os.close(writing)


async def test_a_kernel_without_io_uring_leaves_it_to_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(number: int, *arguments: object) -> int:
        ctypes.set_errno(errno.EPERM)
        return -1

    monkeypatch.setattr("ctypes.PyDLL", lambda name, use_errno: SimpleNamespace(syscall=forbidden))
    assert kernel_flush(asyncio.get_running_loop()) is None


async def test_another_system_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert kernel_flush(asyncio.get_running_loop()) is None
