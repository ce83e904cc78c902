"""Check that a closed segment reaches the next one: its last batch ends where the next segment begins.

Compaction preserves this by a batch without records in place of dropped last records. So any missing file is noticed.
"""

from partition_log.disk.disk import Disk
from partition_log.errors import LogDamaged
from partition_log.segments.index_files import INDEX_ENTRY, last_entry
from partition_log.segments.segment import Segment
from partition_log.segments.sparse_index import INDEX_INTERVAL_BYTES
from protocol.record_batch import HEADER_BYTES, CorruptBatch, extent


def end_of(disk: Disk, segment: Segment) -> int | None:
    """Return the end of the segment's last batch, found by the last entry of its index.

    None if the batches there are damaged, which is left to readers to report.
    """
    reached = segment.base_offset
    try:
        for _position, _base, next_offset, _size, _timestamp in segment.walk(_last_indexed(disk, segment)):
            reached = next_offset
    except LogDamaged:
        return None
    return reached


def _last_indexed(disk: Disk, segment: Segment) -> int:
    """Position where a batch begins, near the end if the index is valid."""
    if segment.size <= INDEX_INTERVAL_BYTES:
        return 0
    entry = last_entry(disk, f"{segment.path.removesuffix('log')}index", INDEX_ENTRY)
    if entry is None or not 0 < entry[2] <= segment.size - HEADER_BYTES:
        return 0
    _count, relative, position = entry
    try:
        fits = extent(segment.read_at(position, HEADER_BYTES))[1] - 1 == segment.base_offset + relative
    except CorruptBatch:
        return 0
    return position if fits else 0
