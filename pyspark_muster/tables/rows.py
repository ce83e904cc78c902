"""Rows of the tables, requested from the coordinators of groups."""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from diagnosis.assignments import assigned_partitions, subscribed_topics
from membership.events import NodeAddress
from muster import ErrorCode, Refused, TopicPartition
from muster.admin.asking import (
    NotFound,
    describe_expiry,
    describe_group,
    end_samples,
    fetch_commits,
    list_notes,
    list_topics,
)
from muster.admin.ends import KnownEnd, ends_of
from muster.blocking.cluster import EARLIEST, LATEST, ClusterClient
from protocol.messages.groups import ALL_NOTES, DescribedGroup, DescribedMember, ListedGroup, ListedNote
from protocol.messages.offsets import ExpiringOffset, OffsetFetchPartitionReply
from pyspark_muster.errors import NoSuchGroup
from pyspark_muster.tables.columns import row

Row = tuple[Any, ...]
_Ends = dict[TopicPartition, KnownEnd]
_TRIES: Final = 5
UNLISTED: Final = "Dead"
"""State of a group that was named and does not exist; it may have notes."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def commit_rows(
    cluster: ClusterClient, groups: Iterable[ListedGroup], read_at_ms: int, *, is_native: bool
) -> Iterator[Row]:
    """Yield the committed offsets of groups. Only musterd reports expiry. Raises the client's errors."""
    commits: dict[str, dict[TopicPartition, OffsetFetchPartitionReply]] = {}
    expiries: dict[tuple[str, TopicPartition], ExpiringOffset] = {}
    for group in groups:
        try:
            found = fetch_commits(cluster, group.group_id)
            told = describe_expiry(cluster, group.group_id)[1] if found and is_native else ()
        except NotFound:  # deleted since the list
            continue
        commits[group.group_id] = found
        expiries |= {(group.group_id, TopicPartition(one.topic, one.partition_index)): one for one in told}
    there, begins, ends = _logs(cluster, {one for found in commits.values() for one in found})
    for group_id, found in commits.items():
        for one, commit in sorted(found.items()):
            begin, end, expiry = begins.get(one), ends.get(one), expiries.get((group_id, one))
            values = {
                "group": group_id,
                "topic": one.topic,
                "partition": one.partition,
                "offset": commit.committed_offset,
                "leader_epoch": _known(commit.committed_leader_epoch),
                "metadata": commit.metadata or None,
                "committed_at": _time(commit.commit_timestamp_ms),
                "expires_at": None if expiry is None else _time(expiry.expires_ms),
                "kept_because": None if expiry is None else expiry.kept_because or None,
                "exists": one in there,
                "log_start": None if begin is None else begin.offset,
                "log_end": None if end is None else end.offset,
                "lag": None if end is None else max(0, end.offset - commit.committed_offset),
                "read_at": _time(read_at_ms),
            }
            yield row("commits", values)


def _logs(cluster: ClusterClient, wanted: set[TopicPartition]) -> tuple[set[TopicPartition], _Ends, _Ends]:
    """Return the existing ones of these partitions, with their starts and ends; requested again if a topic is deleted
    meanwhile.
    """
    for tries_left in reversed(range(_TRIES)):
        known = list_topics(cluster) if wanted else []
        there = {TopicPartition(topic.name or "", part.partition_index) for topic in known for part in topic.partitions}
        there &= wanted
        try:
            return there, ends_of(cluster, there, EARLIEST), ends_of(cluster, there, LATEST)
        except Refused as refused:
            if refused.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


def end_rows(cluster: ClusterClient, node: NodeAddress | None, groups: Collection[str], since_ms: int) -> Iterator[Row]:
    """Yield the samples that a node has written since a wall time, of these groups, or of all if none is given. Raises
    the client's errors.
    """
    for sample in end_samples(cluster, node, since_ms):
        if groups and sample.group_id not in groups:
            continue
        for partition, offset in sample.offsets.items():
            end = sample.ends[partition]
            values = {
                "time": _time(sample.wall_ms),
                "group": sample.group_id,
                "topic": sample.topic,
                "partition": partition,
                "offset": offset,
                "log_end": end,
                "lag": max(0, end - offset),
            }
            yield row("ends", values)


