"""Sequential reading of all batches of a segment, for replay and compaction."""

from collections.abc import Iterator

from partition_log.errors import ADVICE, LogDamaged
from partition_log.segments.segment import Segment
from protocol.record_batch import HEADER_BYTES, BatchHeader, CorruptBatch, check_batch, extent

CHUNK_BYTES = 1024 * 1024


def batches_of(
    segment: Segment, position: int = 0, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches from a position to the segment's end, with checksums and the order of offsets checked.

    A batch's base offset lies outside of its checksum. Batches that are appended meanwhile follow. Raises `LogDamaged`.
    """
    reached = segment.base_offset
    while position < segment.size:
        chunk = _chunk(segment, position, chunk_bytes)
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            size = _size_of(segment, chunk, position, at)
            if at + size > len(chunk):
                break
            try:
                header = check_batch(chunk[at : at + size])
            except CorruptBatch as error:
                raise _damaged(segment, position + at, chunk, at, error.reason) from None
            if header.base_offset < reached or header.next_offset > segment.next_offset:
                what = f"it holds offsets {header.base_offset} to {header.next_offset - 1}, between {reached} and "
                raise _damaged(segment, position + at, chunk, at, f"{what}{segment.next_offset} others stand")
            reached = header.next_offset
            yield header, chunk[at : at + size]
            at += size
        position += at


def _chunk(segment: Segment, position: int, chunk_bytes: int) -> memoryview:
    """Read `chunk_bytes`, or the whole of one larger batch."""
    chunk = segment.read_at(position, chunk_bytes)
    if len(chunk) < HEADER_BYTES:
        raise LogDamaged(segment.path, position, None, f"{len(chunk)} bytes are no whole header", ADVICE)
    view = memoryview(chunk)
    size = _size_of(segment, view, position, 0)
    if size <= len(chunk):
        return view
    if position + size > segment.size:
        raise _damaged(segment, position, view, 0, f"a batch of {size} bytes ends beyond the segment")
    return memoryview(segment.read_at(position, size))


def _size_of(segment: Segment, chunk: memoryview, position: int, at: int) -> int:
    try:
        return extent(chunk, at)[2]
    except CorruptBatch as error:
        raise _damaged(segment, position + at, chunk, at, error.reason) from None


def _damaged(segment: Segment, position: int, chunk: memoryview, at: int, what: str) -> LogDamaged:
    offset = int.from_bytes(chunk[at : at + 8], "big", signed=True)
    return LogDamaged(segment.path, position, offset, what, ADVICE)
