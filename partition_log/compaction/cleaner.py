"""The log cleaner: compacts one log at a time, the dirtiest first, in slices."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from partition_log.cleanup_policy import Compact
from partition_log.compaction.compaction_pass import CompactionPass
from partition_log.compaction.log_to_clean import LogToClean, is_due, log_to_clean
from partition_log.errors import LogDamaged
from partition_log.log.partition_log import PartitionLog
from partition_log.log.segment_swap import CleanedWrite, Swap
from partition_log.store.log_store import LogStore

_LOGS_A_SLICE = 64
_NEXT_SLICE_MS = 1
_REST_FOR_A_SWAP, _LONGEST_REST_MS, _REST_SLICE_MS = 100, 2_000, 100
"""Factor of the pause after a swap over the time that the swap took, while records are appended: new blocks and names
delay concurrent syncs, and only one commit in a hundred may be slowed, not one in ten. After a slice without appends,
cleaning continues."""


class CleanerTotals(msgspec.Struct):
    """Totals of compaction since the start. `uncleanable`: damaged logs that are left alone, with the reason."""

    passes: int = 0
    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    uncleanable: dict[str, str] = {}


class Cleaner:
    """`slice_bytes` are read in a slice, and at most as many written; `map_bytes` is the approximate memory for the
    keys of one pass, which always includes at least one segment."""

    def __init__(self, store: LogStore, *, slice_bytes: int, map_bytes: int, backoff_ms: int) -> None:
        self._store = store
        self._slice_bytes = slice_bytes
        self._map_bytes = map_bytes
        self._backoff_ms = backoff_ms
        self._swap_at_ms: int | None = None  # when the swap that is under way was handed over
        self._rest_until_ms = 0
        self._position = 0  # of the write-ahead log, when it was looked at last
        self._to_look_at: Iterator[PartitionLog] | None = None
        self._best: tuple[float, PartitionLog, LogToClean] | None = None
        self._is_held = False
        self._uncleanable: dict[str, PartitionLog] = {}
        # Logs that a pass could do nothing for, since their first transaction is open: and up to where it looked. Until
        # there is more to look at it would find the same.
        self._tried: dict[str, int] = {}
        self._log: PartitionLog | None = None
        self._aim = 0
        self._pass: CompactionPass | None = None
        self._slices: Iterator[Swap | CleanedWrite | None] = iter(())
        self.done = CleanerTotals()

    def run(self, logs: Callable[[], Iterable[PartitionLog]], wall_ms: int) -> int:
        """Run one slice. Return the milliseconds to the next.

        `logs` is called when a round begins and returns the logs to check; those that are not compacted are skipped.
        """
        if self._store.disk_full:
            if not self._store.cleaning.is_swapping:
                self._end()  # its files take space that others need; later there may be enough
            return self._backoff_ms
        if self._store.cleaning.is_under_way:
            return _NEXT_SLICE_MS
        if (rest_ms := self._rest(wall_ms)) > 0:
            return rest_ms
        if self._pass is not None:
            return self._go_on(wall_ms)
        if self._to_look_at is None:
            self._to_look_at = iter(logs())
            self._best, self._is_held = None, False
        return self._look(self._to_look_at, wall_ms)

    def _rest(self, wall_ms: int) -> int:
        """Return how much longer to rest, at most a slice; a clock that was set ends the rest."""
        if self._swap_at_ms is not None:
            took_ms, self._swap_at_ms = max(wall_ms - self._swap_at_ms, 0), None
            self._rest_until_ms = wall_ms + min(_REST_FOR_A_SWAP * took_ms, _LONGEST_REST_MS)
            self._position = self._store.position
            return min(self._rest_until_ms - wall_ms, _REST_SLICE_MS)
        left_ms = self._rest_until_ms - wall_ms
        position, self._position = self._position, self._store.position
        if not 0 < left_ms <= _LONGEST_REST_MS or position == self._position:
            self._rest_until_ms = wall_ms
            return 0
        return min(left_ms, _REST_SLICE_MS)

    @property
    def cleaning(self) -> str | None:
        """The log that is being cleaned."""
        return None if self._log is None else self._log.name

    # ------------------------------------------------------------------------------------------------------- choosing

    def _look(self, logs: Iterator[PartitionLog], wall_ms: int) -> int:
        """Check some logs; after the last of them, begin to clean the dirtiest."""
        looked = 0
        for log in islice(logs, _LOGS_A_SLICE):
            looked += 1
            if log.is_removed or not isinstance(log.policy, Compact) or self._is_uncleanable(log):
                continue
            dirt = log_to_clean(log, wall_ms)
            self._is_held |= dirt.is_held
            rank = 2.0 if dirt.has_old_tombstones or dirt.is_late else dirt.ratio
            can_help = dirt.has_old_tombstones or self._tried.get(log.name) != dirt.end
            if can_help and is_due(log, dirt) and (self._best is None or rank > self._best[0]):
                self._best = rank, log, dirt
        if looked == _LOGS_A_SLICE:
            return _NEXT_SLICE_MS
        self._to_look_at = None
        if self._best is not None:
            _rank, log, dirt = self._best
            self._begin(log, dirt, wall_ms)
            return _NEXT_SLICE_MS
        if self._is_held:
            self._store.want_checkpoint()
        return self._backoff_ms

    def _is_uncleanable(self, log: PartitionLog) -> bool:
        """Return true if this log was found damaged; a new log with the name of a damaged one is not."""
        known = self._uncleanable.get(log.name)
        if known is not None and known is not log:
            del self._uncleanable[log.name], self.done.uncleanable[log.name]
        return known is log

    def _begin(self, log: PartitionLog, dirt: LogToClean, wall_ms: int) -> None:
        if log.is_removed:
            return
        self._log, self._aim = log, dirt.end
        self._pass = CompactionPass(
            log, dirt.cleanable, dirt.clean, wall_ms, slice_bytes=self._slice_bytes, map_bytes=self._map_bytes
        )
        self._slices = self._pass.slices()

    # -------------------------------------------------------------------------------------------------------- cleaning

    def _go_on(self, wall_ms: int) -> int:
        assert self._pass is not None and self._log is not None
        if self._pass.is_stale:
            self._end()
            return _NEXT_SLICE_MS
        try:
            work = next(self._slices)
        except StopIteration:
            self._passed(self._log, self._pass)
            return _NEXT_SLICE_MS
        except LogDamaged as damage:
            self._log.note_damage(damage)
            self._uncleanable[self._log.name] = self._log
            self.done.uncleanable[self._log.name] = str(damage)
            self._end()
            return _NEXT_SLICE_MS
        if isinstance(work, Swap):
            self._swap_at_ms = wall_ms
            self._store.cleaning.swap(self._log, work)
        elif work is not None:
            self._store.cleaning.write(self._log, work)
        self._discard(self._pass)
        return _NEXT_SLICE_MS

    def _discard(self, done: CompactionPass) -> None:
        self._store.cleaning.discard(done.discards)
        done.discards = []

    def _passed(self, log: PartitionLog, done: CompactionPass) -> None:
        passed = done.passed
        self._tried.pop(log.name, None)
        if passed.end < self._aim and passed.end == log.cleaned_offset:
            self._tried[log.name] = self._aim
        log.cleaned_offset, log.horizon_ms = passed.end, passed.horizon_ms
        total = self.done
        total.passes += 1
        total.records_read += passed.records_read
        total.records_kept += passed.records_kept
        total.bytes_read += passed.bytes_read
        total.bytes_written += passed.bytes_written
        self._end()

    def _end(self) -> None:
        if self._pass is not None:
            self._pass.give_up()
            self._discard(self._pass)
        self._log = self._pass = None
        self._slices = iter(())
