"""Requests as bytes, made once: what changes from one to the next is written over in place.

Every id is sent as a uint32 and every offset as a uint64, the long forms of MessagePack, so that their places stay.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any

import msgpack

NUMBER = Struct(">I")
OFFSET = Struct(">Q")
FIRST_BYTES = b"\x94\x00\xce"
"""An array of four, type 0 (request), an id of four bytes."""
_REPLY_HEAD = b"\x94\x01\xce"

FIRST_NUMBER = 1 << 16
"""Ids from here on have one length in the server's replies, too."""

OFFSET_MARK = (1 << 63) + 0x0DDB1A5E
"""Stands where an offset will be; its bytes occur nowhere else."""


class Frame:
    """A request of one connection. `data` is sent as it is; `set_offset` changes every offset in it."""

    __slots__ = ("_places", "data")

    def __init__(self, number: int, method: str, **params: Any) -> None:
        body = msgpack.packb(method) + msgpack.packb([params])
        self.data = bytearray(FIRST_BYTES + NUMBER.pack(number) + body)
        mark, found = OFFSET.pack(OFFSET_MARK), -1
        self._places: list[int] = []
        while (found := self.data.find(mark, found + 1)) >= 0:
            self._places.append(found)

    def set_offset(self, offset: int) -> None:
        for place in self._places:
            OFFSET.pack_into(self.data, place, offset)


def heartbeat(number: int, group_id: str, generation_id: int, member_id: str) -> Frame:
    return Frame(number, "Heartbeat", group_id=group_id, generation_id=generation_id, member_id=member_id)


def commit(
    number: int, group_id: str, generation_id: int, member_id: str, topic: str, partitions: Sequence[int]
) -> Frame:
    entries = [{"partition_index": partition, "committed_offset": OFFSET_MARK} for partition in partitions]
    return Frame(
        number,
        "OffsetCommit",
        group_id=group_id,
        generation_id=generation_id,
        member_id=member_id,
        topics=[{"name": topic, "partitions": entries}],
    )


def fetch(number: int, group_id: str, topic: str, partitions: Sequence[int]) -> Frame:
    return Frame(
        number, "OffsetFetch", group_id=group_id, topics=[{"name": topic, "partition_indexes": list(partitions)}]
    )


def heartbeat_reply(number: int) -> bytes:
    """Return the reply to a heartbeat without an error."""
    result = {"error_code": 0, "throttle_time_ms": 0}
    return _REPLY_HEAD + NUMBER.pack(number) + msgpack.packb(None) + msgpack.packb(result)


class UnexpectedReply(Exception):
    """The server said something else than it should: the figures would be worth nothing."""


def check(reply: Any, number: int) -> None:
    """Check that a decoded reply belongs to the request and contains no error."""
    if reply[0] != 1 or reply[1] != number or reply[2] is not None or _has_error(reply[3]):
        raise UnexpectedReply(f"request {number} was answered {reply!r}")


def _has_error(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value.get("error_code")) or any(_has_error(inner) for inner in value.values())
    return isinstance(value, list) and any(_has_error(inner) for inner in value)
