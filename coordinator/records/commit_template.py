"""Batch of a commit that is encoded repeatedly, with other offsets and another time."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any

from coordinator.records.codec import NO_TEXT, commits_have_in_common
from coordinator.records.records import CommittedOffset
from protocol.record_batch import BODY_CODE, seal_body
from protocol.record_writing import varint

_INT32 = Struct(">i").pack
_packer: Callable[[str], Struct] = lru_cache(4_096)(Struct)
"""Templates of members with the same partitions and equally long names share a packer."""
_BASE_TIME, _LARGEST_TIME = 2, 3
_FIRST_OFFSET, _FIRST_TIME = 9, 11
"""Indexes of the packed values of the first record, which follow those of the batch."""
_VALUES_A_RECORD = 4


class CommitTemplate:
    """Encodes a commit without text and retention as a batch, byte for byte as `encode_offsets` and `seal_batch` do."""

    __slots__ = ("_is_single", "_pack", "_values")

    def __init__(self, records: Sequence[CommittedOffset]) -> None:
        """Take everything except offsets and times from the records of one group, at least one."""
        count = len(records)
        code, tail = f">{BODY_CODE}", b""
        values: list[Any] = [0, count - 1, 0, 0, -1, -1, -1, count]
        for place, record in enumerate(records):
            index = varint(place)
            _, before, key, head, next_tail = commits_have_in_common(
                record.group_id, record.topic, record.topic_id, len(index)
            )
            fixed = b"".join((tail, before, index, key, _INT32(record.partition), head))
            between = _INT32(record.leader_epoch) + bytes((NO_TEXT,))
            code += f"{len(fixed)}sq{len(between)}sq"
            values += [fixed, 0, between, 0]
            tail = next_tail
        code += f"{len(tail)}s"
        values.append(tail)
        self._is_single = count == 1
        self._pack: Callable[..., bytes] = _packer(code).pack
        self._values = values

    def batch(self, offsets: Sequence[int], wall_ms: int, base_offset: int) -> bytes:
        """Return the batch with these offsets, in the order of the records, all committed at that time."""
        values = self._values
        values[_BASE_TIME] = values[_LARGEST_TIME] = wall_ms
        if self._is_single:
            values[_FIRST_OFFSET], values[_FIRST_TIME] = offsets[0], wall_ms
        else:
            values[_FIRST_OFFSET::_VALUES_A_RECORD] = offsets
            values[_FIRST_TIME::_VALUES_A_RECORD] = (wall_ms,) * len(offsets)
        return seal_body(self._pack(*values), base_offset)
