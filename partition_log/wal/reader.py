"""Reading of the write-ahead log at a start: the frames after the checkpoint.

A partition log consists of its part below the checkpoint and these frames. So everything on disk is first read and
checked; only then are the logs cut to their checkpoint and the frames appended again, in order (`store/recovery.py`).
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from partition_log.disk.atomic_file import read_file
from partition_log.disk.disk import Disk, is_unreadable
from partition_log.errors import ADVICE, MISSING, LogDamaged
from partition_log.wal.checkpoint import Checkpoint
from partition_log.wal.layout import (
    BLOCK_HEAD,
    BLOCK_MAGIC,
    FORMAT,
    SECTOR,
    SEGMENT_HEAD,
    SEGMENT_MAGIC,
    UINT32,
    block_at,
    body_of,
    segment_path,
)
from partition_log.wal.wal_segment import LastBlock

_FRAME_HEAD = Struct(">IH").unpack_from  # length of the rest of the frame, length of the name


class Frame(NamedTuple):
    """A batch for a log, or its removal (`batch` is empty). `position` is the frame's end."""

    name: str
    batch: memoryview
    position: int
    path: str
    file_position: int


class WalReader:
    """Reader of the frames after a checkpoint.

    Once all were read, `blocks_end` is where the valid blocks end, and `torn` where a torn tail was found. Another
    recovery from this checkpoint would read the segments in `needed`, but not those in `free`.
    """

    def __init__(self, disk: Disk, folder: str, checkpoint: Checkpoint) -> None:
        self._disk = disk
        self._folder = folder
        self._checkpoint = checkpoint
        self._segments = [(base, wal_segment_size(disk, folder, base)) for base in wal_bases(disk, folder)]
        self._reached = 0
        self._last: tuple[str, int, int] | None = None  # path, position and bytes of the last valid block
        self.blocks_end = 0
        self.torn: str | None = None

    @property
    def needed(self) -> list[str]:
        return [segment_path(self._folder, base) for base, size in self._segments if self._is_needed(base, size)]

    @property
    def free(self) -> list[str]:
        return [segment_path(self._folder, base) for base, size in self._segments if not self._is_needed(base, size)]

    @property
    def end(self) -> int:
        """Position beyond which no segment reaches."""
        return max((base + size for base, size in self._segments), default=0)

    def _is_needed(self, base: int, size: int) -> bool:
        return base <= self._reached and base + size >= self._checkpoint.block

    def scan(self) -> tuple[int, int, dict[str, int]]:
        """Count the frames and their bytes, and find where each removed log was removed last.

        Raises `LogDamaged` for anything but a torn tail.
        """
        done = self._checkpoint.position
        frames = replayed = 0
        removed: dict[str, int] = {}
        for _path, base, at, body in self._bodies():
            start, here, size = base + at + BLOCK_HEAD.size, 0, len(body)
            while here < size:
                length, name_length = _FRAME_HEAD(body, here)
                begin, here = here + 6, here + 4 + length
                if start + here <= done:
                    continue
                frames += 1
                replayed += length
                if length == 2 + name_length:
                    removed[str(body[begin:here], "ascii")] = start + here
        return frames, replayed, removed

    def frames(self) -> Iterator[Frame]:
        """Yield the frames that `scan` has found valid."""
        done = self._checkpoint.position
        names: dict[bytes, str] = {}
        for path, base, at, body in self._bodies():
            first, here, size = at + BLOCK_HEAD.size, 0, len(body)
            while here < size:
                frame_at = first + here
                length, name_length = _FRAME_HEAD(body, here)
                begin, here = here + 6, here + 4 + length
                position = base + first + here
                if position <= done:
                    continue
                raw = bytes(body[begin : begin + name_length])
                name = names.get(raw) or names.setdefault(raw, raw.decode("ascii"))
                yield Frame(name, body[begin + name_length : here], position, path, frame_at)

    def last_block(self) -> LastBlock | None:
        """Return the last block that `scan` has found valid."""
        if self._last is None:
            return None
        path, at, size = self._last
        handle = self._disk.open_to_read(path)
        try:
            return LastBlock(path, at, self._disk.read_at(handle, at, size))
        finally:
            self._disk.close(handle)

    def _bodies(self) -> Iterator[tuple[str, int, int, memoryview]]:
        """Yield each sound block: path and base of its segment, its place there, and its frames."""
        start = self._checkpoint.block
        end: int | None = None  # of the last sound block, once one was read
        follows: int | None = None  # where the next segment begins
        stopped = self._first(start)
        for base, size in self._segments:
            if base + size <= start:
                continue
            path = segment_path(self._folder, base)
            data = read_file(self._disk, path)
            at = max(start - base, SECTOR)
            if follows is not None and base != follows and block_at(data, at, base) is None:
                missing = segment_path(self._folder, follows)
                raise LogDamaged(missing, 0, None, f"{MISSING}, and there is a later one: {path}", ADVICE)
            follows = base + size
            while (block := block_at(data, at, base)) is not None:
                if end is not None and block.previous_end != end:
                    raise LogDamaged(*stopped, None, "a block is missing here, and another follows", ADVICE)
                body = body_of(data, at, block)
                if body is None:
                    break
                if not body:  # an empty block only records where the blocks before it end
                    end = block.previous_end
                    at += SECTOR
                    continue
                yield path, base, at, body
                begin, at = at, _aligned(at + BLOCK_HEAD.size + len(body))
                self._last = (path, begin, at - begin)
                end = base + at
                stopped = (path, at)
                self._reached = base
            if self._is_torn(data, at, base, path):
                stopped = (path, at)
                self._reached = base
            if end is None:
                end = base + at
            self.blocks_end = end

    def first_written(self) -> str | None:
        """Return the path of the first segment that shows a written frame."""
        for base, _size in self._segments:
            path = segment_path(self._folder, base)
            data, at = read_file(self._disk, path), SECTOR
            while (block := block_at(data, at, base)) is not None:
                if block.body_bytes:
                    return path
                at += SECTOR
        return None

    def _first(self, start: int) -> tuple[str, int]:
        """Return where reading begins. The segment exists even if the checkpoint is at its end."""
        for base, size in self._segments:
            if base <= start <= base + size:
                self._reached = base
                return segment_path(self._folder, base), start - base
        what = "the segment is missing that holds this position of all that was written ahead; reading begins in it"
        raise LogDamaged(self._folder, start, None, what, ADVICE)

    def _is_torn(self, data: bytes, at: int, base: int, path: str) -> bool:
        """Return true if the valid blocks end in a torn one. A later block proves that this one was durable once."""
        later = data.find(BLOCK_MAGIC, at + 1)
        while later >= 0:
            if later % SECTOR == 0 and block_at(data, later, base) is not None:
                raise LogDamaged(path, at, None, f"a block does not hold, and another follows at {later}", ADVICE)
            later = data.find(BLOCK_MAGIC, later + 1)
        if block_at(data, at, base) is None:
            return False
        self.torn = f"{path} at position {at}"
        return True


