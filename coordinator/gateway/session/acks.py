"""Which acknowledgement a Produce wants, read off the beginning of its frame: the one with `acks` 0 has no answer."""

from struct import Struct
from typing import Final

from protocol.errors import ProtocolViolation
from protocol.kafka.varint import read_tags, read_uvarint

_INT16: Final = Struct(">h").unpack_from
_NAME_AT: Final = 14
_FIRST_WITH_TRANSACTIONS, _FLEXIBLE = 3, 9


def acks_of(head: bytes, version: int) -> int:
    """Of a Produce, from the beginning of its frame. At least the header's fixed part must
    be there; IndexError if not enough of the rest is."""
    position = _NAME_AT + max(_INT16(head, 12)[0], 0)
    if version >= _FLEXIBLE:
        position = _skip_tags(head, position)
        size, position = read_uvarint(head, position)
        position += max(size - 1, 0)
    elif version >= _FIRST_WITH_TRANSACTIONS:
        if position + 2 > len(head):
            raise IndexError
        position += 2 + max(_INT16(head, position)[0], 0)
    if position + 2 > len(head):
        raise IndexError
    acks: int = _INT16(head, position)[0]
    return acks


def _skip_tags(head: bytes, position: int) -> int:
    try:
        return read_tags(head, position)[1]
    except ProtocolViolation:
        # It may only not be there yet: whoever is given the whole of it says what is wrong.
        raise IndexError from None
