"""Topics whose records have the time of their append (`message.timestamp.type` LogAppendTime): the time is in the batch
header alone, and holds for every record."""

from crc32c import crc32c

_LOG_APPEND_TIME = 0x08
_CRC, _ATTRIBUTES, _MAX_TIMESTAMP = 17, 21, 35


def with_append_time(batch: bytes, wall_ms: int) -> bytes:
    """Return the batch with this append time and its new checksum."""
    covered = bytearray(batch[_ATTRIBUTES:])
    covered[1] |= _LOG_APPEND_TIME
    at = _MAX_TIMESTAMP - _ATTRIBUTES
    covered[at : at + 8] = wall_ms.to_bytes(8, "big", signed=True)
    return b"".join((batch[:_CRC], crc32c(covered).to_bytes(4, "big"), covered))
