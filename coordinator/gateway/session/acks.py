"""Reading of `acks` from the beginning of a Produce frame: a request with `acks` 0 gets no reply."""

from struct import Struct
from typing import Final

from protocol.errors import ProtocolViolation
from protocol.kafka.varint import read_tags, read_uvarint

_INT16: Final = Struct(">h").unpack_from
_CLIENT_ID_AT: Final = 14
_FIRST_WITH_TRANSACTIONS, _FLEXIBLE = 3, 9


def read_acks(prefix: bytes, version: int) -> int:
    """Return `acks`, given the first bytes of the frame: at least the fixed part of the header. Raises IndexError if
    more bytes are needed."""
    position = _CLIENT_ID_AT + max(_INT16(prefix, 12)[0], 0)
    if version >= _FLEXIBLE:
        position = _skip_tags(prefix, position)
        size, position = read_uvarint(prefix, position)
        position += max(size - 1, 0)
    elif version >= _FIRST_WITH_TRANSACTIONS:
        if position + 2 > len(prefix):
            raise IndexError
        position += 2 + max(_INT16(prefix, position)[0], 0)
    if position + 2 > len(prefix):
        raise IndexError
    acks: int = _INT16(prefix, position)[0]
    return acks


def _skip_tags(prefix: bytes, position: int) -> int:
    try:
        return read_tags(prefix, position)[1]
    except ProtocolViolation:
        # The tags may be incomplete: the decoder of the whole frame reports a real error.
        raise IndexError from None
