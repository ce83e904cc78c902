"""Lag of groups: committed offsets, ends of partitions, and the members that partitions are assigned to. Pure."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from diagnosis.assignments import Key, owners_of
from diagnosis.gathering import Commit
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribedGroup, DescribedMember
from protocol.messages.offsets import OffsetFetchGroupReply
from protocol.messages.topics import NO_TOPIC_ID, MetadataTopicReply


class PartitionEnd(msgspec.Struct, frozen=True, gc=False):
    """Offset of a partition's end or start; None if unknown. `age_ms`: its largest possible age; None if it is
    current."""

    offset: int | None
    age_ms: int | None = None


class PartitionLag(msgspec.Struct, frozen=True):
    """Lag of a group in one partition. `current_offset` is None if nothing is committed: the lag then counts from the
    log's start. `member` is None while the partition is unassigned. `committed_ms`: wall time of the commit. `lag_ms`,
    the lag in time, and `commit_age_ms` are None if they are unknown, or the line is not `timed`. `topic_id`:
    `NO_TOPIC_ID` if it is unknown."""

    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    member: DescribedMember | None = None
    end_age_ms: int | None = None
    log_start_offset: int | None = None
    committed_ms: int | None = None
    lag_ms: int | None = None
    commit_age_ms: int | None = None
    topic_id: bytes = NO_TOPIC_ID

    @property
    def lag(self) -> int | None:
        """Records left to read. Never negative, though an end may be older than the commit. None if the end, or the
        offset to count from, is unknown."""
        begin = self.log_start_offset if self.current_offset is None else self.current_offset
        return None if self.log_end_offset is None or begin is None else max(0, self.log_end_offset - begin)


class KnownEnds(msgspec.Struct):
    """Answers about topics and partitions, so that a page of many groups requests each once. Partitions that do not
    exist are None."""

    counts: Mapping[str, int] = {}
    ends: dict[Key, PartitionEnd | None] = {}
    begins: dict[Key, PartitionEnd | None] = {}
    topic_ids: Mapping[str, bytes] = {}


class GroupPartitions(msgspec.Struct, frozen=True):
    """The partitions that a group's lag includes, in order, and its commits."""

    keys: list[Key]
    commits: Mapping[Key, Commit]


def committed_offsets(reply: OffsetFetchGroupReply) -> dict[Key, int]:
    """Return the committed offsets, sorted by topic and partition."""
    found = {
        (topic.name, part.partition_index): part.committed_offset
        for topic in reply.topics
        for part in topic.partitions
        if part.error_code is ErrorCode.NONE and part.committed_offset >= 0
    }
    return dict(sorted(found.items()))


def topic_ids_of(topics: Iterable[MetadataTopicReply]) -> dict[str, bytes]:
    """Return the ids of the topics that exist, by name."""
    return {one.name: one.topic_id for one in topics if one.name is not None and not one.error_code}


def topics_of(group: DescribedGroup, committed: Iterable[Key], more: Iterable[str] = ()) -> set[str]:
    """Return the topics whose partitions the group's lag includes: committed, assigned, and `more`."""
    assigned = (topic for topic, _part in owners_of(group))
    return {*(topic for topic, _part in committed), *assigned, *more}


def keys_of(topics: Iterable[str], counts: Mapping[str, int], committed: Iterable[Key]) -> list[Key]:
    """Return all partitions of the topics, and the committed ones, in order."""
    return sorted({*committed, *((topic, part) for topic in topics for part in range(counts.get(topic, 0)))})


def lags(group: DescribedGroup, its: GroupPartitions, known: KnownEnds) -> Iterator[PartitionLag]:
    """Yield a line for each of the group's partitions that exists, in order."""
    owners = owners_of(group)
    for key in its.keys:
        end = known.ends.get(key)
        if end is not None:
            commit = its.commits.get(key)
            begin = known.begins.get(key) if commit is None else None
            yield PartitionLag(
                *key,
                None if commit is None else commit.offset,
                end.offset,
                owners.get(key),
                end.age_ms,
                None if begin is None else begin.offset,
                None if commit is None else commit.at_ms,
                topic_id=known.topic_ids.get(key[0], NO_TOPIC_ID),
            )


def worst(found: Iterable[PartitionLag]) -> PartitionLag | None:
    """Return the line with the largest known lag; the first one among equals."""
    return max((line for line in found if line.lag is not None), key=lambda line: line.lag or 0, default=None)


def oldest_ms(found: Iterable[PartitionLag]) -> int | None:
    """Return the age of the oldest end; None if all are current."""
    return max((line.end_age_ms for line in found if line.end_age_ms is not None), default=None)


def longest_ms(lags_ms: Iterable[int | None]) -> int | None:
    """Return the largest known lag in time. Return None if no lag is known, or if all known ones are 0 and another is
    unknown."""
    found = list(lags_ms)
    most = max((one for one in found if one is not None), default=None)
    return most or (None if None in found else most)


def commit_age_ms(found: Iterable[PartitionLag]) -> int | None:
    """Return the time since the last commit of these partitions; None if none is known."""
    return min((line.commit_age_ms for line in found if line.commit_age_ms is not None), default=None)
