"""Every batch of a file as it lies, damaged ones too: for those who look at a data folder and change nothing in it.

Whoever serves stops at the first damage; who looks for damage wants all of it.
"""

from collections.abc import Generator, Iterator
from typing import NamedTuple

from partition_log.disk.disk import Disk
from protocol.record_batch import HEADER_BYTES, BatchHeader, CorruptBatch, check_batch, extent

CHUNK_BYTES = 1024 * 1024
_OFFSET_BYTES = 8


class Walked(NamedTuple):
    """A batch at its place. `header` is None where `problem` says what is wrong with it; `offset` is what stands where
    its base offset should, `next_offset` what follows its last if that much can be told.
    """

    path: str
    position: int
    offset: int
    next_offset: int
    size: int
    header: BatchHeader | None
    data: bytes
    problem: str


def walk_file(disk: Disk, path: str, chunk_bytes: int = CHUNK_BYTES) -> Generator[Walked, None, None]:
    """All batches to the end of the file. One whose checksum fails is told and passed over; where not even its length
    can be right, the walk ends with it. Raises what the disk raises.
    """
    handle = disk.open_to_read(path)
    try:
        size, position = disk.size(handle), 0
        while position < size:
            chunk = disk.read_at(handle, position, chunk_bytes)
            at = 0
            for walked in _in_chunk(path, position, chunk):
                yield walked
                at += walked.size
            if at == 0:
                walked = _large_or_wrong(disk, handle, path, position, chunk, size)
                yield walked
                if walked.header is None and not walked.data:
                    return
                at = walked.size
            position += at
    finally:
        disk.close(handle)


def _in_chunk(path: str, start: int, chunk: bytes) -> Iterator[Walked]:
    """The batches that are whole in it, up to the first that is none."""
    at = 0
    while at + HEADER_BYTES <= len(chunk):
        try:
            _base, _next, size, _newest = extent(chunk, at)
        except CorruptBatch:
            return
        if at + size > len(chunk):
            return
        yield checked(path, start + at, chunk[at : at + size])
        at += size


def checked(path: str, position: int, data: bytes) -> Walked:
    """A batch that is whole as far as its length tells."""
    offset, next_offset, size, _newest = extent(data)
    try:
        return Walked(path, position, offset, next_offset, size, check_batch(data), data, "")
    except CorruptBatch as error:
        return Walked(path, position, offset, next_offset, size, None, data, error.reason)


def _large_or_wrong(disk: Disk, handle: int, path: str, position: int, chunk: bytes, file_size: int) -> Walked:
    offset = int.from_bytes(chunk[:_OFFSET_BYTES], "big", signed=True)
    if len(chunk) < HEADER_BYTES:
        problem = f"{file_size - position} bytes are no whole header"
    else:
        try:
            _base, _next, size, _newest = extent(chunk)
        except CorruptBatch as error:
            problem = error.reason
        else:
            if position + size <= file_size:
                return checked(path, position, disk.read_at(handle, position, size))
            problem = f"a batch of {size} bytes ends beyond the file, which has {file_size}"
    return Walked(path, position, offset, offset, 0, None, b"", problem)
