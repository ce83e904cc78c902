"""One partition's log: batches in segments, from `start_offset` to `next_offset`."""

from collections.abc import Callable, Iterator

from partition_log.cleanup_policy import Policy
from partition_log.disk.open_files import OpenFiles
from partition_log.errors import ADVICE, LogDamaged, OffsetOutsideLog
from partition_log.log.log_segments import LogSegments
from partition_log.log.segment_swap import Swap
from partition_log.log.state_snapshots import StateSnapshot, read_newest_state_snapshot
from partition_log.producers.expiration import ProducerExpiration
from partition_log.producers.producer_state import Producers, sequence_of
from partition_log.segments.batch_reader import batches_of
from partition_log.segments.segment import Segment
from partition_log.segments.segment_write import SegmentWrite
from partition_log.segments.sparse_index import INDEX_INTERVAL_BYTES
from protocol.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    extent,
    read_header,
    record_bytes,
)
from protocol.record_walk import first_at

_OPENED_US, _BYTES_AN_US = 100, 512


class PartitionLog:
    """`flushed_offset` is the first offset that is *not* durable by the node's write-ahead log: the high watermark.
    `checkpointed_offset` is the end of the log in the last checkpoint. Compaction has processed everything before
    `cleaned_offset`; the first of the tombstones left there may be removed at `horizon_ms`, -1 if there are none.
    `producers` is None until an idempotent producer writes.

    Nothing touches the disk until the first bytes are written out: an empty log has no folder.
    """

    __slots__ = (
        "_has_spilled",
        "checkpointed_offset",
        "cleaned_offset",
        "disk",
        "files",
        "flushed_offset",
        "folder",
        "has_new_files",
        "horizon_ms",
        "is_removed",
        "name",
        "next_offset",
        "policy",
        "producer_expiration",
        "producers",
        "segments",
        "start_offset",
        "unflushed",
        "wal_name",
    )

    def __init__(
        self,
        files: OpenFiles,
        folder: str,
        name: str,
        policy: Policy,
        producer_expiration: ProducerExpiration | None = None,
    ) -> None:
        self.disk = files.disk
        self.files = files
        self.folder = folder
        self.producer_expiration = producer_expiration or ProducerExpiration()
        self.name = name
        self.policy = policy
        self.start_offset = 0
        self.next_offset = 0
        self.flushed_offset = 0
        self.checkpointed_offset = 0
        self.cleaned_offset = 0
        self.horizon_ms = -1
        self.segments = LogSegments()
        self.unflushed = False  # true while it has batches that no flush includes yet
        self.has_new_files = False  # true while it has file names that no checkpoint has synced yet
        self._has_spilled = False
        self.is_removed = False
        self.producers: Producers | None = None
        self.wal_name = len(name).to_bytes(2, "big") + name.encode("ascii")

    def __repr__(self) -> str:
        return f"<PartitionLog {self.name} {self.start_offset}..{self.next_offset}, flushed {self.flushed_offset}>"

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    # ---------------------------------------------------------------------------------------------------- appending

    def append(self, batch: bytes, next_offset: int, max_timestamp_ms: int) -> None:
        """Append a batch stamped with this log's `next_offset`. Only the store calls this: it writes ahead first."""
        base_offset = self.next_offset
        active = self.segments.active
        # The index keeps offsets in four bytes, as Kafka's does.
        if (
            active is None
            or active.size + len(batch) > self.policy.segment_bytes
            or next_offset - active.base_offset > 0x7FFFFFFF
            or (self.policy.segment_ms >= 0 and self._is_of_another_time(active, max_timestamp_ms))
        ):
            active = Segment(self.files, self.folder, base_offset)
            self.segments.add(active)
        active.append(batch, base_offset, next_offset, max_timestamp_ms)
        self.next_offset = next_offset
        if batch[43] < 0x80:  # its producer's id is not negative
            self.note_producer(batch, base_offset)

    def _is_of_another_time(self, segment: Segment, timestamp_ms: int) -> bool:
        """Return true if the active segment must be closed for its age, by the records' timestamps as in Kafka.

        Only a segment that a flush has covered is closed. Kafka closes at most one segment a request, since a request
        has one batch per partition; here thousands of batches with distant timestamps in one step must not become as
        many files.
        """
        if segment.base_offset >= self.flushed_offset:
            return False
        return 0 <= segment.first_ms < timestamp_ms - self.policy.segment_ms

    def note_producer(self, batch: bytes, base_offset: int) -> None:
        """Note the batch's idempotent producer, if it has one; its header is enough."""
        mark = sequence_of(batch)
        if mark is not None:
            if self.producers is None:
                self.producers = self.producer_expiration.new_producers()
            self.producers.appended(mark, base_offset)

    # ------------------------------------------------------------------------------------------------------ reading

    def read(self, offset: int, max_bytes: int, *, up_to: int | None = None) -> bytes:
        """Return whole batches, from the one that holds `offset`: as many as fit in `max_bytes`, but at least one.

        Only batches below `up_to` (the end by default); `b""` if there is none. Raises `OffsetOutsideLog`, and
        `LogDamaged` if the files are not as they were written. Checksums are left to the reader.
        """
        if not self.start_offset <= offset <= self.next_offset:
            raise OffsetOutsideLog(self.name, offset, self.start_offset, self.next_offset)
        end = self.next_offset if up_to is None else min(up_to, self.next_offset)
        for segment in self.segments.starting_at(offset):
            if offset >= end or segment.base_offset >= end:
                return b""
            if data := segment.read(offset, max_bytes, end):
                return data
        return b""

    def offset_for_time(self, timestamp_ms: int, spend: Callable[[int], None] | None = None) -> tuple[int, int] | None:
        """Return offset and timestamp of the first record whose timestamp is `timestamp_ms` or later.

        `spend` is called with the estimated microseconds of each part of the search, from counts, not a clock.
        """
        for segment in self.segments:
            if spend is not None:
                spend(1 if segment.max_timestamp_ms >= 0 else _OPENED_US)
            if segment.newest_ms() < timestamp_ms:
                continue
            if spend is not None:
                spend(_OPENED_US + (0 if segment.is_loaded else segment.size // INDEX_INTERVAL_BYTES))
            position = segment.find_time(timestamp_ms)
            if position is None:
                continue
            _base, _next, size, _newest = extent(segment.read_at(position, HEADER_BYTES))
            try:
                batch = segment.read_at(position, size)
                header = read_header(batch)
                payload = record_bytes(header, batch)
                if spend is not None:
                    spend(header.record_count // 2 + (len(batch) + len(payload)) // _BYTES_AN_US)
                found = first_at(payload, header, timestamp_ms, self.start_offset)
            except CorruptBatch as error:
                raise LogDamaged(segment.path, position, None, error.reason, ADVICE) from None
            if found is not None:
                return found
        return None

    def newest(self) -> tuple[int, int] | None:
        """Return offset and timestamp of the record with the largest timestamp, the first of several."""
        return self.offset_for_time(self.newest_ms())

    def newest_ms(self) -> int:
        """Return the largest timestamp."""
        return max((segment.newest_ms() for segment in self.segments), default=0)

    def batches_from(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield every batch from the one that holds `offset`, checksums checked, up to the end reached at that time.

        For replay. Raises `OffsetOutsideLog`, `LogDamaged`.
        """
        if not self.start_offset <= offset <= self.next_offset:
            raise OffsetOutsideLog(self.name, offset, self.start_offset, self.next_offset)
        for segment in self.segments.starting_at(offset):
            yield from batches_of(segment, segment.find(offset))
            offset = segment.next_offset  # the next segment may begin before it, if some were merged meanwhile

    def note_damage(self, error: LogDamaged) -> None:
        """Note damage that a reader has found, so that it is reported to the operator once."""
        self.files.damaged.setdefault(self.name, str(error))

    def newest_state_snapshot(self) -> StateSnapshot | None:
        """Return the newest snapshot of a clean stop. Its end may lie outside this log. Raises `OSError`."""
        return read_newest_state_snapshot(self.disk, self.folder)

    def bytes_from(self, offset: int) -> int:
        """Estimate the bytes to be read from the offset on, without reading a file."""
        total = 0
        for segment in reversed(self.segments):
            if segment.next_offset <= offset:
                break
            span = segment.next_offset - segment.base_offset
            total += segment.size * (segment.next_offset - max(offset, segment.base_offset)) // span
        return total

    # ----------------------------------------------------------------------------------------------------- retention

    def expired(self, wall_ms: int, retention_ms: int, retention_bytes: int) -> int:
        """Return how many of the oldest segments may be deleted: by age, or by size while the rest keeps enough bytes.

        -1 means no limit. A segment is kept while readers may not have read all of it; one without timestamps has no
        age.
        May raise `LogDamaged`.
        """
        count, excess = 0, self.size_bytes - retention_bytes if retention_bytes >= 0 else -1
        for segment in self.segments:
            too_much = excess >= segment.size
            if segment.next_offset > self.flushed_offset or not (too_much or _is_old(segment, wall_ms, retention_ms)):
                break
            excess -= segment.size
            count += 1
        return count

    def expires_ms(self, retention_ms: int) -> int | None:
        """Return the wall time from which on the oldest segment expires by its age; None if it has no age.

        It holds until the log is written again. May raise `LogDamaged`.
        """
        newest_ms = self.segments[0].newest_ms() if self.segments and retention_ms >= 0 else -1
        return newest_ms + retention_ms + 1 if newest_ms >= 0 else None

    def drop(self, count: int) -> list[int]:
        """Drop up to `count` of the oldest segments, of those that are whole on disk. Return their base offsets.

        A checkpoint removes the files once it has recorded the new start. Only the store calls this.
        """
        dropped: list[int] = []
        for segment in self.segments[:count]:
            if segment.is_busy:
                break
            segment.close()
            dropped.append(segment.base_offset)
        if dropped:
            self.segments.drop_oldest(len(dropped))
            self.start_offset = self.segments[0].base_offset if self.segments else self.next_offset
        return dropped

    # ---------------------------------------------------------------------------------------------------- compaction

    def cleanable(self) -> int:
        """Return how many of the oldest segments are closed and lie wholly below the checkpoint.

        Another segment follows them after a crash too, so that recovery never searches one of them for the log's end.
        """
        count = self.segments.count_below(self.checkpointed_offset) - 1
        while count > 0 and self.segments[count - 1].is_busy:
            count -= 1
        return max(count, 0)

    def can_swap(self, swap: Swap) -> bool:
        """Return true if the segments to be replaced are all in place."""
        return not self.is_removed and self.segments.are_in_place(swap.replaced)

    def pin(self, swap: Swap) -> None:
        """Keep the replaced segments readable until the swap is over, even after their files are deleted."""
        for segment in swap.replaced:
            segment.pin()

    def swapped(self, swap: Swap) -> None:
        """Replace the old segments by the cleaned one, whose files now have their final names."""
        if self.is_removed:
            return
        self.segments.replace(swap.replaced, swap.cleaned)
        swap.cleaned.indexed(swap.cleaned.entries)
        for segment in swap.replaced:
            segment.close()

    # -------------------------------------------------------------------------------------------- writing out

    def wants_spill(self, at_least: int) -> bool:
        """Return true if `spills` would find any."""
        active = self.segments.active
        if active is None:
            return False
        return active.pending_bytes >= at_least or (len(self.segments) > 1 and self.segments[-2].pending_bytes > 0)

    def spills(self, at_least: int) -> list[tuple[Segment, SegmentWrite]]:
        """Return the unwritten bytes of segments that have at least `at_least` and no write in flight."""
        found: list[tuple[Segment, SegmentWrite]] = []
        for segment in reversed(self.segments):
            if segment.pending_bytes == 0:
                break  # they are written in order
            closed = segment is not self.segments.active
            if (closed or segment.pending_bytes >= at_least) and not segment.spilling:
                found.append((segment, self.spill(segment)))
        return found

    def spill(self, segment: Segment) -> SegmentWrite:
        """Return the write of a segment's bytes in memory. The first one since the start counts as a new file: a start
        that was killed may have removed files beyond the end, which a power failure brings back until it is synced."""
        if not self._has_spilled or (segment.written == 0 and not segment.spilling):
            self._has_spilled = self.has_new_files = True
        return segment.spill()

    def unsynced(self) -> list[Segment]:
        """Segments with bytes that no checkpoint has synced, newest first."""
        found: list[Segment] = []
        for segment in reversed(self.segments):
            if not segment.unsynced and segment.pending_bytes == 0:
                break  # they are written in order
            found.append(segment)
        return found

    def close(self) -> None:
        for segment in self.segments:
            segment.close()


def _is_old(segment: Segment, wall_ms: int, retention_ms: int) -> bool:
    return retention_ms >= 0 and 0 <= segment.newest_ms() < wall_ms - retention_ms
