"""Finds the positions of a schema's fields in a frame that was read."""

from struct import Struct, calcsize
from typing import Final

from protocol.kafka.fields import Field, FieldGroup, Fixed, Inline, Many, Maybe, Nested, Scalar, Schema
from protocol.kafka.source import present
from protocol.kafka.varint import read_tags, read_uvarint

_LENGTHS: Final = {code: Struct(f">{code}") for code in ("h", "i")}


def positions(schema: Schema, version: int, frame: bytes, start: int, name: str) -> list[int]:
    """Return the position of each `name`, a field of fixed width and without a tag, in the frame. The frame's body
    begins at `start`, and a reader of this version has read it."""
    walk = _Walk(version, version >= schema.flexible, frame, start, name)
    walk.group(schema.group, with_tags=True)
    return walk.found


class _Walk:
    """A walk through a frame. `found`: positions of the fields with the name so far."""

    def __init__(self, version: int, is_flexible: bool, frame: bytes, start: int, name: str) -> None:
        self.found: list[int] = []
        self._version = version
        self._is_flexible = is_flexible
        self._frame = frame
        self._position = start
        self._name = name

    def group(self, group: FieldGroup, *, with_tags: bool) -> None:
        for row in present(group, self._version):
            if row.tag is None:
                self._row(row)
        if with_tags and self._is_flexible:
            _, self._position = read_tags(self._frame, self._position)

    def _row(self, row: Field) -> None:
        kind = row.type
        if isinstance(kind, Many):
            for _ in range(self._length("i")):
                self._item(kind)
        elif isinstance(kind, Inline):
            self.group(kind.group, with_tags=False)
        elif isinstance(kind, Nested):
            self.group(kind.group, with_tags=True)
        elif isinstance(kind, Maybe):
            self._position += 1
            if self._frame[self._position - 1] < 0x80:  # the length's byte is not negative
                self.group(kind.group, with_tags=True)
        else:
            if row.name == self._name:
                self.found.append(self._position)
            self._scalar(kind)

    def _item(self, kind: Many) -> None:
        if isinstance(kind.item, FieldGroup):
            self.group(kind.item, with_tags=not kind.bare)
        else:
            self._scalar(kind.item)

    def _scalar(self, kind: Scalar) -> None:
        if isinstance(kind, Fixed):
            self._position += calcsize(f">{kind.code}")
        else:
            size = self._length(kind.length_code)
            self._position += max(size, 0)

    def _length(self, code: str) -> int:
        """Read a length; that of null is negative in both encodings."""
        if self._is_flexible:
            size, self._position = read_uvarint(self._frame, self._position)
            return size - 1
        packed = _LENGTHS[code]
        (size,) = packed.unpack_from(self._frame, self._position)
        self._position += packed.size
        return int(size)
