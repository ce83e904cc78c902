"""Cleanup policies of a log: retention and compaction. A log is given one when it is opened.

`LogStore.drop` deletes old segments; the `Cleaner` compacts.
"""

import msgspec

MIB = 1024 * 1024


class Retain(msgspec.Struct, frozen=True):
    """Whole segments are deleted once all of their records are older than `retention_ms`, or the log is larger than
    `retention_bytes`.

    -1 means never. A segment is closed at `segment_bytes`, or `segment_ms` after its first record by the records' own
    time (-1: never).
    """

    retention_ms: int = -1
    retention_bytes: int = -1
    segment_bytes: int = 1024 * MIB
    segment_ms: int = -1


class Compact(msgspec.Struct, frozen=True):
    """The last value of every key is kept, and a tombstone for `delete_retention_ms` after the first pass over it.

    A log is cleaned once `min_dirty_ratio` of it is new, or its oldest new record is older than `max_lag_ms`. Records
    younger than `min_lag_ms`, by their own time, are left alone.
    """

    delete_retention_ms: int = 24 * 60 * 60 * 1000
    segment_bytes: int = 100 * MIB
    segment_ms: int = -1
    min_dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    max_lag_ms: int = 2**63 - 1


Policy = Retain | Compact
