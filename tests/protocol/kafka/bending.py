"""Inserts mistakes into bytes, and checks what comes of them."""

from collections.abc import Callable
from random import Random
from typing import Final

Run = Callable[[Random], bytes]
"""Makes an input, feeds and returns it. Raises any exception that is not the documented refusal."""


class Unforeseen(Exception):
    def __init__(self, data: bytes) -> None:
        super().__init__(data.hex())
        self.data = data


_NUMBERS: Final = (b"\xff", b"\x7f", b"\x80", b"\x00", b"\x7f\xff", b"\x80\x00", b"\xff\xff", b"\x7f\xff\xff\xff",
                   b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x10\x00\x00", b"\x00\x00\x00\x00",
                   b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x80\x80\x80")  # fmt: skip


def bend(data: bytes, random: Random) -> bytes:
    """Return the data with one to four mistakes in it; one time in fifty, noise instead."""
    if random.random() < 0.02:
        return random.randbytes(random.randrange(200))
    bent = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        _bend_once(bent, random)
    return bytes(bent)


def _bend_once(bent: bytearray, random: Random) -> None:
    at = random.randrange(len(bent) + 1)
    match random.randrange(7):
        case 0 if at < len(bent):
            bent[at] ^= 1 << random.randrange(8)
        case 1:
            number = random.choice(_NUMBERS)
            bent[at : at + len(number)] = number
        case 2:
            del bent[at:]
        case 3:
            del bent[at : at + random.randrange(1, 9)]
        case 4:
            bent[at:at] = random.randbytes(random.randrange(1, 9))
        case 5:
            bent[at:at] = bent[at : at + random.randrange(1, 40)]
        case _ if at < len(bent):
            bent[at] = random.randrange(256)


def expect(feed: Callable[[], object], refusal: type[Exception], data: bytes) -> None:
    """Raises Unforeseen for any exception but the one way to refuse."""
    try:
        feed()
    except refusal:
        pass
    except Exception as error:
        raise Unforeseen(data) from error
