"""Writes and swaps of compaction that wait for the next checkpoint job, the only one that renames or removes files."""

from partition_log.log.partition_log import PartitionLog
from partition_log.log.segment_swap import CleanedWrite, Swap
from partition_log.store.jobs import CheckpointJob


class PendingCleaning:
    """Pending work of compaction: at most one write, or one swap, at a time."""

    __slots__ = ("_discards", "_swap", "_write")

    def __init__(self) -> None:
        self._swap: tuple[PartitionLog, Swap] | None = None
        self._write: tuple[PartitionLog, CleanedWrite] | None = None
        self._discards: list[str] = []

    def swap(self, log: PartitionLog, swap: Swap) -> None:
        """Replace segments by a cleaned one with the next checkpoint job; then the swap `is_done`.

        A swap is abandoned if a segment to be replaced is deleted first.
        """
        assert self._swap is None, "another is under way"
        self._swap = log, swap

    def write(self, log: PartitionLog, write: CleanedWrite) -> None:
        """Write with the next checkpoint job, unless the log is removed first."""
        assert self._write is None, "another is under way"
        self._write = log, write

    def discard(self, paths: list[str]) -> None:
        """Remove unfinished files with the next checkpoint job, and drop their pending write."""
        if paths:
            self._discards += paths
            self._write = None

    @property
    def is_swapping(self) -> bool:
        """True if the last swap is neither done nor abandoned."""
        return self._swap is not None

    @property
    def is_under_way(self) -> bool:
        """True if a write or a swap is neither done nor abandoned."""
        return self._swap is not None or self._write is not None

    def is_swapping_in(self, log: PartitionLog) -> bool:
        return self._swap is not None and self._swap[0] is log and self._swap[1].is_begun

    # ---------------------------------------------------------------------------------------------- for a checkpoint

    @property
    def is_due(self) -> bool:
        return bool(self._discards) or self._next_write() is not None or self._next_swap() is not None

    def take(self) -> tuple[CleanedWrite | None, Swap | None, tuple[str, ...]]:
        """Return the job's work: a write, a swap, and files to be removed."""
        write, swap = self._next_write(), self._next_swap()
        if self._swap is not None and swap is not None:
            swap.is_begun = True
            self._swap[0].pin(swap)
        discards, self._discards = tuple(self._discards), []
        return write, swap, discards

    def _next_write(self) -> CleanedWrite | None:
        if self._write is not None and self._write[0].is_removed:
            self._write = None
        return None if self._write is None else self._write[1]

    def _next_swap(self) -> Swap | None:
        """Return the pending swap. It is abandoned if a segment to be replaced was deleted; once begun it is
        finished."""
        if self._swap is None:
            return None
        log, swap = self._swap
        if log.is_removed or not (swap.is_begun or log.can_swap(swap)):
            self._swap = None
            return None
        return swap

    def finished(self, job: CheckpointJob) -> PartitionLog | None:
        """End the job's part of the work. Return the log that has a swapped segment now.

        After a full disk the rest is retried with the next job.
        """
        swapped: PartitionLog | None = None
        if self._swap is not None and self._swap[1].is_done:
            swapped, swap = self._swap
            swapped.swapped(swap)
            self._swap = None
        if job.outcome.cleaned and self._write is not None and self._write[1] is job.cleaned:
            self._write = None
        return swapped
