"""Choice of the log to clean: how dirty a log is, and whether a pass is worth it."""

import msgspec

from partition_log.cleanup_policy import Compact
from partition_log.errors import LogDamaged
from partition_log.log.partition_log import PartitionLog


class LogToClean(msgspec.Struct, frozen=True):
    """A log's cleanable segments, their end, the number cleaned before, and the bytes of the clean and the new part.

    `is_late`: the log must be cleaned regardless of its ratio. `has_old_tombstones`: those of the clean part may be
    removed. `is_held`: the log would be due if the checkpoint were newer.
    """

    cleanable: int
    end: int
    clean: int
    clean_bytes: int
    dirty_bytes: int
    is_late: bool
    has_old_tombstones: bool
    is_held: bool

    @property
    def ratio(self) -> float:
        """Share of new bytes in all that could be cleaned; 0 if there are none."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)


def log_to_clean(log: PartitionLog, wall_ms: int) -> LogToClean:
    """Determine what a pass could clean. Raises nothing: unreadable files are reported by the pass."""
    policy, segments = log.policy, log.segments
    assert isinstance(policy, Compact)
    cleanable = log.cleanable()
    held_bytes = sum([segment.size for segment in segments[cleanable:-1]])
    if policy.min_lag_ms > 0:
        cleanable = _old_enough(log, cleanable, wall_ms - policy.min_lag_ms)
    clean = 0
    while clean < cleanable and segments[clean].next_offset <= log.cleaned_offset:
        clean += 1
    dirty_bytes = sum([segment.size for segment in segments[clean:cleanable]])
    is_late = False
    if clean < cleanable and policy.max_lag_ms < wall_ms:
        first_ms = segments[clean].first_ms if segments[clean].size else -1
        is_late = 0 <= first_ms < wall_ms - policy.max_lag_ms
    clean_bytes = sum([segment.size for segment in segments[:clean]])
    would_be_dirty = dirty_bytes + held_bytes
    is_held = held_bytes > 0 and would_be_dirty >= policy.min_dirty_ratio * (clean_bytes + would_be_dirty)
    has_old_tombstones = 0 <= log.horizon_ms <= wall_ms and clean > 0
    end = segments[cleanable - 1].next_offset if cleanable else 0
    return LogToClean(cleanable, end, clean, clean_bytes, dirty_bytes, is_late, has_old_tombstones, is_held)


def is_due(log: PartitionLog, dirt: LogToClean) -> bool:
    """Return true if the log is worth a pass."""
    assert isinstance(log.policy, Compact)
    is_dirty = dirt.dirty_bytes > 0 and dirt.ratio >= log.policy.min_dirty_ratio
    return dirt.cleanable > 0 and (is_dirty or dirt.is_late or dirt.has_old_tombstones)


def _old_enough(log: PartitionLog, most: int, wall_ms: int) -> int:
    """Return how many of the oldest segments have no record younger than the policy's `min_lag_ms`."""
    for number, segment in enumerate(log.segments[:most]):
        try:
            newest_ms = segment.newest_ms()
        except LogDamaged:
            return number
        if newest_ms > wall_ms:
            return number
    return most
