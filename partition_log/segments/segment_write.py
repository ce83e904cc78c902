"""The write of a segment's newest bytes to its file."""

import msgspec


class SegmentWrite(msgspec.Struct, frozen=True, gc=False):
    """Bytes for a place in a segment's file, which is there or is made."""

    path: str
    position: int
    data: bytes
