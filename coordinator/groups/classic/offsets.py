"""Commits, deletions and the expiry of offsets (docs/spec/group-protocol.md#2.5, #2.7, #2.10, #4.1, #4.4). The caller
checks that topics exist and knows the stored offsets: the group sees partitions that exist, and returns records."""

from collections.abc import Set as AbstractSet
from typing import Final

from coordinator.clock import Moment
from coordinator.groups.classic.events import Client, Deleted, DeleteOffsets, GroupDeleted, RetentionDue
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.notes import Cause, note, origin_of_client
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.notes import NoteFacts
from coordinator.groups.outcome import Outcome
from coordinator.groups.ownership import Owners
from coordinator.keys import MemberKey
from coordinator.records.records import CommittedOffset, GroupTombstone, OffsetTombstone, OwnershipTombstone
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopicReply,
    OffsetDeletePartitionReply,
    OffsetDeleteReply,
    OffsetDeleteTopicReply,
    TxnOffsetCommit,
    TxnOffsetCommitReply,
)
from protocol.messages.topics import NO_TOPIC_ID
from protocol.words import counted

_NO_RETENTION = -1
_TOPICS_A_NOTE = 10
_TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE


class _StoredReplies(dict[int, OffsetCommitPartitionReply]):
    """Replies to stored offsets by partition: prebuilt for low partition numbers, built on demand for others."""

    def __missing__(self, index: int) -> OffsetCommitPartitionReply:
        return OffsetCommitPartitionReply(index)


STORED: Final = _StoredReplies({index: OffsetCommitPartitionReply(index) for index in range(1_024)})


def commit(
    group: ClassicGroup, request: OffsetCommit, moment: Moment, records: list[CommittedOffset]
) -> OffsetCommitReply:
    """Store the committed offsets; a commit keeps the member alive. A partition with too long metadata is refused
    alone. The caller has set each topic's id to the one to record."""
    wall_ms = moment.wall_ms
    keep_alive(group, request.member_id, moment)
    retention_ms = request.retention_time_ms
    expire_ms = -1 if retention_ms == _NO_RETENTION else wall_ms + retention_ms
    limit, group_id, owners = group.settings.offset_metadata_max_bytes, group.group_id, group.owners
    topics = []
    for topic in request.topics:
        name, results = topic.name, []
        # The version of the record that has an expiration (Kafka's version 1) has no topic id.
        topic_id = None if topic.topic_id == NO_TOPIC_ID or expire_ms >= 0 else topic.topic_id
        for part in topic.partitions:
            index, metadata, at_ms = part.partition_index, part.committed_metadata, part.commit_timestamp_ms
            if owners is not None and _is_owned_by_another(owners, request, name, part):
                results.append(OffsetCommitPartitionReply(index, ErrorCode.NOT_OWNER))
                continue
            if not metadata:
                metadata = ""
            elif is_too_long(metadata, limit):
                results.append(OffsetCommitPartitionReply(index, _TOO_LARGE))
                continue
            records.append(
                CommittedOffset(
                    group_id,
                    name,
                    index,
                    part.committed_offset,
                    part.committed_leader_epoch,
                    metadata,
                    wall_ms if at_ms < 0 else at_ms,
                    expire_ms,
                    topic_id,
                )
            )
            results.append(STORED[index])
        topics.append(OffsetCommitTopicReply(name, tuple(results)))
    return OffsetCommitReply(tuple(topics))


def keep_alive(group: ClassicGroup, member_id: str, moment: Moment) -> Member | None:
    """Extend the session of a member that has committed, and return the member; None if there is none with that id."""
    member = group.members.get(member_id)
    if member is not None:
        deadline_ms = moment.monotonic_ms + member.session_timeout_ms
        if deadline_ms > member.deadline_ms:
            member.deadline_ms = deadline_ms
        member.committed_ms = moment.monotonic_ms
    return member


def commit_in_transaction(
    group: ClassicGroup, request: TxnOffsetCommit, moment: Moment, records: list[CommittedOffset]
) -> TxnOffsetCommitReply:
    """Store the offsets as part of the producer's transaction: pending until its marker. It keeps no member alive
    (docs/spec/group-protocol.md#4.3)."""
    limit, group_id, wall_ms = group.settings.offset_metadata_max_bytes, group.group_id, moment.wall_ms
    topics = []
    for topic in request.topics:
        results = []
        topic_id = None if topic.topic_id == NO_TOPIC_ID else topic.topic_id
        for part in topic.partitions:
            index, metadata = part.partition_index, part.committed_metadata or ""
            if is_too_long(metadata, limit):
                results.append(OffsetCommitPartitionReply(index, _TOO_LARGE))
                continue
            offset, epoch = part.committed_offset, part.committed_leader_epoch
            records.append(
                CommittedOffset(group_id, topic.name, index, offset, epoch, metadata, wall_ms, topic_id=topic_id)
            )
            results.append(STORED[index])
        topics.append(OffsetCommitTopicReply(topic.name, tuple(results)))
    return TxnOffsetCommitReply(tuple(topics))


