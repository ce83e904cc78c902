"""Rules about partitions: not read, not owned, out of range, about to expire. A partition without new records is no
problem."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from diagnosis import people
from diagnosis.assignments import Key, assigned_partitions, owners_of, subscribed_topics
from diagnosis.commands import command
from diagnosis.growth import NEW_MS
from diagnosis.offset_plan import NONE
from diagnosis.problem import OVERDUE_MS, Evidence, GroupProblem, Kind, Progress, blame, blame_client
from protocol import streams_protocol
from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.messages.balanced import BALANCED_TYPES, CLIENT_BALANCED
from protocol.messages.groups import DescribedMember, ListedNote, OffsetChange
from protocol.words import counted

UNOWNED_MS: Final = 60_000
"""Time after which an unowned partition is a problem: a rebalance in two rounds (KIP-429) is shorter."""
IDLE_MS: Final = 600_000
"""Time after which members without partitions are a problem: a deployment that starts new members first is shorter."""
REWOUND_MS: Final = 900_000
"""Time for which offsets that went back are reported."""
_REWINDING: Final = ("reset", "rewind")
EXPIRES_MS: Final = 86_400_000
_NAMED: Final = 3


def stalled(evidence: Evidence) -> Iterator[GroupProblem]:
    """Owned partitions with unread records for which the same offset is committed repeatedly. One problem for each
    member."""
    if not _is_stable_for(evidence, OVERDUE_MS):
        return
    lines = {(one.topic, one.partition): one for one in evidence.progress if _has_stalled(one, evidence.now_ms)}
    for member in evidence.group.members:
        own = [lines[key] for key in assigned_partitions(evidence.group, member) if key in lines]
        if own:
            names = _names([(one.topic, one.partition) for one in own])
            problem = GroupProblem(
                Kind.CONSUMPTION_STALLED,
                evidence.group.group_id,
                f"{people.client_of(member)} commits for {names} and does not get on: the same offset as before, "
                + _unread(own),
                since_ms=_since([one for one in own if one.repeated_since_ms >= 0], evidence),
                partitions=len(own),
                records=sum(one.lag for one in own),
                command=command("groups describe", evidence.group.group_id, "--verbose"),
            )
            yield blame(problem, member)


def _since(own: list[Progress], evidence: Evidence) -> int:
    """Return the time from which on the first of these partitions was not read on, -1 if unknown."""
    times = (one.waits_since_ms(evidence.group.state_since_ms) for one in own)
    return min((at_ms for at_ms in times if at_ms >= 0), default=-1)


def _unread(own: list[Progress]) -> str:
    records = counted(sum(one.lag for one in own), "record")
    return f"unread: {records}, the first for more than {people.duration(OVERDUE_MS)}"


def _has_stalled(one: Progress, now_ms: int) -> bool:
    is_fresh = one.committed_ms is not None and now_ms - one.committed_ms < OVERDUE_MS
    return is_fresh and one.is_overdue and one.lag > 0 and one.previous == one.committed


def stopped(evidence: Evidence) -> Iterator[GroupProblem]:
    """Owned partitions with unread records and without a commit for long. One problem for each member."""
    if not _is_stable_for(evidence, OVERDUE_MS):
        return
    lines = {(one.topic, one.partition): one for one in evidence.progress if _has_stopped(one, evidence.now_ms)}
    for member in evidence.group.members:
        own = [lines[key] for key in assigned_partitions(evidence.group, member) if key in lines]
        if own:
            yield _stopped(evidence, member, own)


def _has_stopped(one: Progress, now_ms: int) -> bool:
    if not one.is_overdue or one.lag == 0:
        return False
    if one.committed_ms is not None:
        return now_ms - one.committed_ms >= OVERDUE_MS
    return one.committed is None or one.is_moving is False


def _stopped(evidence: Evidence, member: DescribedMember, own: list[Progress]) -> GroupProblem:
    group = evidence.group
    last_ms = max((one.committed_ms for one in own if one.committed_ms is not None), default=-1)
    since = f"nothing committed for {people.duration(evidence.now_ms - last_ms)}" if last_ms >= 0 else "no commit"
    problem = GroupProblem(
        Kind.CONSUMPTION_STOPPED,
        group.group_id,
        f"{people.client_of(member)} does not read {_names([(one.topic, one.partition) for one in own])}: {since}, "
        + _unread(own),
        since_ms=_since(own, evidence),
        partitions=len(own),
        records=sum(one.lag for one in own),
        command=command("groups describe", group.group_id, "--verbose"),
    )
    return blame(problem, member)


def rewound(evidence: Evidence) -> Iterator[GroupProblem]:
    """Offsets that went back a short time ago, by a reset or by a member, and were not put back by an undo: records are
    read again."""
    committed = {(one.topic, one.partition): one.committed for one in evidence.progress}
    for note in evidence.notes:
        back = [one for one in note.changes if 0 <= one.offset < one.previous_offset]
        is_recent = evidence.now_ms - note.wall_ms <= REWOUND_MS
        if note.act in _REWINDING and back and is_recent and not _is_undone(note, back, evidence.notes):
            group_id = evidence.group.group_id
            problem = GroupProblem(
                Kind.CONSUMPTION_REWOUND,
                group_id,
                f"offsets went back ({note.act}): {note.detail}",
                since_ms=note.wall_ms,
                partitions=len(back),
                records=sum(one.previous_offset - one.offset for one in back),
                command=command("undo", f"{group_id}:{note.number}")
                if note.act == "reset" and not _is_read_past(back, committed)
                else command("explain", group_id),
            )
            yield blame_client(problem, note.origin)


def _is_undone(note: ListedNote, back: list[OffsetChange], notes: Iterable[ListedNote]) -> bool:
    """Return true if later undos have put the offsets back."""
    later = [one for undo in notes if undo.act == "undo" and undo.number > note.number for one in undo.changes]
    put_back = {(one.topic, one.partition_index): one.offset for one in later}
    return all(put_back.get((one.topic, one.partition_index), NONE) >= one.previous_offset for one in back)


def _is_read_past(back: list[OffsetChange], committed: Mapping[Key, int | None]) -> bool:
    """Return true if the group has again committed as far as before; an undo would then skip records."""
    now = (committed.get((one.topic, one.partition_index)) for one in back)
    return all(at is not None and at >= one.previous_offset for one, at in zip(back, now, strict=True))


def out_of_range(evidence: Evidence) -> Iterator[GroupProblem]:
    """Committed offsets whose records are deleted: the reader continues where `auto.offset.reset` says."""
    lost = [
        one for one in evidence.progress if one.committed is not None and one.begin is not None
        if one.committed < one.begin
    ]  # fmt: skip
    if lost:
        records = sum((one.begin or 0) - (one.committed or 0) for one in lost)
        group_id = evidence.group.group_id
        problem = GroupProblem(
            Kind.OFFSETS_OUT_OF_RANGE,
            group_id,
            f"{_names([(one.topic, one.partition) for one in lost])}: the committed offset lies below the log's start, "
            f"deleted unread: {counted(records, 'record')}",
            partitions=len(lost),
            records=records,
            command=command("groups reset", group_id, "--to-earliest", *_options(lost)),
        )
        yield blame(problem, _owner_of_all(evidence, lost))


def _owner_of_all(evidence: Evidence, lines: list[Progress]) -> DescribedMember | None:
    """Return the member that owns all these partitions, None if there is none."""
    owners = owners_of(evidence.group)
    first = owners.get((lines[0].topic, lines[0].partition))
    is_alone = all(owners.get((one.topic, one.partition)) is first for one in lines)
    return first if is_alone else None


def unowned(evidence: Evidence) -> Iterator[GroupProblem]:
    """Partitions of subscribed topics that no member of a Stable group owns. Members of a client-balanced group may
    choose to leave some out: then only those count that the group has read. New partitions have time to be noticed."""
    if not _is_stable_for(evidence, UNOWNED_MS) or not evidence.group.members:
        return
    missing = sorted(key for key in _wanted(evidence) - _owned(evidence) if not _is_new(evidence, key))
    if evidence.group.protocol_type == CLIENT_BALANCED:
        read = {(one.topic, one.partition) for one in evidence.progress if one.committed is not None}
        missing = [key for key in missing if key in read]
    if missing:
        lags = {(one.topic, one.partition): one.lag for one in evidence.progress}
        yield GroupProblem(
            Kind.UNOWNED_PARTITIONS,
            evidence.group.group_id,
            f"no member has {_names(missing)}, though members subscribe to it",
            since_ms=min(max(_settled_since_ms(evidence), _added_ms(evidence, key)) for key in missing),
            partitions=len(missing),
            records=sum(lags.get(key, 0) for key in missing),
            command=command("groups describe", evidence.group.group_id, "--verbose"),
        )


def _is_new(evidence: Evidence, key: Key) -> bool:
    added_ms = _added_ms(evidence, key)
    return added_ms >= 0 and evidence.now_ms - added_ms < NEW_MS


def _added_ms(evidence: Evidence, key: Key) -> int:
    """Return the time at which the partition was first seen if its topic has grown since looks are remembered, else
    -1."""
    topic, partition = key
    growth = evidence.grown.get(topic)
    return -1 if growth is None or partition < growth.before else growth.at_ms


def idle(evidence: Evidence) -> Iterator[GroupProblem]:
    """Members without partitions, since there are more members than partitions."""
    group, wanted = evidence.group, _wanted(evidence)
    if not wanted or len(group.members) <= len(wanted) or not _is_stable_for(evidence, IDLE_MS):
        return
    without = [member for member in group.members if not assigned_partitions(group, member)]
    if without:
        problem = GroupProblem(
            Kind.IDLE_MEMBERS,
            group.group_id,
            f"{counted(len(group.members), 'member')} share {counted(len(wanted), 'partition')}: "
            f"{len(without)} {people.have(len(without))} none, {people.client_of(without[0])} among them",
            since_ms=_settled_since_ms(evidence),
            command=command("groups describe", group.group_id),
        )
        yield blame(problem, without[0])


def expires(evidence: Evidence) -> Iterator[GroupProblem]:
    """Committed offsets that expire within a day."""
    left_ms = evidence.expires_ms - evidence.now_ms
    if evidence.expires_ms >= 0 and left_ms <= EXPIRES_MS:
        group_id = evidence.group.group_id
        when = f"in {people.duration(left_ms)}" if left_ms > 0 else "at the next run"
        committed = [one for one in evidence.progress if one.committed is not None]
        yield GroupProblem(
            Kind.OFFSETS_EXPIRE,
            group_id,
            f"committed offsets expire {when}: the group then reads from where `auto.offset.reset` says",
            since_ms=evidence.group.state_since_ms,
            partitions=len(committed),
            records=sum(one.lag for one in committed),
            command=command("offsets expiring", group_id),
        )


def _is_stable_for(evidence: Evidence, ms: int) -> bool:
    """Return true if the group has been Stable for this time; the time counts only if the server reports it."""
    group = evidence.group
    if group.group_state != "Stable" or group.phase:
        return False
    since_ms = _settled_since_ms(evidence)
    return since_ms < 0 or evidence.now_ms - since_ms >= ms


def _settled_since_ms(evidence: Evidence) -> int:
    """Return the time since which the group is Stable with these members, -1 if unknown. A group whose members register
    partitions is Stable as long as it has any; in others, where a static member takes another's place, partitions
    stay as they are."""
    if evidence.group.protocol_type not in BALANCED_TYPES:
        return evidence.group.state_since_ms
    changes = [note.wall_ms for note in evidence.notes if note.kind == "member"]
    return max(evidence.group.state_since_ms, *changes, -1)


def _wanted(evidence: Evidence) -> set[Key]:
    """Return the partitions of subscribed topics; none for a group of an unknown type."""
    group = evidence.group
    if group.protocol_type not in (PROTOCOL_TYPE, streams_protocol.PROTOCOL_TYPE, *BALANCED_TYPES):
        return set()
    topics = {topic for member in group.members for topic in member.topics or subscribed_topics(group, member)}
    return {(topic, part) for topic in topics for part in range(evidence.counts.get(topic, 0))}


def _owned(evidence: Evidence) -> set[Key]:
    return set(owners_of(evidence.group))


def _options(lines: list[Progress]) -> list[str]:
    """Name the partitions as `muster groups reset` takes them."""
    by_topic: dict[str, list[str]] = {}
    for one in lines:
        by_topic.setdefault(one.topic, []).append(str(one.partition))
    return [word for topic, parts in by_topic.items() for word in ("--topic", f"{topic}:{','.join(parts)}")]


def _names(keys: list[Key]) -> str:
    named = ", ".join(f"{topic}-{partition}" for topic, partition in keys[:_NAMED])
    return named if len(keys) <= _NAMED else f"{named} and {len(keys) - _NAMED} more"
