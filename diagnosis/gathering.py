"""Gathering of evidence from servers.

The daemon's pages, which must not block, and the command, which blocks, share this code: an `EvidenceSource` has
coroutines, and `at_once` runs the gathering for sources that answer without suspending."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from diagnosis.assignments import Key, owners_of, subscribed_topics
from diagnosis.backlog import Backlog, is_there_for_long
from diagnosis.doctor import diagnose
from diagnosis.growth import Growth
from diagnosis.loops import RECENT_MS, is_recent, named, refused_join
from diagnosis.problem import OVERDUE_MS, Evidence, GroupProblem, Progress
from protocol.messages.balanced import BALANCED_TYPES
from protocol.messages.groups import DescribedGroup, ListedNote, RefusedRequest
from protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsReply,
    ListOffsetsTopic,
    OffsetFetchGroupReply,
)

T = TypeVar("T")
NOTES_A_GROUP: Final = 100
GROUPS_A_SLICE: Final = 100
EARLIEST: Final = -2
LATEST: Final = -1
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")


class Commit(NamedTuple):
    """A committed offset; `at_ms`, its time, and `previous`, the offset before it, are None if the server does not
    report them. `repeated_since_ms`: time of the first commit of this offset if later ones repeated it, else -1."""

    offset: int
    at_ms: int | None
    previous: int | None = None
    repeated_since_ms: int = -1


class WrittenRecord(NamedTuple):
    """The offset and the timestamp of a record."""

    offset: int
    written_ms: int


class EvidenceSource(Protocol):
    """The servers that evidence is gathered from."""

    async def describe(self, group_ids: Sequence[str]) -> list[DescribedGroup]:
        """Return the groups with facts; deleted groups are omitted."""

    async def commits(self, group_ids: Sequence[str]) -> dict[str, dict[Key, Commit]]:
        """Return committed offsets by group."""

    async def offsets_at(self, keys: Sequence[Key], timestamp: int) -> dict[Key, int]:
        """Return for each partition the first offset at or after the time, -1 if no record is so late. Partitions
        without an answer are omitted."""

    async def first_records(self, since: Mapping[Key, int]) -> dict[Key, WrittenRecord]:
        """Return for each partition the first record written at or after its time. Partitions without such a record,
        or an answer, are omitted."""

    async def notes(self, group_id: str) -> tuple[ListedNote, ...]:
        """Return the newest notes of the group, `NOTES_A_GROUP` at most."""

    async def first_expiry(self, group_id: str) -> int:
        """Return the wall time at which the first offset of the group expires, -1 if none does."""


class Known(NamedTuple):
    """Facts about the whole cluster. `tells_all`: the server is a musterd, which reports notes and times of commits.
    `grown`: topics that have got partitions since looks are remembered; `backlogs_of`: what earlier looks saw of a
    group, None if there was none."""

    now_ms: int
    counts: Mapping[str, int]
    refusals: Sequence[RefusedRequest] = ()
    tells_all: bool = True
    grown: Mapping[str, Growth] = {}
    backlogs_of: Callable[[str], Mapping[Key, Backlog] | None] = lambda group_id: None


def at_once(gathered: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, and return its result."""
    try:
        gathered.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("a server was waited for")


async def gather(source: EvidenceSource, group_ids: Iterable[str], known: Known) -> list[Evidence]:
    """Gather the evidence about these groups, some at a time."""
    wanted = list(group_ids)
    found: list[Evidence] = []
    for start in range(0, len(wanted), GROUPS_A_SLICE):
        found += await _gather(source, wanted[start : start + GROUPS_A_SLICE], known)
    return found


async def _gather(source: EvidenceSource, group_ids: list[str], known: Known) -> list[Evidence]:
    described = await source.describe(group_ids)
    commits = await source.commits([group.group_id for group in described])
    keys = {group.group_id: _keys(group, commits.get(group.group_id, {}), known.counts) for group in described}
    every = sorted({key for some in keys.values() for key in some})
    ends = await source.offsets_at(every, LATEST) if every else {}
    begins = await source.offsets_at(every, EARLIEST) if every else {}
    found = []
    for group in described:
        own = commits.get(group.group_id, {})
        lines = tuple(_progress(key, own.get(key), begins, ends) for key in keys[group.group_id])
        notes: tuple[ListedNote, ...] = ()
        if known.tells_all and _has_recent_notes(group, known.now_ms, own):
            notes = await source.notes(group.group_id)
        expires_ms = -1
        if known.tells_all and own and group.group_state == "Empty":
            expires_ms = await source.first_expiry(group.group_id)
        refusals = tuple(one for one in known.refusals if one.group_id == group.group_id)
        grown = _grown(keys[group.group_id], known)
        found.append(Evidence(group, known.now_ms, notes, lines, refusals, known.counts, expires_ms, grown=grown))
    found = await _with_overdue(source, found, known)
    return await _with_times(source, found) if known.tells_all else found


