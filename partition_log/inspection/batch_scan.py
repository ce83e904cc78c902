"""Scan of a file's batches, including damaged ones, for commands that read a data folder without changing it.

A serving node stops at the first damage; a check reports all of it.
"""

from collections.abc import Generator, Iterator
from typing import NamedTuple

from partition_log.disk.disk import Disk
from protocol.record_batch import HEADER_BYTES, BatchHeader, CorruptBatch, check_batch, extent

CHUNK_BYTES = 1024 * 1024
_OFFSET_BYTES = 8


class ScannedBatch(NamedTuple):
    """A batch and its position in a file.

    `header` is None if `problem` describes damage. `offset` is the value in the field of the base offset; `next_offset`
    follows the last record, if it can be determined.
    """

    path: str
    position: int
    offset: int
    next_offset: int
    size: int
    header: BatchHeader | None
    data: bytes
    problem: str


def scan_file(disk: Disk, path: str, chunk_bytes: int = CHUNK_BYTES) -> Generator[ScannedBatch, None, None]:
    """Yield all batches to the end of the file.

    A batch whose checksum fails is reported and skipped; the scan ends where even the length is invalid. Raises the
    disk's errors.
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


def _in_chunk(path: str, start: int, chunk: bytes) -> Iterator[ScannedBatch]:
    """Yield the complete batches of the chunk, up to the first invalid one."""
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


def checked(path: str, position: int, data: bytes) -> ScannedBatch:
    """Check a batch that is complete by its length."""
    offset, next_offset, size, _newest = extent(data)
    try:
        return ScannedBatch(path, position, offset, next_offset, size, check_batch(data), data, "")
    except CorruptBatch as error:
        return ScannedBatch(path, position, offset, next_offset, size, None, data, error.reason)


def _large_or_wrong(disk: Disk, handle: int, path: str, position: int, chunk: bytes, file_size: int) -> ScannedBatch:
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
    return ScannedBatch(path, position, offset, offset, 0, None, b"", problem)
