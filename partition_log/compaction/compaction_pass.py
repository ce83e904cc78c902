"""One pass of compaction over one log: the last record of every key is kept.

A pass reads the closed segments that lie wholly below the checkpoint twice:

1. the new part: the last offset of every key (by key, not by hash), and the outcome of its transactions. The pass
   stops at the first transaction that is not decided yet.
2. everything up to that point: records that are not the last of their key are dropped, the rest is written into fewer,
   fuller segments, and each of these replaces the segments that its records come from (`log/segment_swap.py`).

Decided transactions are resolved: records of a committed one lose their producer id, those of an aborted one are
dropped, and so are the markers. Sequences are dropped too: a checkpoint keeps the producer state beside the log.
Tombstones stay until their batch's delete horizon (KIP-534), which the first pass that sees them sets. A record without
a key is dropped, as in Kafka.
"""

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from partition_log.cleanup_policy import Compact
from partition_log.compaction.batch_merger import BatchMerger, MergedBatchKind
from partition_log.compaction.transaction_ends import TransactionEnds
from partition_log.errors import ADVICE, LogDamaged
from partition_log.log.partition_log import PartitionLog
from partition_log.log.segment_swap import CleanedWrite, Swap
from partition_log.segments.batch_reader import batches_of
from partition_log.segments.segment import Segment
from protocol.record_batch import LOG_APPEND_TIME, BatchHeader, CorruptBatch, record_bytes, record_slices
from protocol.record_keys import Keyed, keyed_records

_KEY_BYTES = 160
"""Estimated memory of a key in the map, without its bytes."""
_READ_BYTES = 64 * 1024
_MOST_JOINED = 64
"""Largest number of segments merged into one: all of them are open while they are replaced."""
_OFFSETS_A_SEGMENT = 0x7FFFFFFF
_NEVER_MS = 2**63 - 1
_MAPS = 64
"""Number of maps for the keys of a pass: one large map would be copied in one step when it grows, and freed in one."""
_MANY = 2_000
_BATCH_COST, _RECORD_COST = 128, 64
"""Cost of a batch and of a record in a slice, in bytes in addition to their size."""
_WHOLE_BYTES = 8 * 1024
"""Size from which a batch is copied unchanged if all of its records are kept."""
_PART_RECORDS, _PART_BYTES = 500, 128 * 1024
"""A batch of more than twice this size is split, so that no slice processes all of it."""


class CompactionResult(NamedTuple):
    """Result of a pass over all of the log before `end`.

    `horizon_ms` is when the first of the remaining tombstones may be removed, -1 if there are none.
    """

    end: int
    horizon_ms: int
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_written: int


