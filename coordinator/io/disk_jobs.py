"""Runs the node's disk jobs outside the event loop.

A write to the page cache, or an `open` that may create a file, blocks while the file system does: while a backup
freezes it, while dirty pages are throttled, while an NFS server is unreachable. In the event loop every heartbeat would
wait for it, and sessions would expire. So the loop only reads, from files that are open already.
"""

from collections.abc import Callable
from typing import Any, Protocol

from coordinator.node.effects import Flush, RunJob
from coordinator.node.events import Event, Flushed, JobDone
from partition_log.disk.disk import Disk


class JobRunner(Protocol):
    """Runs jobs one at a time, in order, outside the loop."""

    def run(self, job: Any, disk: Disk, done: Callable[[], None]) -> None:
        """Queue the job and return. `done` is called in the loop when the job has run; a job that fails ends the
        process."""


class DiskJobs:
    """Carries out `Flush` and `RunJob` effects, and steps the node with their completions."""

    def __init__(self, disk: Disk, flushing: JobRunner, working: JobRunner, happen: Callable[[Event], None]) -> None:
        self._disk = disk
        self._flushing = flushing
        self._working = working
        self._happen = happen

    def flush(self, effect: Flush) -> None:
        job = effect.job
        self._flushing.run(job, self._disk, lambda: self._happen(Flushed(job.up_to)))

    def run(self, effect: RunJob) -> None:
        """Run the job separately from flushes, which must not wait for a checkpoint: it may take seconds."""
        call_id, job = effect.call_id, effect.job
        self._working.run(job, self._disk, lambda: self._happen(JobDone(call_id, job)))
