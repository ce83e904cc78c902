"""The node's write-ahead log: the one set of files that is synced, so that a flush costs one sync for all logs.

Format 1. A *segment* is a file `wal/%020d.wal` of fixed size, named by its base position; positions only grow, over
restarts too. It begins with a sector that says so (`SEGMENT_HEAD`), then holds *blocks*. A block is what one flush
writes; it begins at a multiple of 512, so that a write that tears never touches what an earlier flush made durable:

    block   magic, crc of the rest of this head, crc of the body, bytes of the body, position, end of the block before
    frame   length of what follows, length of the name, name of the log, a stamped batch; no batch: the log was removed

The checksum is the block's and not the frame's: what one sync made durable is believed or cut as one, and an append
costs no checksum. Segments are written full of zeros beforehand (a sync then has no metadata to write, and meets no
full disk) and used again, old blocks and all: a block is believed only at the position that it names, and no position
comes twice.

A block that does not hold is a torn tail, and cut, unless a later block's head shows that a flush began after it:
flushes follow each other, so what is damaged then was durable once. So was what a missing segment held, if there is one
behind it: each begins where the one before it ends, but for the first of a start, which begins with an empty block that
says what the next one follows. `recovery.py` reads all of this.
"""

from struct import Struct

import msgspec
from crc32c import crc32c

from partition_log.disk import Disk, is_disk_full

SECTOR = 512
FORMAT = 1
SEGMENT_MAGIC = b"MusterWA"
BLOCK_MAGIC = b"MuBl"

SEGMENT_HEAD = Struct(">8sIQQ")  # magic, format, base position, bytes of the file; then the crc of these
BLOCK_HEAD = Struct(">4sIIIQQ")
BLOCK_REST = Struct(">IIQQ")  # what the head's crc covers
UINT32 = Struct(">I")

_ZEROS = bytes(1024 * 1024)
_length = UINT32.pack


class Write(msgspec.Struct, frozen=True, gc=False):
    """Bytes for a place in a file."""

    handle: int
    position: int
    data: bytes


class Block(msgspec.Struct, frozen=True, gc=False):
    """What a block's head says."""

    body_crc: int
    body_bytes: int
    position: int
    previous_end: int


def block_bytes(body: bytes, position: int, previous_end: int) -> bytes:
    """A whole block with its padding."""
    rest = BLOCK_REST.pack(crc32c(body), len(body), position, previous_end)
    padding = -(BLOCK_HEAD.size + len(body)) % SECTOR
    return b"".join((BLOCK_MAGIC, UINT32.pack(crc32c(rest)), rest, body, bytes(padding)))


def segment_head(base: int, size: int) -> bytes:
    head = SEGMENT_HEAD.pack(SEGMENT_MAGIC, FORMAT, base, size)
    return (head + UINT32.pack(crc32c(head))).ljust(SECTOR, b"\0")


def segment_path(folder: str, base: int) -> str:
    return f"{folder}/{base:020d}.wal"


class LastBlock(msgspec.Struct, frozen=True, gc=False):
    """The last one that a recovery has read. Each is synced before the next is written, so it is the only one that may
    be in the page cache alone: its process was killed before the sync, or died of one that failed, after which the
    system takes what is not on the disk for clean.
    """

    path: str
    position: int
    data: bytes

    def make_durable(self, disk: Disk) -> None:
        """Written again, and synced. Raises `OSError`."""
        handle = disk.open(self.path, make=False)
        try:
            disk.write_at(handle, self.position, self.data)
            disk.sync(handle)
        finally:
            disk.close(handle)


class WalSegment(msgspec.Struct, frozen=True, gc=False):
    handle: int
    path: str
    base: int
    size: int
    used: int = 0  # bytes of blocks that it was made with

    @property
    def end(self) -> int:
        return self.base + self.size


class Making(msgspec.Struct, frozen=True, gc=False):
    """How to make a segment: from a file that has served, or of zeros. It gets its name when it is whole. `first` is a
    block that it begins with, and `last` the one that it follows, where that may not be durable.
    """

    folder: str
    base: int
    size: int
    spare: str | None
    first: bytes = b""
    last: LastBlock | None = None

    def run(self, disk: Disk) -> WalSegment:
        if self.last is not None:
            self.last.make_durable(disk)
        path = segment_path(self.folder, self.base)
        making = f"{self.folder}/making"
        if self.spare is not None:
            disk.rename(self.spare, making)
            disk.sync_folder(self.folder)  # or a crash brings the old name back, for a file that begins otherwise
        handle = disk.open(making)
        try:
            # Of one that a start before left behind nobody knows what of it is on the disk.
            if self.spare is None or disk.size(handle) != self.size:
                self._fill(disk, handle)
            else:
                self._bring_in(disk, handle)
            disk.write_at(handle, 0, segment_head(self.base, self.size) + self.first)
            disk.sync(handle)
            disk.rename(making, path)
            disk.sync_folder(self.folder)
        except OSError:
            disk.close(handle)
            raise
        return WalSegment(handle, path, self.base, self.size, len(self.first))

    def _bring_in(self, disk: Disk, handle: int) -> None:
        """To the page cache: a flush writes half a page at each end, and the loop would wait until that was read."""
        for position in range(0, self.size, len(_ZEROS)):
            disk.read_at(handle, position, len(_ZEROS))

    def _fill(self, disk: Disk, handle: int) -> None:
        disk.truncate(handle, 0)
        try:
            for position in range(0, self.size, len(_ZEROS)):
                disk.write_at(handle, position, _ZEROS[: self.size - position])
        except OSError as error:
            if is_disk_full(error):
                disk.truncate(handle, 0)  # half a segment is of no use, and others need the room
            raise


