"""Encodes single records of a batch, for `record_batch` and for code that writes many similar records."""


def _zigzag(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


class _Varints(dict[int, bytes]):
    """Numbers encoded as in records: common lengths and deltas in advance, others on demand."""

    def __missing__(self, number: int) -> bytes:
        return _zigzag(number)


varint = _Varints({number: _zigzag(number) for number in range(2048)}).__getitem__
"""Return a length or delta, of either sign, encoded as in records. It is called for each field of a record."""
_NULL = _zigzag(-1)


def _field(data: bytes | None) -> bytes:
    return _NULL if data is None else varint(len(data)) + data


def encode_record(offset_delta: bytes, key: bytes | None, value: bytes | None) -> bytes:
    """Return a record without headers; `offset_delta` is a `varint`."""
    # Attributes and timestamp delta are always zero, since all records of a batch have one timestamp here. The last
    # zero is the number of headers.
    body = b"\0\0" + offset_delta + _field(key) + _field(value) + b"\0"
    return varint(len(body)) + body


def encode_record_with(offset_delta: bytes, key: bytes | None, value: bytes | None, headers: bytes) -> bytes:
    """Return a record with headers: their number as a `varint`, then each name and value, with its length in front."""
    body = b"\0\0" + offset_delta + _field(key) + _field(value) + headers
    return varint(len(body)) + body