def group_rows(cluster: ClusterClient, groups: Iterable[ListedGroup], read_at_ms: int) -> Iterator[Row]:
    """Yield groups with their members. Raises the client's errors."""
    for listed in groups:
        try:
            group = describe_group(cluster, listed.group_id)
        except NotFound:
            continue
        values = {
            "group": group.group_id,
            "state": group.group_state,
            "state_since": _time(group.state_since_ms),
            "type": listed.group_type,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol_data or None,
            "generation": _known(group.generation_id),
            "leader": group.leader or None,
            "phase": group.phase or None,
            "phase_ms": _known(group.phase_ms) if group.phase else None,
            "waiting_for": list(group.waiting_for),
            "members": [_member(group, one) for one in group.members],
            "read_at": _time(read_at_ms),
        }
        yield row("groups", values)


def _member(group: DescribedGroup, member: DescribedMember) -> dict[str, Any]:
    software = f"{member.client_software_name} {member.client_software_version}".strip()
    return {
        "member": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.client_host.removeprefix("/"),
        "principal": member.principal or None,
        "software": software or None,
        "session_timeout_ms": _known(member.session_timeout_ms),
        "group_protocol": member.group_protocol or None,
        "epoch": _known(member.member_epoch),
        "topics": list(member.topics or subscribed_topics(group, member)),
        "partitions": [{"topic": topic, "partition": part} for topic, part in assigned_partitions(group, member)],
    }


def note_rows(cluster: ClusterClient, groups: Iterable[ListedGroup], since_ms: int) -> Iterator[Row]:
    """Yield the notes of groups since a wall time, oldest first in each. Raises `NoSuchGroup`, the client's errors."""
    for group in groups:
        try:
            notes = list_notes(cluster, group.group_id, ALL_NOTES)
        except NotFound:
            if group.group_state == UNLISTED:
                raise NoSuchGroup(f"there is no group {group.group_id!r}, and it has no notes") from None
            continue
        for note in notes:
            if note.wall_ms >= since_ms:
                yield _note_row(group.group_id, note)


def _note_row(group_id: str, note: ListedNote) -> Row:
    origin, slowest, previous = note.origin, note.slowest, note.previous
    values = {
        "group": group_id,
        "number": note.number,
        "time": _time(note.wall_ms),
        "since": _time(note.since_ms),
        "times": note.times,
        "kind": note.kind,
        "cause": note.cause,
        "generation": _known(note.generation_id),
        "state": note.group_state or None,
        "members": note.members,
        "duration_ms": _known(note.took_ms),
        "member": note.initiator or None,
        "client": origin.client_id if origin else None,
        "host": origin.client_host.removeprefix("/") if origin else None,
        "principal": (origin.principal or None) if origin else None,
        "certificate": (origin.certificate or None) if origin else None,
        "awaited_member": slowest.member_id if slowest else None,
        "awaited_client": slowest.client_id if slowest else None,
        "awaited_host": slowest.client_host.removeprefix("/") if slowest else None,
        "awaited_ms": slowest.waited_ms if slowest else None,
        "joined": list(note.joined),
        "previous_member": previous.member_id if previous else None,
        "previous_client": previous.client_id if previous else None,
        "previous_host": previous.client_host.removeprefix("/") if previous else None,
        "idle_ms": _known(note.idle_ms),
        "rebalance_timeout_ms": _known(note.rebalance_timeout_ms),
        "act": note.act or None,
        "changes": [
            {
                "topic": one.topic,
                "partition": one.partition_index,
                "previous_offset": _known(one.previous_offset),
                "offset": _known(one.offset),
            }
            for one in note.changes
        ],
        "moved_partitions": _known(note.moved_partitions),
        "kept_partitions": _known(note.kept_partitions),
        "detail": note.detail or None,
    }
    return row("notes", values)


def topic_rows(cluster: ClusterClient, names: Collection[str], read_at_ms: int) -> Iterator[Row]:
    """Yield the existing ones of these topics, with the sizes of their logs. Raises the client's errors."""
    topics = [topic for topic in list_topics(cluster) if topic.name in names]
    wanted = {TopicPartition(topic.name or "", part.partition_index) for topic in topics for part in topic.partitions}
    _there, begins, ends = _logs(cluster, wanted)
    records: dict[str, int] = {}
    for one in begins.keys() & ends.keys():
        records[one.topic] = records.get(one.topic, 0) + max(0, ends[one].offset - begins[one].offset)
    for topic in topics:
        name = topic.name or ""
        values = {
            "topic": name,
            "internal": topic.is_internal,
            "partitions": len(topic.partitions),
            "records": records.get(name),
            "read_at": _time(read_at_ms),
        }
        yield row("topics", values)


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _time(wall_ms: int) -> datetime | None:
    """Convert a wall time; None for no time, and for times out of range, since a client may request any retention."""
    if wall_ms < 0:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=wall_ms)
    except OverflowError:
        return None
