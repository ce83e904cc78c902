"""Limits of a store, and the position of an appended batch."""

import msgspec

from partition_log.disk.open_files import MOST as MOST_OPEN_FILES
from partition_log.disk.unsynced_files import MOST as MOST_UNSYNCED_FILES

MIB = 1024 * 1024


class StoreLimits(msgspec.Struct, frozen=True):
    """`wal_segment_bytes`: the first start writes one segment of zeros before it serves, and every segment must be
    larger than any batch: 32 MiB is twice the largest batch and written in some 20 to 300 ms. `spill_bytes` is how
    much of a log may stay in memory between checkpoints; `producers_per_log` how many idempotent ones are remembered;
    `open_files` how many files of logs are kept open for readers, and `unsynced_files` for the next checkpoint's sync.
    """

    wal_segment_bytes: int = 32 * MIB
    checkpoint_bytes: int = 64 * MIB
    max_batch_bytes: int = 16 * MIB
    spill_bytes: int = 64 * 1024
    producers_per_log: int = 2_000
    open_files: int = MOST_OPEN_FILES
    unsynced_files: int = MOST_UNSYNCED_FILES


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Place of an appended batch; it is durable once a flush has reached `position`."""

    base_offset: int
    next_offset: int
    position: int
