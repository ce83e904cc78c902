"""The node's write-ahead log: the only files that a flush syncs, so that it costs one sync for all logs.

Format 1. A *segment* is a file `wal/%020d.wal` of fixed size, named by its base position; positions only grow, over
restarts too. It begins with a sector that states both (`SEGMENT_HEAD`), then holds *blocks*. A flush writes one block,
which begins at a multiple of 512, so that a torn write never touches bytes that an earlier flush made durable:

    block   magic, crc of the rest of this head, crc of the body, bytes of the body, position, end of the block before
    frame   length of the rest, length of the name, name of the log, a batch with offsets; no batch: the log was removed

A checksum covers a block, not a frame: the bytes of one sync are accepted or cut as a whole, and an append computes no
checksum. Segments are filled with zeros beforehand (a sync then writes no metadata, and cannot find the disk full) and
reused with their old blocks: a block is valid only at the position in its header, and no position occurs twice.

An invalid block is a torn tail, and cut, unless the header of a later block shows that a flush began after it: a flush
begins only after the previous one ended, so the damaged block was durable once. So was the content of a missing
segment, if there is a later one: each segment begins where the previous one ends. Only the first segment of a start
does not: it begins with an empty block that records the position that the next block follows. `reader.py` reads this.
"""

from struct import Struct

import msgspec
from crc32c import crc32c

SECTOR = 512
FORMAT = 1
SEGMENT_MAGIC = b"MusterWA"
BLOCK_MAGIC = b"MuBl"

SEGMENT_HEAD = Struct(">8sIQQ")  # magic, format, base position, bytes of the file; then the crc of these
BLOCK_HEAD = Struct(">4sIIIQQ")
BLOCK_REST = Struct(">IIQQ")  # the fields that the head's crc covers
UINT32 = Struct(">I")


class Block(msgspec.Struct, frozen=True, gc=False):
    """Fields of a block's head."""

    body_crc: int
    body_bytes: int
    position: int
    previous_end: int


def block_bytes(body: bytes, position: int, previous_end: int) -> bytes:
    """Return a whole block with its padding."""
    rest = BLOCK_REST.pack(crc32c(body), len(body), position, previous_end)
    padding = -(BLOCK_HEAD.size + len(body)) % SECTOR
    return b"".join((BLOCK_MAGIC, UINT32.pack(crc32c(rest)), rest, body, bytes(padding)))


def segment_head(base: int, size: int) -> bytes:
    head = SEGMENT_HEAD.pack(SEGMENT_MAGIC, FORMAT, base, size)
    return (head + UINT32.pack(crc32c(head))).ljust(SECTOR, b"\0")


def segment_path(folder: str, base: int) -> str:
    return f"{folder}/{base:020d}.wal"


def block_at(data: bytes, at: int, base: int) -> Block | None:
    """Return the head of a block with this position, if there is one; its body may be damaged."""
    if len(data) < at + BLOCK_HEAD.size or data[at : at + 4] != BLOCK_MAGIC:
        return None
    rest = data[at + 8 : at + BLOCK_HEAD.size]
    if UINT32.unpack_from(data, at + 4)[0] != crc32c(rest):
        return None
    block = Block(*BLOCK_REST.unpack(rest))
    return block if block.position == base + at else None


def body_of(data: bytes, at: int, block: Block) -> memoryview | None:
    first = at + BLOCK_HEAD.size
    body = memoryview(data)[first : first + block.body_bytes]
    return body if len(body) == block.body_bytes and crc32c(body) == block.body_crc else None
