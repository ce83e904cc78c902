"""Opening of a log from its files: segments up to the checkpoint's end, producers, and files to be deleted."""

from bisect import bisect_right

from partition_log.disk.unsynced_files import UnsyncedFiles
from partition_log.errors import ADVICE, MISSING, LogDamaged
from partition_log.log.log_deletion import remove_segment
from partition_log.log.partition_log import PartitionLog
from partition_log.log.state_snapshots import remove_state_snapshots
from partition_log.producers.snapshot_files import newest_snapshot, remove_snapshots
from partition_log.segments.file_names import file_name, segment_bases
from partition_log.segments.segment import Segment
from partition_log.segments.segment_end import end_of
from protocol.record_batch import HEADER_BYTES


def load(log: PartitionLog, start: int, end: int) -> None:
    """Take over the files up to `end`, and change nothing yet. Raises `LogDamaged` if they do not reach it."""
    bases = [base for base in segment_bases(log.disk.list(log.folder)) if base < end]
    # Segments before the start were dropped, but a crash prevented the removal of their files.
    bases = bases[max(bisect_right(bases, start) - 1, 0) :] if start < end else []
    if start < end and not (bases and bases[0] <= start):
        path = f"{log.folder}/{file_name(start, 'log')}"
        raise LogDamaged(path, 0, start, MISSING, ADVICE)
    log.start_offset, log.next_offset, log.flushed_offset = start, end, end
    for base_offset, next_base in zip(bases, [*bases, end][1:], strict=True):
        segment = Segment(log.files, log.folder, base_offset)
        log.segments.add(segment)
        size = segment.file_size()
        if next_base != end:
            segment.adopt(size, next_base)
            if (reached := end_of(log.disk, segment)) not in (None, next_base):
                what = f"it ends here, and the next file begins at offset {next_base}: one is missing between them"
                raise LogDamaged(segment.path, size, reached, what, ADVICE)
            segment.close()
        elif not segment.load(size, end):
            what = f"its sound batches end at offset {segment.next_offset}, the checkpoint says {end}"
            raise LogDamaged(segment.path, segment.size, segment.next_offset, what, ADVICE)


def load_producers(log: PartitionLog) -> None:
    """Read the producers of a loaded log: the newest snapshot, and the headers of the batches that follow it."""
    log.producers = log.producer_expiration.new_producers()
    snapshot = newest_snapshot(log.disk, log.folder, log.next_offset)
    if snapshot is not None:
        log.producers.restore(snapshot)
    known = log.start_offset if snapshot is None else max(snapshot.end, log.start_offset)
    for segment in log.segments.starting_at(known) if known < log.next_offset else ():
        for position, base_offset, *_rest in segment.walk(segment.find(known)):
            log.note_producer(segment.read_at(position, HEADER_BYTES), base_offset)


def cut(log: PartitionLog, unsynced: UnsyncedFiles) -> None:
    """Remove from the folder all bytes and files beyond the log's end or before its start."""
    kept_at = None if log.producers is None else log.producers.kept_at
    log.has_new_files |= remove_snapshots(log.disk, log.folder, but=kept_at)
    log.has_new_files |= remove_state_snapshots(log.disk, log.folder, beyond=log.next_offset)
    first = log.segments[0].base_offset if log.segments else log.next_offset
    for base_offset in segment_bases(log.disk.list(log.folder)):
        if base_offset >= log.next_offset or base_offset < first:
            remove_segment(log.disk, log.folder, base_offset)
            log.has_new_files = True  # the removal is synced before a checkpoint may name a higher end
    if log.segments:
        last = log.segments[-1]
        if last.file_size() > last.size:
            log.disk.truncate(unsynced.open(last.path), last.size)
            last.unsynced = True
        last.close()
