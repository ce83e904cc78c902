"""Writing of the records that compaction keeps: many small batches become few large ones in a new segment."""

from typing import NamedTuple

from partition_log.log.partition_log import PartitionLog
from partition_log.log.segment_swap import CleanedWrite
from partition_log.segments.file_names import cleaned_name
from partition_log.segments.segment import Segment
from partition_log.segments.segment_write import SegmentWrite
from protocol.record_batch import BatchHeader, empty_batch, extent
from protocol.record_keys import Keyed, join_records

_BATCH_BYTES = 16 * 1024
"""Size of a merged batch, estimated before compression."""
_RECORD_BYTES = 8
_OFFSETS_A_BATCH = 1 << 30
_WRITE_BYTES = 256 * 1024


class MergedBatchKind(NamedTuple):
    """Properties that records of one batch share; `append_ms` is -1 where each record has its own time."""

    compression: int
    append_ms: int
    horizon_ms: int


class BatchMerger:
    """Writes `BASE.cleaned` in the log's folder, by a job (`begin_write`, `end_write`). `segment` is the segment that
    the file becomes once it is renamed."""

    def __init__(self, log: PartitionLog, base_offset: int) -> None:
        self.path = f"{log.folder}/{cleaned_name(base_offset)}"
        self._kind: MergedBatchKind | None = None
        self._records: list[Keyed] = []
        self._bytes = 0
        self.segment = Segment(log.files, log.folder, base_offset)
        self._writing: SegmentWrite
        self.has_new_horizon = False

    @property
    def size(self) -> int:
        """Bytes so far; those of records not yet merged are estimated."""
        return self.segment.size + self._bytes

    def add(self, kind: MergedBatchKind, records: list[Keyed]) -> None:
        """Add records to keep, at least one, after all earlier ones."""
        is_far = bool(self._records) and records[-1].offset - self._records[0].offset > _OFFSETS_A_BATCH
        if kind != self._kind or self._bytes >= _BATCH_BYTES or is_far:
            self._join()
            self._kind = kind
        self._records += records
        self._bytes += sum([len(record.rest) for record in records]) + _RECORD_BYTES * len(records)

    def add_batch(self, header: BatchHeader, batch: bytes) -> None:
        """Add a batch to keep unchanged."""
        self._join()
        self._append(batch, header.base_offset, header.next_offset, header.max_timestamp_ms)

    def finish(self, end: int) -> None:
        """End the segment; only the last write follows.

        The segment replaces all offsets below `end`, so its last batch ends there even if it has no records: thereby a
        missing next file is noticed.
        """
        self._join()
        if (reached := self.segment.next_offset) < end:
            self._append(empty_batch(reached, end), reached, end, -1)

    def begin_write(self, at_least: int = _WRITE_BYTES) -> CleanedWrite | None:
        """Return the next write for a job, if `at_least` bytes are in memory. Nothing may be added until
        `end_write`."""
        if self.segment.pending_bytes < at_least:
            return None
        self._writing = self.segment.spill()
        return CleanedWrite(self.path, self._writing.position, self._writing.data)

    def end_write(self) -> None:
        """Note that the write is in the file; the swap that puts the file in its place syncs it first."""
        self.segment.spilled(self._writing)
        self.segment.unsynced = False

    def _join(self) -> None:
        if not self._records or self._kind is None:
            return
        batch = join_records(
            self._records,
            compression=self._kind.compression,
            append_time=self._kind.append_ms >= 0,
            delete_horizon_ms=self._kind.horizon_ms,
        )
        base_offset, next_offset, _size, timestamp_ms = extent(batch)
        self._records, self._bytes = [], 0
        self._append(batch, base_offset, next_offset, timestamp_ms)

    def _append(self, batch: bytes, base_offset: int, next_offset: int, timestamp_ms: int) -> None:
        self.segment.append(batch, base_offset, next_offset, timestamp_ms)
