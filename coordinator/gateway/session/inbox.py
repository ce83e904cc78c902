"""Bytes that have arrived on one side of a connection and have not been taken: looked at from the front, taken in the
pieces they came in, and joined only where somebody wants a whole frame."""

from typing import Final

CRUMB_BYTES: Final = 4_096
"""Pieces below this are put together: a crumb by itself takes twenty times its bytes."""


class Inbox:
    """Empty, it keeps no buffer."""

    __slots__ = ("_at", "_chunks", "size")

    def __init__(self) -> None:
        self._chunks: list[bytes | bytearray] = []
        self._at = 0
        """Of the first chunk, how much is taken already."""
        self.size = 0

    def add(self, data: bytes) -> None:
        """Behind what is there."""
        if not data:
            return
        self.size += len(data)
        if self._chunks and len(data) < CRUMB_BYTES:
            last = self._chunks[-1]
            if len(last) < CRUMB_BYTES:
                if isinstance(last, bytearray):
                    last += data
                else:
                    self._chunks[-1] = bytearray(last) + data
                return
        self._chunks.append(data)

    def head(self, count: int) -> bytes:
        """The first `count` bytes, or all if there are fewer; they stay."""
        if not self._chunks:
            return b""
        end = self._at + count
        first = self._chunks[0]
        if end <= len(first) or len(self._chunks) == 1:
            return bytes(first[self._at : end])
        parts, missing = [first[self._at :]], end - len(first)
        for chunk in self._chunks[1:]:
            parts.append(chunk[:missing])
            missing -= len(chunk)
            if missing <= 0:
                break
        return b"".join(parts)

    def take(self, most: int) -> bytes:
        """The next piece, of `most` bytes or fewer: as it came, not copied, where it is wanted whole."""
        first = self._chunks[0]
        if not self._at and len(first) <= most:
            del self._chunks[0]
            self.size -= len(first)
            return bytes(first)
        piece = bytes(first[self._at : self._at + most])
        self._at += len(piece)
        if self._at == len(first):
            del self._chunks[0]
            self._at = 0
        self.size -= len(piece)
        return piece

    def take_whole(self, count: int) -> bytes:
        """The first `count` bytes, which must be there and at least one, in one piece."""
        first = self._chunks[0]
        if self._at + count <= len(first):
            return self.take(count)
        pieces, taken, missing = [first[self._at :]], 1, self._at + count - len(first)
        while missing > 0:  # all at once: taken one by one, many small ones would each move all the others
            chunk = self._chunks[taken]
            pieces.append(chunk[:missing])
            missing -= len(chunk)
            taken += 1
        if missing < 0:
            taken -= 1
        self._at = missing + len(self._chunks[taken]) if missing < 0 else 0
        del self._chunks[:taken]
        self.size -= count
        return b"".join(pieces)

    @property
    def has_frame(self) -> bool:
        """True if a whole frame of Kafka's protocol (INT32 size, then as many bytes) is there."""
        return self.size >= 4 and self.size >= 4 + int.from_bytes(self.head(4), "big")

    def clear(self) -> None:
        """Nothing has arrived."""
        self._chunks, self._at, self.size = [], 0, 0
