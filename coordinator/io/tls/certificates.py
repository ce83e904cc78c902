"""Reads the period of validity of certificates (RFC 5280, section 4.1), and no other field. Pure."""

import re
import ssl
from calendar import timegm
from typing import Final, NamedTuple

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----\s.*?-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


class Validity(NamedTuple):
    """Period of validity, in seconds since 1970."""

    begins_s: int
    ends_s: int


def certificates_in(pem: str) -> list[bytes]:
    """Return the certificates of a PEM file as DER, in order. Raises ValueError if one cannot be read."""
    found = [ssl.PEM_cert_to_DER_cert(block) for block in _PEM.findall(pem)]
    for der in found:
        validity(der)
    return found


def validity(der: bytes) -> Validity:
    """Return the period of validity. Raises ValueError if these bytes are no certificate."""
    try:
        _, _, certificate = _element(der, 0)
        _, _, signed = _element(certificate, 0)
        tag, position, _ = _element(signed, 0)
        fields = 4 if tag == _VERSION else 3  # (version,) serial number, algorithm, issuer
        position = 0
        for _ in range(fields):
            _, position, _ = _element(signed, position)
        tag, _, times = _element(signed, position)
        if tag != _SEQUENCE:
            raise ValueError("no certificate")
        first, position, begins = _element(times, 0)
        second, _, ends = _element(times, position)
        return Validity(_seconds(first, begins), _seconds(second, ends))
    except IndexError:
        raise ValueError("a certificate that ends too early") from None


def _element(data: bytes, position: int) -> tuple[int, int, bytes]:
    """Return the element's tag, the position after it, and its content."""
    tag, size = data[position], data[position + 1]
    position += 2
    if size > 0x80:
        width = size & 0x7F
        size = int.from_bytes(data[position : position + width])
        position += width
    if position + size > len(data):
        raise IndexError(size)
    return tag, position + size, data[position : position + size]


def _seconds(tag: int, text: bytes) -> int:
    """Return seconds since 1970. Times have seconds and are in UTC; two-digit years begin with 1950 (RFC 5280, section
    4.1.2.5)."""
    digits = text.decode("ascii")
    width = {_UTC_TIME: 2, _GENERALIZED_TIME: 4}.get(tag, 0)
    if not width or not re.fullmatch(rf"[0-9]{{{width + 10}}}Z", digits):
        raise ValueError(f"{digits!r} is no time of a certificate")
    year = int(digits[:width])
    if width == 2:
        year += 1900 if year >= 50 else 2000
    month, day, hour, minute, second = (int(digits[at : at + 2]) for at in range(width, width + 10, 2))
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError(f"{digits!r} is no time of a certificate")
    return timegm((year, month, day, hour, minute, second))
