"""How far a group is behind: its committed offsets beside the ends of the partitions and who has them. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from protocol import streams_protocol
from protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.groups import DescribedGroup, DescribedMember
from protocol.messages.offsets import OffsetFetchGroupReply

Key = tuple[str, int]


class End(msgspec.Struct, frozen=True, gc=False):
    """Where a partition ends; None if nobody could tell. `age_ms`: so long ago at most; None where it is as of now."""

    offset: int | None
    age_ms: int | None = None


class PartitionLag(msgspec.Struct, frozen=True):
    """A partition of a group. `current_offset` is None where nothing is committed: then it counts from where the log
    begins. `member` is None while nobody is assigned to it."""

    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    member: DescribedMember | None = None
    end_age_ms: int | None = None
    log_start_offset: int | None = None

    @property
    def lag(self) -> int | None:
        """Records to go; never negative, though an end may be older than the commit beside it. None if the end, or
        where to count from, is not known."""
        begin = self.log_start_offset if self.current_offset is None else self.current_offset
        return None if self.log_end_offset is None or begin is None else max(0, self.log_end_offset - begin)


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
    """What a consumer or a member with streams has been given, in order. Other kinds of members, and bytes nobody can
    read, have nothing."""
    topics: Iterable[tuple[str, Iterable[int]]] = ()
    try:
        if group.protocol_type == PROTOCOL_TYPE:
            topics = decode_assignment(member.member_assignment).partitions
        elif group.protocol_type == streams_protocol.PROTOCOL_TYPE:
            topics = streams_protocol.decode_streams_assignment(member.member_assignment).items()
    except ProtocolViolation:
        return ()
    return tuple(sorted((topic, part) for topic, parts in topics for part in parts))


def subscribed_topics(group: DescribedGroup, member: DescribedMember) -> Collection[str]:
    """Topics that a member asks for, as far as its metadata is shown and can be read."""
    try:
        if group.protocol_type == PROTOCOL_TYPE and member.member_metadata:
            return decode_subscription(member.member_metadata).topics
        if group.protocol_type == streams_protocol.PROTOCOL_TYPE and member.member_metadata:
            return streams_protocol.decode_streams_subscription(member.member_metadata).topics
    except ProtocolViolation:
        pass
    return ()


def topics_of(group: DescribedGroup, committed: Iterable[Key], more: Iterable[str] = ()) -> set[str]:
    """Topics whose partitions count for the group's lag: those that it has commits for or is assigned, and `more`."""
    assigned = (topic for member in group.members for topic, _part in assigned_partitions(group, member))
    return {*(topic for topic, _part in committed), *assigned, *more}


def keys_of(topics: Iterable[str], counts: Mapping[str, int], committed: Iterable[Key]) -> list[Key]:
    """All partitions of the topics, and those committed, in order."""
    return sorted({*committed, *((topic, part) for topic in topics for part in range(counts.get(topic, 0)))})


def lags(
    group: DescribedGroup,
    keys: Iterable[Key],
    committed: Mapping[Key, int],
    ends: Mapping[Key, End],
    begins: Mapping[Key, End],
) -> Iterator[PartitionLag]:
    """A line for each partition of `keys` that `ends` tells of, in their order."""
    owners = {key: member for member in group.members for key in assigned_partitions(group, member)}
    for key in keys:
        end = ends.get(key)
        if end is not None:
            begin = begins.get(key)
            yield PartitionLag(
                *key,
                committed.get(key),
                end.offset,
                owners.get(key),
                end.age_ms,
                None if begin is None else begin.offset,
            )


def worst(found: Iterable[PartitionLag]) -> PartitionLag | None:
    """The line that is furthest behind; of equals the first. Not one whose lag is not known."""
    return max((line for line in found if line.lag is not None), key=lambda line: line.lag or 0, default=None)


def oldest_ms(found: Iterable[PartitionLag]) -> int | None:
    """How old the oldest of the ends is; None if all are as of now."""
    return max((line.end_age_ms for line in found if line.end_age_ms is not None), default=None)
