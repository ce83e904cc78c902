"""Who it may be that speaks another language at a listener: a wrong port is the commonest mistake there is."""

from typing import Final

_HTTP: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI")


def guess(first: bytes) -> str:
    """What the first bytes of a connection look like, for the log: in brackets with a space before, or nothing."""
    if first[:2] == b"\x16\x03":
        return " (a TLS handshake: there is no TLS here)"
    if first[:4] in _HTTP or (len(first) == 1 and first in b"GHPDO"):
        return " (an HTTP request: HTTP has a listener of its own)"
    if first[:1] == b"\0":
        return " (a client of Kafka's: the Kafka dialect has a listener of its own)"
    if first[:1] and 0x90 <= first[0] <= 0x9F:
        return " (a client of the native protocol, which has a listener of its own)"
    return ""