async def _with_overdue(source: EvidenceSource, found: list[Evidence], known: Known) -> list[Evidence]:
    """Look up whether records have been unread for too long, for partitions whose readers have not committed for as
    long. Their timestamps alone count at the first look at a group."""
    suspects = sorted({(one.topic, one.partition) for evidence in found for one in _suspects(evidence)})
    if not suspects:
        return found
    first = await source.offsets_at(suspects, known.now_ms - OVERDUE_MS)
    looked = []
    for evidence in found:
        before = known.backlogs_of(evidence.group.group_id)
        lines = (_overdue(one, first) for one in evidence.progress)
        if before is not None:
            lines = (_seen(one, before, known.now_ms) for one in lines)
        looked.append(replace(evidence, progress=tuple(lines)))
    return looked


def _seen(one: Progress, before: Mapping[Key, Backlog], now_ms: int) -> Progress:
    is_young = one.is_overdue and not is_there_for_long(one, before, now_ms)
    return replace(one, is_overdue=False) if is_young else one


def _suspects(evidence: Evidence) -> Iterable[Progress]:
    if evidence.group.group_state != "Stable":
        return ()
    return (
        one
        for one in evidence.progress
        if one.lag
        and (
            one.committed_ms is None
            or evidence.now_ms - one.committed_ms >= OVERDUE_MS
            or one.previous == one.committed
        )
    )


def _overdue(one: Progress, first: Mapping[Key, int]) -> Progress:
    """Add whether the partition has unread records before `first`, the first record of the last minutes."""
    key = (one.topic, one.partition)
    if key not in first or not one.lag:
        return one
    start = one.first_unread
    return replace(one, is_overdue=first[key] < 0 or (start is not None and start < first[key]))


async def _with_times(source: EvidenceSource, found: list[Evidence]) -> list[Evidence]:
    """Look up when the first unread records were written, of partitions where they wait for too long. Each group has
    times of its own."""
    timed = []
    for evidence in found:
        late = [one for one in evidence.progress if one.is_overdue]
        # A record of the same millisecond may be the one before.
        since = {(one.topic, one.partition): (one.reached_ms or 0) + 1 for one in late}
        first = await source.first_records(since) if since else {}
        timed.append(replace(evidence, progress=tuple(_written(one, first) for one in evidence.progress)))
    return timed


def _written(one: Progress, first: Mapping[Key, WrittenRecord]) -> Progress:
    """Add the time of the first unread record. Any other record shows that this one is older than the time looked for,
    or that the log's timestamps are not in order."""
    record = first.get((one.topic, one.partition))
    if record is None or not one.is_overdue or record.offset != one.first_unread:
        return one
    return replace(one, written_ms=record.written_ms)


def _has_recent_notes(group: DescribedGroup, now_ms: int, own: Mapping[Key, Commit]) -> bool:
    """Return true if the group's notes may show a problem: static members are replaced, and offsets reset, without a
    change of the group's state."""
    # A server-driven group of few members is Stable again in the step in which its epoch changes.
    is_settled = 0 <= group.state_since_ms <= now_ms - RECENT_MS and not group.phase and group.target_epoch < 0
    return (
        not is_settled
        or group.protocol_type in BALANCED_TYPES  # its members come and go without a change of the state
        or any(member.group_instance_id for member in group.members)
        or (any((one.at_ms or 0) > now_ms - RECENT_MS for one in own.values()))
    )


def _keys(group: DescribedGroup, committed: Iterable[Key], counts: Mapping[str, int]) -> list[Key]:
    owned = owners_of(group).keys()
    topics = {topic for member in group.members for topic in member.topics or subscribed_topics(group, member)}
    topics |= {topic for topic, _partition in (*committed, *owned)}
    return sorted({*committed, *owned, *((topic, part) for topic in topics for part in range(counts.get(topic, 0)))})


