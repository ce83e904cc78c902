"""Where the node's jobs run: beside the loop, all of them.

A write to the page cache waits while the file system stands still: while a backup freezes it, while dirty pages are
throttled, while an NFS server is away. So does an `open` that may make a file. In the loop every heartbeat would wait
with it, and sessions would end. So the loop only reads, by files that were opened for nothing else.
"""

from collections.abc import Callable
from typing import Any, Protocol

from coordinator.node.effects import Flush, RunJob
from coordinator.node.events import Event, Flushed, JobDone
from partition_log.disk.disk import Disk


class Runner(Protocol):
    """Runs jobs one at a time, in order, and not in the loop."""

    def run(self, job: Any, disk: Disk, done: Callable[[], None]) -> None:
        """Return at once. `done` is called in the loop when the job has run; the process ends if it fails."""


class DiskJobs:
    """Carries out the effects that bring a job, and lets happen what came of it."""

    def __init__(self, disk: Disk, flushing: Runner, working: Runner, happen: Callable[[Event], None]) -> None:
        self._disk = disk
        self._flushing = flushing
        self._working = working
        self._happen = happen

    def flush(self, effect: Flush) -> None:
        job = effect.job
        self._flushing.run(job, self._disk, lambda: self._happen(Flushed(job.up_to)))

    def ask(self, effect: RunJob) -> None:
        """A checkpoint may take seconds: a flush never waits for one."""
        call_id, job = effect.call_id, effect.job
        self._working.run(job, self._disk, lambda: self._happen(JobDone(call_id, job)))
