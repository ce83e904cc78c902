"""EDGE: runners of disk jobs: threads outside the loop, which call back in the loop when a job is done.

A thread takes the interpreter's lock several times a job, and each time the loop and the thread wait for each other:
that was a quarter of the cost of a commit. The loop must not write by itself either (`disk_jobs.py`). So a flush of a
single write goes to the kernel if it has io_uring (`kernel_flush.py`): the loop submits it, without a thread.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from coordinator.io.exit import exit_on_error
from coordinator.io.kernel_flush import kernel_flush
from partition_log.disk.disk import Disk
from partition_log.store.jobs import FlushJob


class JobThread(threading.Thread):
    """Runs jobs outside the loop, one at a time, in order. An executor would create an unused future for each."""

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
    """Runs jobs in a separate thread. A job that fails ends the process."""

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
    """Runs flushes: those of a single write, as nearly all are, by io_uring if available; others in the thread."""

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

        with exit_on_error(self._what):
            kernel.begin(job.writes[0], ended)

    def finish(self) -> None:
        super().finish()
        if self._kernel is not None:
            self._kernel.close()
