"""Unsigned varints and tagged fields of flexible versions (KIP-482)."""

from typing import Final

from protocol.errors import ProtocolViolation

MAX_TAGS: Final = 64
"""Limit of tagged fields in one struct, ten times the number of any struct of Kafka's. Without it two bytes would make
a field."""


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Return the value and the position after it. Raises ProtocolViolation for one of more than five bytes."""
    value = 0
    for shift in range(0, 35, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ProtocolViolation("a length of more than five bytes")


def write_uvarint(value: int) -> bytes:
    """Encode a value that fits 31 bits."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_tags(data: bytes, position: int) -> tuple[dict[int, bytes], int]:
    """Return the tagged fields at `position`, unknown ones included, and the position after them. Raises
    ProtocolViolation for more than `MAX_TAGS` fields, or a repeated or incomplete one; or IndexError.
    """
    count, position = read_uvarint(data, position)
    if count > MAX_TAGS:
        raise ProtocolViolation(f"{count} tagged fields in one struct; {MAX_TAGS} are allowed")
    tags: dict[int, bytes] = {}
    for _ in range(count):
        tag, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        end = position + size
        if end > len(data):
            raise ProtocolViolation("a tagged field ends beyond its frame")
        tags[tag] = data[position:end]
        position = end
    if len(tags) < count:
        raise ProtocolViolation("a tagged field stands twice in its struct")
    return tags, position


def write_tags(tags: list[tuple[int, bytes]]) -> bytes:
    """Encode the tagged fields at the end of a struct, given in ascending order of tags."""
    parts = [write_uvarint(len(tags))]
    for tag, value in tags:
        parts += (write_uvarint(tag), write_uvarint(len(value)), value)
    return b"".join(parts)
