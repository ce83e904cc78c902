"""How far a group is behind: its committed offsets beside the ends of the partitions and who has them. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from protocol.consumer_protocol import PROTOCOL_TYPE, Assignment, decode_assignment
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.groups import DescribedGroup, DescribedMember
from protocol.messages.offsets import OffsetFetchGroupReply

Key = tuple[str, int]


class End(msgspec.Struct, frozen=True, gc=False):
    """Where a partition ends; None if nobody could tell. `age_ms`: so long ago at most; None where it is as of now."""

    offset: int | None
    age_ms: int | None = None


class PartitionLag(msgspec.Struct, frozen=True):
    """A committed partition. `member` is None while nobody is assigned to it."""

    topic: str
    partition: int
    current_offset: int
    log_end_offset: int | None
    member: DescribedMember | None = None
    end_age_ms: int | None = None

    @property
    def lag(self) -> int | None:
        """Records to go; never negative, though an end may be older than the commit beside it. None if the end is not
        known."""
        return None if self.log_end_offset is None else max(0, self.log_end_offset - self.current_offset)


def committed_offsets(reply: OffsetFetchGroupReply) -> dict[Key, int]:
    """The partitions that have an offset, by topic and partition."""
    found = {
        (topic.name, part.partition_index): part.committed_offset
        for topic in reply.topics
        for part in topic.partitions
        if part.error_code is ErrorCode.NONE and part.committed_offset >= 0
    }
    return dict(sorted(found.items()))


def assigned_partitions(group: DescribedGroup, member: DescribedMember) -> tuple[Key, ...]:
    """What a consumer has been given, in order. Other kinds of members, and bytes nobody can read, have nothing."""
    if group.protocol_type != PROTOCOL_TYPE:
        return ()
    keys = ((topic, part) for topic, parts in _assignment(member.member_assignment).partitions for part in parts)
    return tuple(sorted(keys))


def _assignment(data: bytes) -> Assignment:
    try:
        return decode_assignment(data)
    except ProtocolViolation:
        return Assignment()


def lags(group: DescribedGroup, committed: Mapping[Key, int], ends: Mapping[Key, End]) -> list[PartitionLag]:
    """A line for each committed partition that `ends` tells of, in the order of `committed`."""
    owners = {key: member for member in group.members for key in assigned_partitions(group, member)}
    return [
        PartitionLag(*key, offset, ends[key].offset, owners.get(key), ends[key].age_ms)
        for key, offset in committed.items()
        if key in ends
    ]


def worst(found: Iterable[PartitionLag]) -> PartitionLag | None:
    """The line that is furthest behind; of equals the first. Not one whose lag is not known."""
    return max(
        (line for line in found if line.log_end_offset is not None), key=lambda line: line.lag or 0, default=None
    )


def oldest_ms(found: Iterable[PartitionLag]) -> int | None:
    """How old the oldest of the ends is; None if all are as of now."""
    return max((line.end_age_ms for line in found if line.end_age_ms is not None), default=None)