class CompactionPass:
    """`slices` does the work."""

    def __init__(
        self, log: PartitionLog, cleanable: int, clean: int, wall_ms: int, *, slice_bytes: int, map_bytes: int
    ) -> None:
        """Compact the log's first `cleanable` segments; an earlier pass has left the first `clean` as they are."""
        policy = log.policy
        assert isinstance(policy, Compact), f"{log.name} is not compacted"
        self._log = log
        self._policy = policy
        self._segments = log.segments[:cleanable]
        self._clean = clean
        self._wall_ms = wall_ms
        self._slice_bytes = slice_bytes
        self._map_bytes = map_bytes
        self._last: list[dict[bytes, int]] = [{} for _ in range(_MAPS)]
        self._ends = TransactionEnds()
        self._current: Segment | None = self._segments[0]  # the oldest that is still needed
        self._joiner: BatchMerger | None = None
        self._swap: Swap | None = None
        self._spent = 0
        self._horizons: list[int] = []
        self.discards: list[str] = []
        """Files that are no longer needed, for a job to remove."""
        self._read = self._kept = self._bytes_read = self._bytes_written = 0

    @property
    def is_stale(self) -> bool:
        """Return true if the pass has nothing left to do.

        This is so if its next segment was deleted or replaced meanwhile, or if the log is no longer compacted.
        """
        if self._log.is_removed or not isinstance(self._log.policy, Compact):
            return True
        if self._swap is not None and not self._swap.is_done:
            return True
        return self._current is not None and not self._log.segments.holds(self._current)

    def give_up(self) -> None:
        """Abandon the pass, and have its unfinished file removed. No swap may be under way."""
        if self._joiner is not None and not self._log.is_removed:  # a job may be removing all files of a removed log
            self.discards.append(self._joiner.path)

    @property
    def passed(self) -> CompactionResult:
        """Result of the pass, after the last slice."""
        end = self._segments[-1].next_offset if self._segments else self._log.start_offset
        horizon_ms = min(self._horizons, default=-1)
        return CompactionResult(end, horizon_ms, self._read, self._kept, self._bytes_read, self._bytes_written)

    def slices(self) -> Iterator[Swap | CleanedWrite | None]:
        """Run a slice for each `next`, which only reads the disk: a job must do a yielded write or swap before the next
        call. Raises `LogDamaged`, and `OSError` for other errors of the disk.
        """
        yield from self._find_keys()
        # Retention may have deleted old segments meanwhile.
        self._segments = [segment for segment in self._segments if segment.base_offset >= self._log.start_offset]
        index = 0
        while index < len(self._segments):
            group: list[Segment] = []
            self._current = self._segments[index]
            self._joiner = joiner = BatchMerger(self._log, self._current.base_offset)
            kept_before, read_before = self._kept, self._read
            while not group or self._fits(joiner.size, group, self._segments[index]):
                segment = self._segments[index]
                group.append(segment)
                yield from self._sift(segment, joiner)
                index += 1
                if index == len(self._segments):
                    break
            joiner.finish(group[-1].next_offset)
            yield from self._write(joiner, 1)
            self._current = self._segments[index] if index < len(self._segments) else None
            self._bytes_written += joiner.size
            all_kept = self._kept - kept_before == self._read - read_before
            if len(group) == 1 and all_kept and joiner.size == group[0].size and not joiner.has_new_horizon:
                self.discards.append(joiner.path)
            else:
                self._swap = Swap(self._log.folder, joiner.segment, group, group[-1].next_offset)
                yield self._swap
            self._joiner = self._swap = None
            yield None
        for last in self._last:
            if len(last) > _MANY:
                last.clear()  # in slices: freeing a million keys takes as long as finding them
                yield None

    @staticmethod
    def _write(joiner: BatchMerger, *at_least: int) -> Iterator[CleanedWrite]:
        if (write := joiner.begin_write(*at_least)) is not None:
            yield write
            joiner.end_write()

    def _fits(self, size: int, group: list[Segment], segment: Segment) -> bool:
        """Return true if the segment may be added to the group."""
        return (
            len(group) < _MOST_JOINED
            and size + segment.size <= self._policy.segment_bytes
            and segment.next_offset - group[0].base_offset <= _OFFSETS_A_SEGMENT
        )

    def _is_over(self, size: int, records: int) -> bool:
        """Charge the work; return true if the slice is used up."""
        self._spent += size + _BATCH_COST + records * _RECORD_COST
        if self._spent < self._slice_bytes:
            return False
        self._spent = 0
        return True

    # ---------------------------------------------------------------------------------------------- the first reading

    def _find_keys(self) -> Iterator[None]:
        """Read the last offset of each key. Records beyond the end of the pass do no harm: they are newer, and stay."""
        size = 0
        for number, segment in enumerate(self._segments[self._clean :], self._clean):
            if size > self._map_bytes:
                del self._segments[number:]
                break
            self._current = segment
            for header, batch in batches_of(segment, 0, _READ_BYTES):
                self._bytes_read += len(batch)
                for part_bytes, records in self._parts(segment, header, batch):
                    if header.is_control or header.is_transactional:
                        size += self._note_last(self._ends.note(header, records))
                    else:
                        size += self._note_last(records)
                    if self._is_over(part_bytes, len(records)):
                        yield
        limit = self._ends.first_undecided
        while limit is not None and self._segments and self._segments[-1].next_offset > limit:
            self._segments.pop()

    def _note_last(self, decided: list[Keyed]) -> int:
        """Note the records' offsets. Return the growth of the map in bytes."""
        size = 0
        for record in decided:
            if record.key is not None:
                last = self._last[crc32c(record.key) % _MAPS]
                if record.key not in last:
                    size += _KEY_BYTES + len(record.key)
                    last[record.key] = record.offset
                elif record.offset > last[record.key]:
                    last[record.key] = record.offset
        return size

    @staticmethod
    def _parts(segment: Segment, header: BatchHeader, batch: memoryview) -> Iterator[tuple[int, list[Keyed]]]:
        """Yield the batch's records with their cost: all at once, as nearly always, or in parts."""
        try:
            payload = record_bytes(header, batch)
            most = min(_PART_RECORDS, header.record_count * _PART_BYTES // max(len(payload), 1))
            if header.record_count <= 2 * most:
                yield len(payload), keyed_records(payload, header)
                return
            for part, part_header in record_slices(payload, header, max(most, 1)):
                yield len(part), keyed_records(part, part_header)
        except CorruptBatch as error:
            where = f"the batch at offset {header.base_offset} does not parse: {error.reason}"
            raise LogDamaged(segment.path, 0, header.base_offset, where, ADVICE) from None

    # --------------------------------------------------------------------------------------------- the second reading

    def _sift(self, segment: Segment, joiner: BatchMerger) -> Iterator[CleanedWrite | None]:
        for header, batch in batches_of(segment, 0, _READ_BYTES):
            self._read += header.record_count
            self._bytes_read += len(batch)
            if self._is_dropped(header):
                if self._is_over(len(batch), 1):
                    yield None
                continue
            for part_bytes, records in self._parts(segment, header, batch):
                self._keep(header, batch, records, joiner)
                yield from self._write(joiner)
                if self._is_over(part_bytes, len(records)):
                    yield None

    def _is_dropped(self, header: BatchHeader) -> bool:
        """Return true for a marker, and for a batch of an aborted transaction."""
        return header.is_control or (header.is_transactional and not self._ends.is_committed(header))

    def _keep(self, header: BatchHeader, batch: memoryview, records: list[Keyed], joiner: BatchMerger) -> None:
        """Keep those of the batch's records that are the last of their key."""
        horizon_ms, last = header.delete_horizon_ms, self._last
        may_drop = 0 <= horizon_ms <= self._wall_ms
        kept = [
            record
            for record in records
            if record.key is not None
            and last[crc32c(record.key) % _MAPS].get(record.key, record.offset) <= record.offset
            and (record.has_value or not may_drop)
        ]
        self._kept += len(kept)
        if not kept:
            return
        has_tombstones = any(not record.has_value for record in kept)
        if not has_tombstones:
            horizon_ms = -1
        elif horizon_ms < 0:
            horizon_ms = min(self._wall_ms + self._policy.delete_retention_ms, _NEVER_MS)
            joiner.has_new_horizon = True
        if has_tombstones:
            self._horizons.append(horizon_ms)
        is_same = len(kept) == header.record_count and horizon_ms == header.delete_horizon_ms
        if is_same and header.producer_id < 0 and len(batch) >= _WHOLE_BYTES:
            joiner.add_batch(header, bytes(batch))
            return
        append_ms = header.max_timestamp_ms if header.attributes & LOG_APPEND_TIME else -1
        joiner.add(MergedBatchKind(header.compression, append_ms, horizon_ms), kept)
