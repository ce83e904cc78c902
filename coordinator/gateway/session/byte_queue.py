"""Received bytes that are not consumed yet: they can be peeked at in front, are taken in the pieces in which they
arrived, and are joined only for a caller that needs a whole frame."""

from typing import Final

FRAGMENT_BYTES: Final = 4_096
"""Pieces below this are joined on arrival: a small bytes object takes up to twenty times its content."""


class ByteQueue:
    """A queue of bytes; empty, it holds no buffer."""

    __slots__ = ("_at", "_chunks", "size")

    def __init__(self) -> None:
        self._chunks: list[bytes | bytearray] = []
        self._at = 0
        """Bytes of the first chunk that are consumed."""
        self.size = 0

    def add(self, data: bytes) -> None:
        """Append bytes."""
        if not data:
            return
        self.size += len(data)
        if self._chunks and len(data) < FRAGMENT_BYTES:
            last = self._chunks[-1]
            if len(last) < FRAGMENT_BYTES:
                if isinstance(last, bytearray):
                    last += data
                else:
                    self._chunks[-1] = bytearray(last) + data
                return
        self._chunks.append(data)

    def peek(self, count: int) -> bytes:
        """Return the first `count` bytes, or all if there are fewer, without consuming them."""
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

    def take(self, limit: int) -> bytes:
        """Consume and return the next piece of at most `limit` bytes; a whole chunk is not copied."""
        first = self._chunks[0]
        if not self._at and len(first) <= limit:
            del self._chunks[0]
            self.size -= len(first)
            return bytes(first)
        piece = bytes(first[self._at : self._at + limit])
        self._at += len(piece)
        if self._at == len(first):
            del self._chunks[0]
            self._at = 0
        self.size -= len(piece)
        return piece

    def take_whole(self, count: int) -> bytes:
        """Consume and return the first `count` bytes in one piece. `count` is at least 1 and at most `size`."""
        first = self._chunks[0]
        if self._at + count <= len(first):
            return self.take(count)
        pieces, taken, missing = [first[self._at :]], 1, self._at + count - len(first)
        while missing > 0:  # one deletion at the end: deleting chunk by chunk would move the rest each time
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
        return self.size >= 4 and self.size >= 4 + int.from_bytes(self.peek(4), "big")

    def clear(self) -> None:
        """Discard everything."""
        self._chunks, self._at, self.size = [], 0, 0
