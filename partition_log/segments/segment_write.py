"""The write of a segment's newest bytes to its file."""

import msgspec


class SegmentWrite(msgspec.Struct, frozen=True, gc=False):
    """Bytes for a position in a segment's file, which is created if it is absent."""

    path: str
    position: int
    data: bytes
