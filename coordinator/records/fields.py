"""Fields of keys and values of the offsets log as bytes, in Kafka's encodings (docs/spec/group-protocol.md#8.2).

Compact forms have their length plus one as an unsigned varint; 0 is null. Structs in compact forms end with tagged
fields.
"""

import struct
from collections.abc import Iterable, Sequence

from coordinator.records.records import LogCorrupt
from protocol.kafka.varint import write_uvarint

NO_TAGS = b"\x00"


# --- writing ---


def string(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def nullable(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else string(text)


def sized_bytes(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def compact_bytes(data: bytes) -> bytes:
    return write_uvarint(len(data) + 1) + data


def compact_string(text: str) -> bytes:
    return compact_bytes(text.encode())


def compact_nullable(text: str | None) -> bytes:
    return b"\x00" if text is None else compact_string(text)


def array(items: Iterable[bytes]) -> bytes:
    """Return a compact array of encoded items."""
    pieces = list(items)
    return write_uvarint(len(pieces) + 1) + b"".join(pieces)


def int32s(values: Sequence[int]) -> bytes:
    """Return a compact array of numbers."""
    return write_uvarint(len(values) + 1) + struct.pack(f">{len(values)}i", *values)


def tagged(tag: int, data: bytes) -> bytes:
    """Return the tagged fields of a struct that has this one."""
    return b"\x01" + write_uvarint(tag) + write_uvarint(len(data)) + data


# --- reading ---


class FieldReader:
    """Walks over one key or value; any step beyond its end is `LogCorrupt`."""

    __slots__ = ("_data", "_flexible", "_position")

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self._data, self._position, self._flexible = data, 0, flexible

    def use_compact_forms(self) -> None:
        self._flexible = True

    def take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise LogCorrupt(f"{length} bytes wanted at {self._position} of {len(self._data)}")
        piece = self._data[self._position : end]
        self._position = end
        return piece

    def integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise LogCorrupt("a varint without end")

    def _length(self, size: int) -> int:
        return self.varint() - 1 if self._flexible else self.integer(size)

    def nullable(self) -> str | None:
        length = self._length(2)
        if length == -1:
            return None
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise LogCorrupt(f"not UTF-8: {error}") from None

    def string(self) -> str:
        text = self.nullable()
        if text is None:
            raise LogCorrupt("null in place of a string")
        return text

    def data(self) -> bytes:
        return self.take(self._length(4))

    def count(self) -> int:
        count = self._length(4)
        if count < 0:
            raise LogCorrupt(f"an array of {count} elements")
        return count

    def tags(self) -> dict[int, bytes]:
        if not self._flexible:
            return {}
        return {self.varint(): self.take(self.varint()) for _ in range(self.varint())}

    def strings(self) -> tuple[str, ...]:
        """Read an array of strings."""
        return tuple([self.string() for _ in range(self.count())])

    def int32s(self) -> tuple[int, ...]:
        """Read an array of numbers."""
        count = self.count()
        return struct.unpack(f">{count}i", self.take(4 * count))
