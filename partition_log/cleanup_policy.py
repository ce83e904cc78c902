"""The two policies by which a log forgets. They are declarations: a log is told one when it is opened. Old segments go
by `LogStore.drop`; compaction is the `Cleaner`'s.
"""

import msgspec

MIB = 1024 * 1024


class Retain(msgspec.Struct, frozen=True):
    """Whole segments go once all of their records are older than `retention_ms`, or the log is larger than
    `retention_bytes`; -1 means never. `segment_bytes` is when a segment is closed and the next begun, or `segment_ms`
    after its first record, by the records' own time (-1: never).
    """

    retention_ms: int = -1
    retention_bytes: int = -1
    segment_bytes: int = 1024 * MIB
    segment_ms: int = -1


class Compact(msgspec.Struct, frozen=True):
    """The last value of every key is kept, and tombstones for `delete_retention_ms` after they were first cleaned.

    A log is cleaned once `min_dirty_ratio` of it is new, or its oldest new record is older than `max_lag_ms`; records
    younger than `min_lag_ms` are left alone, by their own time.
    """

    delete_retention_ms: int = 24 * 60 * 60 * 1000
    segment_bytes: int = 100 * MIB
    segment_ms: int = -1
    min_dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    max_lag_ms: int = 2**63 - 1


Policy = Retain | Compact