def _is_owned_by_another(owners: Owners, request: OffsetCommit, topic: str, part: OffsetCommitPartition) -> bool:
    """Return true if the registry forbids the commit: the named grant is no longer valid, or another member owns the
    partition. A client that may commit without being a member is an operator."""
    key = topic, part.partition_index
    if part.owner_epoch >= 0:
        return not owners.is_held_by(key, request.member_id, part.owner_epoch)
    held = owners.get(key)
    return held is not None and request.generation_id >= 0 and not owners.is_held_by(key, request.member_id, held.epoch)


def is_too_long(metadata: str, limit: int) -> bool:
    """Return true if the length in UTF-16 code units, which Kafka counts, exceeds the limit."""
    units = len(metadata) if metadata.isascii() else len(metadata.encode("utf-16-le", "surrogatepass")) // 2
    return units > limit


def delete_offsets(group: ClassicGroup, event: DeleteOffsets, out: Outcome) -> None:
    """Delete offsets of an Empty group: any partition may be deleted."""
    _delete(group, event, out, kept=frozenset())


def delete_unsubscribed(group: ClassicGroup, event: DeleteOffsets, out: Outcome) -> None:
    """Delete offsets of a group with members: a consumer group keeps the topics it subscribes to; subscriptions of
    other protocol types are unknown."""
    if group.protocol_type != "consumer":
        out.reply_at_once(event.ref, event.refused(ErrorCode.NON_EMPTY_GROUP))
        return
    _delete(group, event, out, kept=event.subscribed)


def _by(client: Client | None) -> str:
    return "" if client is None else f", by {client}"


def _delete(group: ClassicGroup, event: DeleteOffsets, out: Outcome, kept: AbstractSet[str] | None) -> None:
    topics = []
    for topic in event.request.topics:
        refused = kept is None or topic.name in kept
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if refused else ErrorCode.NONE
        parts = tuple(OffsetDeletePartitionReply(index, error) for index in topic.partition_indexes)
        topics.append(OffsetDeleteTopicReply(topic.name, parts))
        if not refused:
            out.records.extend(
                OffsetTombstone(event.request.group_id, topic.name, index)
                for index in dict.fromkeys(topic.partition_indexes)
                if (topic.name, index) in event.known
            )
    if out.records:
        origin = None if event.client is None else origin_of_client(event.client)
        changes = tuple(one for one in event.previous if kept is not None and one.topic not in kept)
        detail = f"{counted(len(out.records), 'committed offset')}{_by(event.client)}"
        facts = NoteFacts(origin=origin, act="delete offsets", changes=changes)
        note(group, out, "admin", Cause.OFFSETS_DELETED, "", detail, **facts)
    out.reply(event.ref, OffsetDeleteReply(topics=tuple(topics)))


def delete_group(group: ClassicGroup, event: Deleted, out: Outcome) -> None:
    """Delete an Empty group with its offsets. It is Dead once the tombstone is applied."""
    origin = None if event.client is None else origin_of_client(event.client)
    number = event.already_deleted + len(event.offsets)
    some = f"the first {len(event.previous)}" if event.previous else "none"
    kept = f" ({some} can be restored)" if len(event.previous) < number else ""
    detail = f"with {counted(number, 'committed offset')}{kept}{_by(event.client)}"
    facts = NoteFacts(origin=origin, act="delete group", changes=event.previous)
    note(group, out, "admin", Cause.DELETED, "", detail, **facts)
    out.records.extend(OffsetTombstone(group.group_id, topic, partition) for topic, partition in event.offsets)
    _remove(group, out)
    out.reply(event.ref, GroupDeleted())


def _remove(group: ClassicGroup, out: Outcome) -> None:
    for member_id in group.pending:
        out.cancel(MemberKey(group.group_id, member_id))
    if group.owners is not None:
        out.records.extend(OwnershipTombstone(group.group_id, *key) for key in group.owners.keys)
    out.records.append(GroupTombstone(group.group_id))
    out.is_splittable = True


def expire(group: ClassicGroup, event: RetentionDue, out: Outcome) -> None:
    """Delete expired offsets of an Empty group, and the group with the last of them or if it never committed."""
    expire_unsubscribed(group, event, out)
    if event.leaves_nothing:
        _remove(group, out)


def expire_unsubscribed(group: ClassicGroup, event: RetentionDue, out: Outcome) -> None:
    """Delete expired offsets of a group with members; the group stays."""
    out.records.extend(OffsetTombstone(group.group_id, topic, partition) for topic, partition in event.partitions)
    note_expired(group, event, out)


def note_expired(group: ClassicGroup, event: RetentionDue, out: Outcome) -> None:
    """Append one note a group and run, however many parts the run took. While members rebalance, nothing more is
    deleted."""
    is_gone = event.leaves_nothing and group.state is GroupState.EMPTY
    if not event.is_over or not (event.expired or is_gone):
        return
    some = [f"{counted(count, 'offset')} of {topic}" for topic, count in event.expired[:_TOPICS_A_NOTE]]
    more = len(event.expired) - len(some)
    detail = ", ".join(some) + (f", and of {counted(more, 'more topic')}" if more else "")
    if is_gone:
        note(group, out, "expired", Cause.GROUP_EXPIRED, "", f"with {detail}" if detail else "it had no offsets")
    else:
        note(group, out, "expired", Cause.OFFSETS_EXPIRED, "", detail)
