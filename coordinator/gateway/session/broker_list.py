"""The broker list of an encoded Metadata reply, replaced without decoding the topics behind it: they may have a hundred
thousand partitions."""

from collections.abc import Mapping
from struct import Struct, error
from typing import Final

from coordinator.cluster_node.nodes import COORDINATOR_IDS
from protocol.errors import ProtocolViolation
from protocol.kafka.varint import read_tags, read_uvarint, write_uvarint

_FLEXIBLE: Final = 9
_FIRST_WITH_RACKS, _FIRST_WITH_THROTTLING = 1, 3
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_BODY_POSITION: Final = 8


def replace_brokers(frame: bytes, version: int, addresses: Mapping[int, tuple[str, int]]) -> bytes:
    """Return the frame with the proxy's addresses, and with coordinators that are no brokers (`COORDINATOR_IDS`). A
    broker without a listener is left out: clients then refresh metadata for the missing leaders. Raises
    ProtocolViolation."""
    try:
        start, end, brokers = _find_brokers(frame, version)
    except (IndexError, error):
        raise ProtocolViolation("the frame ends before its brokers do") from None
    if end > len(frame):
        raise ProtocolViolation("the frame ends before its brokers do")
    own = [(node_id, _without_rack(version)) for node_id in addresses if node_id >= COORDINATOR_IDS]
    kept = [
        _INT32.pack(node_id) + _encode_address(*addresses[node_id], is_flexible=version >= _FLEXIBLE) + rest
        for node_id, rest in (*brokers, *own)
        if node_id in addresses
    ]
    count = write_uvarint(len(kept) + 1) if version >= _FLEXIBLE else _INT32.pack(len(kept))
    parts: list[bytes | memoryview] = [frame[4:start], count, *kept, memoryview(frame)[end:]]
    return b"".join((_INT32.pack(sum(map(len, parts))), *parts))


def _without_rack(version: int) -> bytes:
    """Return the bytes after the address of a broker without a rack."""
    if version >= _FLEXIBLE:
        return write_uvarint(0) + write_uvarint(0)
    return _INT16.pack(-1) if version >= _FIRST_WITH_RACKS else b""


def _find_brokers(frame: bytes, version: int) -> tuple[int, int, list[tuple[int, bytes]]]:
    """Return where the list begins and ends, and for each broker its id and the bytes after its address."""
    is_flexible = version >= _FLEXIBLE
    position = read_tags(frame, _BODY_POSITION)[1] if is_flexible else _BODY_POSITION
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
        rest = _skip_string(frame, position + 4, is_flexible=is_flexible) + 4
        position = _skip_string(frame, rest, is_flexible=is_flexible) if version >= _FIRST_WITH_RACKS else rest
        if is_flexible:
            position = read_tags(frame, position)[1]
        found.append((node_id, frame[rest:position]))
    return start, position, found


def _skip_string(frame: bytes, position: int, *, is_flexible: bool) -> int:
    if is_flexible:
        size, position = read_uvarint(frame, position)
        return position + max(size - 1, 0)
    length: int = _INT16.unpack_from(frame, position)[0]
    return position + 2 + max(length, 0)


def _encode_address(host: str, port: int, *, is_flexible: bool) -> bytes:
    name = host.encode()
    return (write_uvarint(len(name) + 1) if is_flexible else _INT16.pack(len(name))) + name + _INT32.pack(port)
