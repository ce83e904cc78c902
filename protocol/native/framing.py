"""Finds the boundaries of MessagePack values in a stream without length prefixes.

No objects are built here: `msgpack` only skips whole values, and the remaining bytes are read header by header. A false
length takes no memory, however deeply it is nested. (`msgpack` allocates a list when it reads the list's header, so
nested headers of five bytes each could take gigabytes.) Typed decoding follows, on whole values.
"""

from collections.abc import Iterator
from typing import Final

import msgpack

from protocol.errors import ProtocolViolation

_PIECE: Final = 262_144
"""Largest number of bytes skipped at once, since the skipper copies its input and keeps its buffer."""

ARRAYS: Final = frozenset((*range(0x90, 0xA0), 0xDC, 0xDD))
"""First bytes of arrays, as all frames are."""
_INVALID: Final = 0xC1


class Unfinished:
    """Bytes of an incomplete value. Each header is read once, however the bytes are split."""

    __slots__ = ("_limit", "_position", "_wanted", "data")

    def __init__(self, data: bytes, limit: int) -> None:
        """Begin a value. Raises ProtocolViolation unless it is an array that can end within `limit` bytes."""
        self.data = bytearray(data)
        self._limit = limit
        self._position = 0
        self._wanted = 1
        self._walk()

    def feed(self, data: bytes) -> int | None:
        """Append bytes. Return the value's length once it is complete; `self.data` may contain more bytes after it.

        Raises ProtocolViolation as soon as the headers read so far exceed the limit.
        """
        self.data += data
        self._walk()
        return None if self._wanted or self._position > len(self.data) else self._position

    def _walk(self) -> None:
        """Read headers. `_position`: the next header's position; `_wanted`: number of values still missing."""
        data, length, position, wanted = self.data, len(self.data), self._position, self._wanted
        if not position and length and data[0] not in ARRAYS:
            raise ProtocolViolation(f"a frame is an array, not a value that begins with {data[0]:#04x}")
        while wanted and position < length:
            head = data[position]
            width = _LENGTH_WIDTH[head]
            if not width:
                if head == _INVALID:
                    raise ProtocolViolation(f"{_INVALID:#04x} begins no MessagePack value")
                position += _FIXED_BYTES[head]
                wanted += _FIXED_CHILDREN[head] - 1
            else:
                payload = position + 1 + width
                if payload > length:
                    break
                number = int.from_bytes(data[position + 1 : payload])
                position = payload + number * _BYTES_PER_UNIT[head] + _EXTRA_BYTES[head]
                wanted += number * _VALUES_PER_UNIT[head] - 1
            if position + wanted > self._limit:
                raise ProtocolViolation(f"a value of {position + wanted} bytes or more; {self._limit} are allowed")
        self._position, self._wanted = position, wanted


class Framing:
    """Splits streams into values of at most `max_frame_bytes`. One object serves any number of connections; a
    connection keeps only an `Unfinished` while a value is incomplete.
    """

    __slots__ = ("_skipper", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._skipper = _new_skipper()

    def split(self, unfinished: Unfinished | None, data: bytes) -> tuple[list[bytes], Unfinished | None]:
        """Return the complete values in the unfinished bytes and the new ones, and the bytes that are unfinished now.
        Raises ProtocolViolation for invalid MessagePack, or for too large a value; the stream is unusable then.
        """
        frames: list[bytes] = []
        for piece in (data,) if len(data) <= _PIECE else _pieces(data):
            rest = piece
            if unfinished is not None:
                end = unfinished.feed(piece)
                if end is None:
                    continue
                with memoryview(unfinished.data) as view:
                    frames.append(bytes(view[:end]))
                    rest = bytes(view[end:])
            unfinished = self._skip(rest, frames)
        return frames, unfinished

    def _skip(self, data: bytes, frames: list[bytes]) -> Unfinished | None:
        skipper, length, start = self._skipper, len(data), 0
        before = skipper.tell()
        skipper.feed(data)
        try:
            while start < length:
                skipper.skip()
                end = skipper.tell() - before
                if end - start > self.max_frame_bytes:
                    raise ProtocolViolation(f"a value of {end - start} bytes; {self.max_frame_bytes} are allowed")
                frames.append(data[start:end])
                start = end
        except msgpack.OutOfData:
            self._skipper = _new_skipper()  # a skipper cannot be reset after an incomplete value
            return Unfinished(data[start:], self.max_frame_bytes)
        except (msgpack.UnpackException, ValueError) as error:
            self._skipper = _new_skipper()
            raise ProtocolViolation(f"no MessagePack value: {type(error).__name__}") from None
        except ProtocolViolation:
            self._skipper = _new_skipper()
            raise
        return None


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))


def _new_skipper() -> msgpack.Unpacker:
    # Its input is in memory already, and at most one piece, so the limit is checked for each value instead. Its buffer
    # has at least `read_size`, by default a megabyte.
    return msgpack.Unpacker(max_buffer_size=0, read_size=16_384)


def _headers() -> tuple[bytes, bytes, bytes, bytes, bytes, bytes]:
    """Return tables by first byte: fixed length and number of children, or the width of the length field and the units
    that it counts."""
    fixed, children = bytearray(b"\x01" * 256), bytearray(256)
    width, per_byte, per_value, extra = bytearray(256), bytearray(256), bytearray(256), bytearray(256)
    for count in range(16):
        children[0x80 + count] = 2 * count
        children[0x90 + count] = count
    for count in range(32):
        fixed[0xA0 + count] = 1 + count
    for head, size in zip(range(0xCA, 0xD4), (5, 9, 2, 3, 5, 9, 2, 3, 5, 9), strict=True):
        fixed[head] = size
    for exponent in range(5):
        fixed[0xD4 + exponent] = 2 + (1 << exponent)
    for first, widths in ((0xC4, (1, 2, 4)), (0xC7, (1, 2, 4)), (0xD9, (1, 2, 4)), (0xDC, (2, 4)), (0xDE, (2, 4))):
        for head, size in enumerate(widths, first):
            width[head] = size
            per_byte[head] = first < 0xDC
            per_value[head] = {0xDC: 1, 0xDE: 2}.get(first, 0)
            extra[head] = first == 0xC7
    return bytes(fixed), bytes(children), bytes(width), bytes(per_byte), bytes(per_value), bytes(extra)


_FIXED_BYTES, _FIXED_CHILDREN, _LENGTH_WIDTH, _BYTES_PER_UNIT, _VALUES_PER_UNIT, _EXTRA_BYTES = _headers()
