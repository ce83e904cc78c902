"""Work beside the event loop: jobs in a thread, and flushes that the kernel completes."""

import asyncio
import errno
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from coordinator.io.job_runners import JobThread
from coordinator.io.kernel_flush import KernelFlush, kernel_flush
from partition_log.wal.write_ahead_log import BlockWrite


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
        pytest.skip("the kernel does not offer native AIO here")
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
    path.touch()
    with path.open("rb") as file, pytest.raises(OSError, match="Bad file descriptor"):  # not for writing
        kernel.begin(BlockWrite(file.fileno(), 0, b"x"), lambda error: None)
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


async def test_a_sync_that_fails_is_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = await _kernel()
    failed = struct.Struct("<QQqq").pack(3, 0, -errno.EIO, 0)
    with (tmp_path / "log").open("wb") as file:
        monkeypatch.setattr(kernel, "_problem", partial(_with, kernel._problem, failed))
        error = await _flush(kernel, file.fileno(), b"x")
    assert error is not None
    assert error.errno == errno.EIO
    kernel.close()


def _with(problem: Callable[[dict[int, int]], OSError | None], event: bytes, results: dict[int, int]) -> OSError | None:
    what, _block, result, _second = struct.unpack("<QQqq", event)
    return problem({**results, what: result})


async def test_what_cannot_be_flushed_is_refused_and_others_are_flushed(tmp_path: Path) -> None:
    kernel = await _kernel()
    reading, writing = os.pipe()
    with pytest.raises(OSError, match=r"Illegal seek|Invalid argument|not its sync"):
        kernel.begin(BlockWrite(writing, 0, b"x"), lambda error: None)
    os.close(reading)
    os.close(writing)
    kernel.close()
    kernel = await _kernel()
    with (tmp_path / "log").open("wb") as file:
        assert await _flush(kernel, file.fileno(), b"x") is None
    kernel.close()


async def test_another_system_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert kernel_flush(asyncio.get_running_loop()) is None
