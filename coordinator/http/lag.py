"""Lag of groups: committed offsets, ends of partitions, and the members that partitions are assigned to. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from protocol import streams_protocol
from protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages.groups import DescribedGroup, DescribedMember
from protocol.messages.offsets import OffsetFetchGroupReply

Key = tuple[str, int]


class PartitionEnd(msgspec.Struct, frozen=True, gc=False):
    """Offset of a partition's end or start; None if unknown. `age_ms`: its age at most; None if it is current."""

    offset: int | None
    age_ms: int | None = None


class PartitionLag(msgspec.Struct, frozen=True):
    """Lag of a group in one partition. `current_offset` is None if nothing is committed: the lag then counts from the
    log's start. `member` is None while the partition is unassigned."""

    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    member: DescribedMember | None = None
    end_age_ms: int | None = None
    log_start_offset: int | None = None

    @property
    def lag(self) -> int | None:
        """Records left to read. Never negative, though an end may be older than the commit. None if the end, or the
        offset to count from, is unknown."""
        begin = self.log_start_offset if self.current_offset is None else self.current_offset
        return None if self.log_end_offset is None or begin is None else max(0, self.log_end_offset - begin)


def committed_offsets(reply: OffsetFetchGroupReply) -> dict[Key, int]:
    """Return the committed offsets, sorted by topic and partition."""
    found = {
        (topic.name, part.partition_index): part.committed_offset
        for topic in reply.topics
        for part in topic.partitions
        if part.error_code is ErrorCode.NONE and part.committed_offset >= 0
    }
    return dict(sorted(found.items()))


def assigned_partitions(group: DescribedGroup, member: DescribedMember) -> tuple[Key, ...]:
    """Return the partitions assigned to a member of protocol type `consumer` or `streams`, in order; none if the
    assignment has another type or cannot be decoded."""
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
    """Return the topics of a member's subscription; none if its metadata is hidden or cannot be decoded."""
    try:
        if group.protocol_type == PROTOCOL_TYPE and member.member_metadata:
            return decode_subscription(member.member_metadata).topics
        if group.protocol_type == streams_protocol.PROTOCOL_TYPE and member.member_metadata:
            return streams_protocol.decode_streams_subscription(member.member_metadata).topics
    except ProtocolViolation:
        pass
    return ()


def topics_of(group: DescribedGroup, committed: Iterable[Key], more: Iterable[str] = ()) -> set[str]:
    """Return the topics whose partitions count for the group's lag: committed, assigned, and `more`."""
    assigned = (topic for member in group.members for topic, _part in assigned_partitions(group, member))
    return {*(topic for topic, _part in committed), *assigned, *more}


def keys_of(topics: Iterable[str], counts: Mapping[str, int], committed: Iterable[Key]) -> list[Key]:
    """Return all partitions of the topics, and the committed ones, in order."""
    return sorted({*committed, *((topic, part) for topic in topics for part in range(counts.get(topic, 0)))})


def lags(
    group: DescribedGroup,
    keys: Iterable[Key],
    committed: Mapping[Key, int],
    ends: Mapping[Key, PartitionEnd],
    begins: Mapping[Key, PartitionEnd],
) -> Iterator[PartitionLag]:
    """Yield a line for each partition of `keys` that is in `ends`, in order."""
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
    """Return the line with the largest known lag; of equals the first."""
    return max((line for line in found if line.lag is not None), key=lambda line: line.lag or 0, default=None)


def oldest_ms(found: Iterable[PartitionLag]) -> int | None:
    """Return the age of the oldest end; None if all are current."""
    return max((line.end_age_ms for line in found if line.end_age_ms is not None), default=None)
