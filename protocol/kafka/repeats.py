"""Recognizes a commit that differs from an earlier one only in its offsets, without decoding it."""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from protocol.kafka.positions import positions
from protocol.kafka.version_codec import VersionCodec

_REST_AT: Final = 12
"""Position after a frame's correlation id."""
_OFFSET_BYTES: Final = 8

_unpacker = lru_cache(4_096)(Struct)
"""Layouts of one group, and of groups with equally long names, share an unpacker."""


class CommitLayout:
    """The bytes of a commit between its offsets, and the offsets' positions."""

    __slots__ = ("_fixed", "_unpack")

    def __init__(self, frame: bytes, places: list[int]) -> None:
        code, end = ">", _REST_AT
        for place in places:
            code += f"{place - end}sq"
            end = place + _OFFSET_BYTES
        unpack: Callable[[bytes, int], tuple[Any, ...]] = _unpacker(f"{code}{len(frame) - end}s").unpack_from
        self._unpack = unpack
        self._fixed = unpack(frame, _REST_AT)[::2]

    def offsets(self, frame: bytes) -> tuple[int, ...] | None:
        """Return the offsets of a frame of the same size; None if any other byte differs."""
        parts = self._unpack(frame, _REST_AT)
        return parts[1::2] if parts[::2] == self._fixed else None


def layout_of(codec: VersionCodec, frame: bytes, body: int) -> CommitLayout:
    """Return the layout of an OffsetCommit that was read. `body`: position of its first field."""
    return CommitLayout(frame, positions(codec.api.request, codec.version, frame, body, "committed_offset"))
