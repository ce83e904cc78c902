"""Guesses the protocol of a client or server that uses another one than expected, since wrong ports are a common
mistake."""

from typing import Final

_HTTP: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI")


def guess(first: bytes) -> str:
    """Return the protocol that a connection's first bytes look like, for the log: in parentheses after a space, or an
    empty text."""
    if first[:2] == b"\x16\x03" or first == b"\x16":
        return " (a TLS handshake: there is no TLS here)"
    if first[:4] in _HTTP or (len(first) == 1 and first in b"GHPDO"):
        return " (an HTTP request: HTTP has a listener of its own)"
    if first[:1] == b"\0":
        return " (a client of Kafka's: the Kafka dialect has a listener of its own)"
    if first[:1] and 0x90 <= first[0] <= 0x9F:
        return " (a client of the native protocol, which has a listener of its own)"
    return ""


def guess_server(first: bytes) -> str:
    """Return the protocol that a server's first four bytes look like, as `guess` does. `H` alone is a whole frame of
    the native protocol."""
    return " (an HTTP answer: this is the port of HTTP)" if first in (b"H", b"HTTP") else ""
