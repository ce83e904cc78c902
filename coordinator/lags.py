"""How far a group is behind: its committed offsets beside the ends of the partitions and who has them. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from protocol.consumer_protocol import PROTOCOL_TYPE, Assignment, decode_assignment
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.groups import DescribedGroup, DescribedMember
from protocol.messages.offsets import OffsetFetchGroupReply

Key = tuple[str, int]


class PartitionLag(msgspec.Struct, frozen=True):
    """A committed partition. `member` is None while nobody is assigned to it."""

    topic: str
    partition: int
    current_offset: int
    log_end_offset: int
    member: DescribedMember | None = None

    @property
    def lag(self) -> int:
        """Records to go; never negative, though an end may be older than the commit beside it."""
        return max(0, self.log_end_offset - self.current_offset)


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


def lags(group: DescribedGroup, committed: Mapping[Key, int], ends: Mapping[Key, int]) -> list[PartitionLag]:
    """A line for each committed partition whose end is known, in the order of `committed`."""
    owners = {key: member for member in group.members for key in assigned_partitions(group, member)}
    return [
        PartitionLag(*key, current_offset=offset, log_end_offset=ends[key], member=owners.get(key))
        for key, offset in committed.items()
        if key in ends
    ]


def worst(found: Iterable[PartitionLag]) -> PartitionLag | None:
    """The line that is furthest behind; of equals the first."""
    return max(found, key=lambda line: line.lag, default=None)
