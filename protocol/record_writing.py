"""A record of a batch as bytes: what `record_batch` puts together, and whoever writes many alike straight away."""


def _zigzag(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_VARINTS = tuple(_zigzag(number) for number in range(2048))  # lengths and deltas are nearly always among these
_NULL = _zigzag(-1)


def varint(number: int) -> bytes:
    """A length or a delta, not negative, as records have it."""
    return _VARINTS[number] if number < 2048 else _zigzag(number)


def signed_varint(number: int) -> bytes:
    """A delta of either sign."""
    return _VARINTS[number] if 0 <= number < 2048 else _zigzag(number)


def _field(data: bytes | None) -> bytes:
    return _NULL if data is None else varint(len(data)) + data


def encode_record(offset_delta: bytes, key: bytes | None, value: bytes | None) -> bytes:
    """A record of a batch, without headers; its place in it is a `varint`."""
    # Attributes and timestamp delta are always zero here: one batch, one moment. The last zero is "no headers".
    body = b"\0\0" + offset_delta + _field(key) + _field(value) + b"\0"
    return varint(len(body)) + body