def _grown(keys: Iterable[Key], known: Known) -> dict[str, Growth]:
    if not known.grown:
        return {}
    return {topic: known.grown[topic] for topic in {topic for topic, _part in keys} if topic in known.grown}


def _progress(key: Key, commit: Commit | None, begins: Mapping[Key, int], ends: Mapping[Key, int]) -> Progress:
    begin, end = begins.get(key), ends.get(key)
    if commit is None:
        return Progress(*key, None, begin, end)
    return Progress(
        *key, commit.offset, begin, end, commit.at_ms, previous=commit.previous,
        repeated_since_ms=commit.repeated_since_ms,
    )  # fmt: skip


def needs_second_look(found: Iterable[Evidence]) -> bool:
    """Return true if a server that reports no times must be asked a second time."""
    return any(one.group.group_state in _REBALANCING or any(line.is_overdue for line in one.progress) for one in found)


def compared(first: Iterable[Evidence], second: Iterable[Evidence], elapsed_ms: int) -> list[Evidence]:
    """Return the later evidence with facts that need two observations: whether commits advance, and whether a group
    rebalanced both times."""
    before = {one.group.group_id: one for one in first}
    return [_compared(before.get(one.group.group_id), one, elapsed_ms) for one in second]


def _compared(before: Evidence | None, after: Evidence, elapsed_ms: int) -> Evidence:
    if before is None:
        return after
    was = {(one.topic, one.partition): one.committed for one in before.progress}
    lines = tuple(
        replace(one, is_moving=was.get((one.topic, one.partition)) != one.committed) for one in after.progress
    )
    same = before.group.group_state == after.group.group_state and after.group.group_state in _REBALANCING
    return replace(after, progress=lines, held_up_ms=elapsed_ms if same else -1)


def problems(found: Iterable[Evidence], known: Known) -> list[GroupProblem]:
    """Return all open problems, with refused members of groups that do not exist."""
    evidence = list(found)
    return problems_of(evidence) + problems_of_absent((one.group.group_id for one in evidence), known)


def problems_of(evidence: Iterable[Evidence]) -> list[GroupProblem]:
    """Return the open problems of these groups."""
    return [problem for one in evidence for problem in diagnose(one)]


def problems_of_absent(group_ids: Iterable[str], known: Known) -> list[GroupProblem]:
    """Return problems of members that were refused lately by groups that do not exist. `group_ids`: the existing
    groups."""
    there = set(group_ids)
    absent = [one for one in known.refusals if one.group_id not in there and is_recent(one, known.now_ms)]
    return named(absent, refused_join)


def commits_of(reply: OffsetFetchGroupReply) -> dict[Key, Commit]:
    """Return the committed offsets with the times of their commits."""
    found = {}
    for topic in reply.topics:
        origins = {one.partition_index: one for one in topic.origins}
        for part in topic.partitions:
            if not part.error_code and part.committed_offset >= 0:
                index, at_ms = part.partition_index, part.commit_timestamp_ms
                commit = Commit(part.committed_offset, at_ms if at_ms >= 0 else None)
                if (origin := origins.get(index)) is not None:
                    commit = commit._replace(
                        previous=origin.previous_offset, repeated_since_ms=origin.repeated_since_ms
                    )
                found[topic.name, index] = commit
    return found


def first_records_request(since: Mapping[Key, int]) -> tuple[ListOffsetsTopic, ...]:
    """Return the topics of a ListOffsets for the first record of each partition at or after its time."""
    return tuple(
        ListOffsetsTopic(name, tuple(ListOffsetsPartition(part, since[name, part]) for part in parts))
        for name, parts in by_topic(since).items()
    )


def first_records_of(reply: ListOffsetsReply) -> dict[Key, WrittenRecord | None]:
    """Return the records in the reply; None for a partition without one. Partitions with an error are omitted."""
    return {
        (topic.name, part.partition_index): WrittenRecord(part.offset, part.timestamp)
        if part.offset >= 0 and part.timestamp >= 0
        else None
        for topic in reply.topics
        for part in topic.partitions
        if not part.error_code
    }


def by_topic(keys: Iterable[Key]) -> dict[str, list[int]]:
    """Return the partitions of each topic, in order."""
    return {topic: [part for _topic, part in ones] for topic, ones in groupby(sorted(keys), key=lambda one: one[0])}