def wal_segment_size(disk: Disk, folder: str, base: int) -> int:
    """Return the size of a segment's file, as its first sector states it.

    A segment gets its name when that sector is durable, so anything else is damage.
    """
    path = segment_path(folder, base)
    handle = disk.open_to_read(path)
    try:
        head = disk.read_at(handle, 0, SEGMENT_HEAD.size + UINT32.size)
        file_size = disk.size(handle)
    except OSError as error:
        if not is_unreadable(error):
            raise
        raise LogDamaged(path, 0, None, f"it cannot be read ({error.strerror})", ADVICE) from error
    finally:
        disk.close(handle)
    if len(head) == SEGMENT_HEAD.size + UINT32.size and UINT32.unpack(head[-4:])[0] == crc32c(head[:-4]):
        magic, version, named, size = SEGMENT_HEAD.unpack_from(head)
        if (magic, version, named, size) == (SEGMENT_MAGIC, FORMAT, base, file_size):
            return file_size
    raise LogDamaged(path, 0, None, "its first sector is not that of this segment", ADVICE)


def wal_bases(disk: Disk, folder: str) -> list[int]:
    return [int(name[:20]) for name in disk.list(folder) if name.endswith(".wal") and name[:-4].isdecimal()]


def _aligned(position: int) -> int:
    return -(-position // SECTOR) * SECTOR
