"""What runs beside the loop: jobs in a thread, and syncs that the kernel does by itself."""

import asyncio
import errno
import os
import sys
from functools import partial
from pathlib import Path

import pytest

from coordinator.io.fsync import KernelSync, Worker, kernel_sync


def test_a_worker_runs_its_jobs_in_order_and_finishes_them() -> None:
    worker, done = Worker("test"), list[int]()
    for number in range(100):
        worker.submit(partial(done.append, number))
    worker.finish()
    assert done == list(range(100))


async def _sync(kernel: KernelSync, handle: int) -> OSError | None:
    ended: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    kernel.begin(handle, ended.set_result)
    return await asyncio.wait_for(ended, 30)


async def _kernel() -> KernelSync:
    kernel = kernel_sync(asyncio.get_running_loop())
    if kernel is None:
        pytest.skip("the kernel does not offer native AIO here")
    return kernel


async def test_the_kernel_syncs_one_file_after_the_other(tmp_path: Path) -> None:
    kernel = await _kernel()
    with (tmp_path / "log").open("wb", buffering=0) as file:
        for _ in range(3):
            file.write(b"x" * 1_000)
            assert await _sync(kernel, file.fileno()) is None
    kernel.close()


async def test_a_disk_that_fails_is_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = await _kernel()
    monkeypatch.setattr("coordinator.io.fsync._RESULT", lambda event, at: (-errno.EIO,))
    with (tmp_path / "log").open("wb") as file:
        error = await _sync(kernel, file.fileno())
    assert error is not None
    assert error.errno == errno.EIO
    kernel.close()


async def test_what_cannot_be_synced_is_refused_and_others_are_synced(tmp_path: Path) -> None:
    kernel = await _kernel()
    reading, writing = os.pipe()
    with pytest.raises(OSError, match="Invalid argument"):
        kernel.begin(writing, lambda error: None)
    os.close(reading)
    os.close(writing)
    with (tmp_path / "log").open("wb") as file:
        assert await _sync(kernel, file.fileno()) is None
    kernel.close()


async def test_another_system_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert kernel_sync(asyncio.get_running_loop()) is None
