"""The list of brokers in an answer to Metadata, exchanged for another without reading what follows it: that may be a
hundred thousand partitions."""

from collections.abc import Mapping
from struct import Struct, error
from typing import Final

from protocol.errors import ProtocolViolation
from protocol.kafka.varint import read_tags, read_uvarint, write_uvarint

_FLEXIBLE: Final = 9
_FIRST_WITH_RACKS, _FIRST_WITH_THROTTLING = 1, 3
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_BODY_AT: Final = 8


def exchange(frame: bytes, version: int, addresses: Mapping[int, tuple[str, int]]) -> bytes:
    """The whole frame with our addresses; a broker that has none yet is left out: clients ask again for the
    leaders they miss. Raises ProtocolViolation."""
    try:
        start, end, brokers = _read(frame, version)
    except (IndexError, error):
        raise ProtocolViolation("the frame ends before its brokers do") from None
    if end > len(frame):
        raise ProtocolViolation("the frame ends before its brokers do")
    ours = [
        _INT32.pack(node_id) + _place(*addresses[node_id], is_flexible=version >= _FLEXIBLE) + rest
        for node_id, rest in brokers
        if node_id in addresses
    ]
    count = write_uvarint(len(ours) + 1) if version >= _FLEXIBLE else _INT32.pack(len(ours))
    parts: list[bytes | memoryview] = [frame[4:start], count, *ours, memoryview(frame)[end:]]
    return b"".join((_INT32.pack(sum(map(len, parts))), *parts))


def _read(frame: bytes, version: int) -> tuple[int, int, list[tuple[int, bytes]]]:
    """Where the list begins and ends; of each broker its id, and what stands behind its address."""
    is_flexible = version >= _FLEXIBLE
    position = read_tags(frame, _BODY_AT)[1] if is_flexible else _BODY_AT
    start = position + (4 if version >= _FIRST_WITH_THROTTLING else 0)
    if is_flexible:
        count, position = read_uvarint(frame, start)
        count -= 1
    else:
        count, position = _INT32.unpack_from(frame, start)[0], start + 4
    if not 0 <= count <= len(frame):
        raise ProtocolViolation(f"a list of {count} brokers")
    found = []
    for _ in range(count):
        (node_id,) = _INT32.unpack_from(frame, position)
        rest = _end_of_text(frame, position + 4, is_flexible=is_flexible) + 4
        position = _end_of_text(frame, rest, is_flexible=is_flexible) if version >= _FIRST_WITH_RACKS else rest
        if is_flexible:
            position = read_tags(frame, position)[1]
        found.append((node_id, frame[rest:position]))
    return start, position, found


def _end_of_text(frame: bytes, position: int, *, is_flexible: bool) -> int:
    if is_flexible:
        size, position = read_uvarint(frame, position)
        return position + max(size - 1, 0)
    length: int = _INT16.unpack_from(frame, position)[0]
    return position + 2 + max(length, 0)


def _place(host: str, port: int, *, is_flexible: bool) -> bytes:
    name = host.encode()
    return (write_uvarint(len(name) + 1) if is_flexible else _INT16.pack(len(name))) + name + _INT32.pack(port)
