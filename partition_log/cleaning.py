"""The two policies by which a log forgets. They are declarations: a log is told one when it is opened. Cleaning itself
works in slices on closed segments that lie wholly below the checkpoint.
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
    """The last value of every key is kept, and tombstones for `delete_retention_ms` after they were first cleaned."""

    delete_retention_ms: int = 24 * 60 * 60 * 1000
    segment_bytes: int = 100 * MIB
    segment_ms: int = -1


Policy = Retain | Compact
