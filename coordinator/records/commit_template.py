"""Records of a commit that are encoded again and again, each time with other offsets and another time."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any

from coordinator.records.codec import NO_TEXT, commits_have_in_common
from coordinator.records.records import CommittedOffset
from protocol.record_writing import varint

_INT32 = Struct(">i").pack
_packer: Callable[[str], Struct] = lru_cache(4_096)(Struct)
"""Plans of members with the same partitions, and names as long, share theirs."""
_VALUES_A_RECORD = 5


class CommitTemplate:
    """Encodes the records of a commit without text and retention, byte for byte as `encode_offsets` does."""

    __slots__ = ("_pack", "_values", "count")

    def __init__(self, records: Sequence[CommittedOffset]) -> None:
        """Take everything but offsets and times from the records of one group, at least one."""
        code, values = ">", []
        for place, record in enumerate(records):
            index = varint(place)
            _, before, key, head, tail = commits_have_in_common(
                record.group_id, record.topic, record.topic_id, len(index)
            )
            fixed = b"".join((before, index, key, _INT32(record.partition), head))
            between = _INT32(record.leader_epoch) + bytes((NO_TEXT,))
            code += f"{len(fixed)}sq{len(between)}sq{len(tail)}s"
            values += [fixed, 0, between, 0, tail]
        self.count = len(records)
        self._pack: Callable[..., bytes] = _packer(code).pack
        self._values: list[Any] = values

    def payload(self, offsets: Sequence[int], wall_ms: int) -> bytes:
        """Encode the records with these offsets, in the order of the records."""
        values = self._values
        if self.count == 1:
            values[1], values[3] = offsets[0], wall_ms
        else:
            values[1::_VALUES_A_RECORD] = offsets
            values[3::_VALUES_A_RECORD] = (wall_ms,) * self.count
        return self._pack(*values)