class WriteAheadLog:
    """The writing side. Nothing here touches the disk: blocks leave as `Write`s, segments come as what `Making` made.

    `position` is the end of the last frame; `flushed` the end of what is durable, at least `position` if all is.
    """

    def __init__(self, folder: str, segment_bytes: int, keep: int) -> None:
        if segment_bytes % SECTOR or segment_bytes < 4 * SECTOR:
            raise ValueError(f"a segment of the write-ahead log is a multiple of {SECTOR} bytes, four at least")
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._keep = keep
        self.position = 0
        self.flushed = 0
        self.spares: list[str] = []
        self._active: WalSegment | None = None
        self._next: WalSegment | None = None
        self._older: list[WalSegment] = []  # may be needed by a recovery
        self._ready: list[Write] = []  # closed blocks, before the open one
        self._chunks: list[bytes] = []  # the open block's frames
        self._block = 0  # where the open block begins
        self._previous_end = 0
        self._last: LastBlock | None = None  # to be made durable before the first segment of this start
        self._end = 0  # where its next frame begins
        self._limit = 0

    @property
    def largest_frame(self) -> int:
        """Bytes of name and batch together that a segment can hold."""
        return self._segment_bytes - SECTOR - BLOCK_HEAD.size - UINT32.size - 2

    @property
    def block(self) -> int:
        """Where the open block begins: from here on, a recovery reads."""
        return self._block

    @property
    def room(self) -> int:
        """Bytes that can be appended before another segment must have been made."""
        ahead = 0 if self._next is None else self._next.size
        return self._limit - self._end + ahead

    def append(self, name: bytes, batch: bytes) -> int:
        """The position after the frame; 0 if there is no room, and then nothing has changed."""
        length = len(name) + len(batch)
        end = self._end + 4 + length
        if end > self._limit:
            if not self._advance():
                return 0
            end = self._end + 4 + length
        self._chunks += (_length(length), name, batch)
        self._end = self.position = end
        return end

    def _advance(self) -> bool:
        segment = self._next
        if segment is None or self._active is None:
            return False
        self._close_block()
        self._older.append(self._active)
        self._active, self._next = segment, None
        self._open_block(segment.base + SECTOR)
        self._limit = segment.end
        return True

    def _close_block(self) -> None:
        if not self._chunks:
            return
        assert self._active is not None
        data = block_bytes(b"".join(self._chunks), self._block, self._previous_end)
        self._ready.append(Write(self._active.handle, self._block - self._active.base, data))
        self._chunks = []
        self._previous_end = self._block + len(data)
        self._open_block(self._previous_end)

    def _open_block(self, position: int) -> None:
        self._block = position
        self._end = position + BLOCK_HEAD.size

    # ----------------------------------------------------------------------------------------------------- flushing

    def take(self) -> tuple[int, tuple[Write, ...]]:
        """What to write and sync, one after the other, and the position that is durable then."""
        self._close_block()
        writes = tuple(self._ready)
        self._ready = []
        return self._previous_end, writes

    def flushed_to(self, position: int) -> None:
        self.flushed = position

    # ----------------------------------------------------------------------------------------------------- segments

    def resume(self, base: int, previous_end: int, spares: list[str], last: LastBlock | None = None) -> None:
        """After what was found, whose last block ends at `previous_end` and, if it is named, may not be durable:
        segments begin at `base`. Nothing can be appended until one was `made`."""
        self._last = last
        self.spares = spares
        self.position = self.flushed = base
        self._previous_end = previous_end

    def start(self, segment: WalSegment) -> None:
        """Begin in a new segment."""
        self._active, self._limit = segment, segment.end
        self._open_block(segment.base + SECTOR + segment.used)
        self.position = self.flushed = self._block

    @property
    def is_started(self) -> bool:
        return self._active is not None

    @property
    def wants_segment(self) -> bool:
        """Whether the next segment is missing."""
        return self._next is None

    def making(self) -> Making | None:
        """How to make the next segment, if it is missing. Takes a spare."""
        if self._next is not None:
            return None
        spare = self.spares.pop() if self.spares else None
        if self._active is not None:
            return Making(self._folder, self._active.end, self._segment_bytes, spare)
        # The first since the start. Its base need not follow those that were found, whose last may be the spare: an
        # empty block says where they end, or the next recovery would have to take the gap for a segment that is gone.
        first = block_bytes(b"", self.position + SECTOR, self._previous_end)
        return Making(self._folder, self.position, self._segment_bytes, spare, first, self._last)

    def made(self, segment: WalSegment) -> None:
        """It is the next one, or the first that a full disk has room for."""
        if self._active is None:
            self.start(segment)
        else:
            self._next = segment

    def retire(self, block: int) -> tuple[WalSegment, ...]:
        """Those that no recovery from `block` needs, and no flush is writing. They are spares, their handles free."""
        done = min(block, self.flushed)
        retired = tuple(segment for segment in self._older if segment.end <= done)
        self._older = self._older[len(retired) :]
        self.spares += [segment.path for segment in retired]
        return retired

    def surplus(self) -> tuple[str, ...]:
        """Spares beyond what one checkpoint's worth of writing needs, to be removed."""
        surplus = tuple(self.spares[self._keep :])
        del self.spares[self._keep :]
        return surplus

    def handles(self) -> list[int]:
        segments = [*self._older, *(segment for segment in (self._active, self._next) if segment is not None)]
        return [segment.handle for segment in segments]
