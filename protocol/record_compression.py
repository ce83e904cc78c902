"""The four codecs of record batches, with bounds on their output and on their work for empty blocks."""

import enum
import struct

import cramjam

MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024


class CannotDecompress(Exception):
    """Raised for a payload that is damaged, or too large decompressed."""


class Compression(enum.IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_FREE_BLOCKS, _LEAST_BLOCK_BYTES = 1_000, 512
_GZIP_MEMBER = b"\x1f\x8b\x08"
_XERIAL = b"\x82SNAPPY\x00"


def decompress(compression: int, payload: bytes, max_bytes: int) -> bytes:
    """Return at most `max_bytes` decompressed bytes. Raises `CannotDecompress`."""
    try:
        match compression:
            case Compression.GZIP:
                # Even an empty gzip member takes time; writers make one member.
                if payload.count(_GZIP_MEMBER) > _FREE_BLOCKS:
                    raise cramjam.DecompressionError(f"gzip: more than {_FREE_BLOCKS} members")
                return _bounded(cramjam.gzip, payload, max_bytes)
            case Compression.SNAPPY:
                return _snappy(payload, max_bytes)
            case Compression.LZ4:
                return _bounded(cramjam.lz4, payload, max_bytes)
            case Compression.ZSTD:
                return _bounded(cramjam.zstd, payload, max_bytes)
            case _:
                raise CannotDecompress(f"compression {compression} has no meaning")
    except (cramjam.DecompressionError, _TooLarge, struct.error) as error:
        raise CannotDecompress(f"decompressing its records: {error}") from None


def compress(compression: int, payload: bytes) -> bytes:
    """Compress the payload in a form that every client can read: Java's reads only independent LZ4 blocks."""
    match compression:
        case Compression.NONE:
            return payload
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(payload))
        case Compression.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(payload))
        case Compression.LZ4:
            compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
            compressor.compress(payload)
            return bytes(compressor.finish())
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(payload))
        case _:
            raise CannotDecompress(f"compression {compression} has no meaning")


class _TooLarge(Exception):
    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"they are more than {max_bytes} bytes")


def _bounded(codec: object, payload: bytes, max_bytes: int) -> bytes:
    """Decompress into a buffer that grows up to the bound, since a stream's header may have a false size."""
    room = min(max_bytes, max(65_536, 8 * len(payload)))
    while True:
        out = bytearray(room)
        try:
            return bytes(memoryview(out)[: codec.decompress_into(payload, out)])  # type: ignore[attr-defined]
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
        if room == max_bytes:
            raise _TooLarge(max_bytes)
        room = min(max_bytes, room * 8)


def _snappy(payload: bytes, max_bytes: int) -> bytes:
    """Decompress raw Snappy, or the framing of Kafka's Java clients: magic, two versions, then blocks."""
    if not payload.startswith(_XERIAL):
        return _snappy_block(payload, max_bytes)
    blocks: list[bytes] = []
    at, given = 16, max_bytes
    while at < len(payload):
        (length,) = struct.unpack_from(">i", payload, at)
        if length < 0 or at + 4 + length > len(payload):
            raise cramjam.DecompressionError("snappy: truncated block")
        block = _snappy_block(payload[at + 4 : at + 4 + length], max_bytes)
        max_bytes -= len(block)
        blocks.append(block)
        # Even an empty block takes time. Writers make blocks of 32 KiB, or of at least 1 KiB.
        if len(blocks) - _FREE_BLOCKS > (given - max_bytes) // _LEAST_BLOCK_BYTES:
            raise cramjam.DecompressionError(f"snappy: {len(blocks)} blocks with next to nothing in them")
        at += 4 + length
    return b"".join(blocks)


def _snappy_block(block: bytes, max_bytes: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > max_bytes:
        raise _TooLarge(max_bytes)
    return bytes(cramjam.snappy.decompress_raw(block))
