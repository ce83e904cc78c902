"""The writing side of the write-ahead log (its format: `layout.py`). Nothing here touches the disk."""

from partition_log.wal.layout import BLOCK_HEAD, SECTOR, UINT32, block_bytes
from partition_log.wal.wal_segment import BlockWrite, LastBlock, WalSegment, WalSegmentMaker

_length = UINT32.pack


class WriteAheadLog:
    """The writing side. Blocks are returned as `BlockWrite`s; the job `WalSegmentMaker` creates segments.

    `position` is the end of the last frame; `flushed` the end of the durable part, at least `position` if all is
    durable.
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
        self._ready: list[BlockWrite] = []  # closed blocks, before the open one
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
        """Position where the open block begins: recovery reads from here on."""
        return self._block

    @property
    def room(self) -> int:
        """Bytes that can be appended before another segment must have been made."""
        ahead = 0 if self._next is None else self._next.size
        return self._limit - self._end + ahead

    def append(self, name: bytes, batch: bytes) -> int:
        """Append a frame. Return the position after it; 0 if there is no room, and then nothing has changed."""
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
        self._ready.append(BlockWrite(self._active.handle, self._block - self._active.base, data))
        self._chunks = []
        self._previous_end = self._block + len(data)
        self._open_block(self._previous_end)

    def _open_block(self, position: int) -> None:
        self._block = position
        self._end = position + BLOCK_HEAD.size

    # ----------------------------------------------------------------------------------------------------- flushing

    def take(self) -> tuple[int, tuple[BlockWrite, ...]]:
        """Return the position that will be durable, and the blocks to write and sync one after the other."""
        self._close_block()
        writes = tuple(self._ready)
        self._ready = []
        return self._previous_end, writes

    def flushed_to(self, position: int) -> None:
        self.flushed = position

    # ----------------------------------------------------------------------------------------------------- segments

    def resume(self, base: int, previous_end: int, spares: list[str], last: LastBlock | None = None) -> None:
        """Continue after a recovery: segments begin at `base`, and the last block found ends at `previous_end`.

        `last` is that block if it may not be durable. Nothing can be appended until a segment was `made`.
        """
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
        """True if the next segment is missing."""
        return self._next is None

    def making(self) -> WalSegmentMaker | None:
        """Return the job that makes the next segment, if it is missing. Takes a spare."""
        if self._next is not None:
            return None
        spare = self.spares.pop() if self.spares else None
        if self._active is not None:
            return WalSegmentMaker(self._folder, self._active.end, self._segment_bytes, spare)
        # The first segment since the start. Its base need not follow the segments found, whose last may be the spare.
        # So an empty block records their end, or the next recovery would take the gap for a missing segment.
        first = block_bytes(b"", self.position + SECTOR, self._previous_end)
        return WalSegmentMaker(self._folder, self.position, self._segment_bytes, spare, first, self._last)

    def made(self, segment: WalSegment) -> None:
        """Use the segment as the next one, or as the current one if none could be created earlier on a full disk."""
        if self._active is None:
            self.start(segment)
        else:
            self._next = segment

    def retire(self, block: int) -> tuple[WalSegment, ...]:
        """Return segments that no recovery from `block` needs and that no flush writes to. They become spares."""
        done = min(block, self.flushed)
        retired = tuple(segment for segment in self._older if segment.end <= done)
        self._older = self._older[len(retired) :]
        self.spares += [segment.path for segment in retired]
        return retired

    def surplus(self) -> tuple[str, ...]:
        """Return spares beyond what one checkpoint's worth of writing needs, to be removed."""
        surplus = tuple(self.spares[self._keep :])
        del self.spares[self._keep :]
        return surplus

    def handles(self) -> list[int]:
        segments = [*self._older, *(segment for segment in (self._active, self._next) if segment is not None)]
        return [segment.handle for segment in segments]
