"""Who answers the messages about committed offsets (group-protocol 2.5 to 2.7)."""

import msgspec

from coordinator.core import Core
from coordinator.gates import gate, write_gate
from coordinator.groups.classic.events import CommitOffsets, DeleteOffsets, commit_refused
from coordinator.moment import Moment
from coordinator.offsets import OffsetAndMetadata
from coordinator.shard import Shard
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetCommitTopicReply,
    OffsetDelete,
    OffsetDeletePartitionReply,
    OffsetDeleteReply,
    OffsetDeleteTopic,
    OffsetDeleteTopicReply,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopicReply,
)
from protocol.session import RequestRef

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def offset_commit(core: Core, ref: RequestRef, message: OffsetCommit, moment: Moment) -> None:
    """Partitions that do not exist are refused alone; if none is left the group never hears of it (2.5)."""
    if message.topics and _all_known(core, message):
        _commit(core, ref, message, moment, whole=None)
        return
    known = _known_part(core, message)
    if known is None:
        core.outbox.send(ref, commit_refused(message, _UNKNOWN))
    else:
        _commit(core, ref, known, moment, whole=message)


def _all_known(core: Core, message: OffsetCommit) -> bool:
    for topic in message.topics:
        count = core.topics.partition_count(topic.name)
        if count is None or not all(0 <= part.partition_index < count for part in topic.partitions):
            return False
    return True


def _known_part(core: Core, message: OffsetCommit) -> OffsetCommit | None:
    topics = []
    for topic in message.topics:
        count = core.topics.partition_count(topic.name) or 0
        parts = tuple(part for part in topic.partitions if 0 <= part.partition_index < count)
        if parts:
            topics.append(OffsetCommitTopic(topic.name, parts))
    return msgspec.structs.replace(message, topics=tuple(topics)) if topics else None


def _commit(core: Core, ref: RequestRef, message: OffsetCommit, moment: Moment, whole: OffsetCommit | None) -> None:
    shard, group = core.find(message.group_id)
    refused = gate(core, message.group_id, may_be_empty=True) or write_gate(core)
    if not refused and group is None:
        if message.generation_id >= 0:
            refused = message.absent_group_error
        elif core.count_groups() >= core.config.max_groups:
            refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if refused:
        core.outbox.send(ref, _put_back(commit_refused(message, refused), whole))
        return
    ran = shard.run(group or shard.new_group(message.group_id), CommitOffsets(ref, message), moment)
    if whole is not None:
        answers = [
            answer._replace(reply=_put_back(answer.reply, whole))
            if answer.ref == ref and isinstance(answer.reply, OffsetCommitReply)
            else answer
            for answer in ran.answers
        ]
        ran = ran._replace(answers=answers)
    shard.deliver(ran)


def _put_back(reply: OffsetCommitReply, whole: OffsetCommit | None) -> OffsetCommitReply:
    """The reply in the order of the whole request, with the partitions that were taken out of it."""
    if whole is None:
        return reply
    errors = {(t.name, p.partition_index): p.error_code for t in reply.topics for p in t.partitions}
    return OffsetCommitReply(
        tuple(
            OffsetCommitTopicReply(
                topic.name,
                tuple(
                    OffsetCommitPartitionReply(
                        part.partition_index, errors.get((topic.name, part.partition_index), _UNKNOWN)
                    )
                    for part in topic.partitions
                ),
            )
            for topic in whole.topics
        )
    )


def offset_fetch(core: Core, ref: RequestRef, message: OffsetFetch, moment: Moment) -> None:
    """What is committed, of each group by itself; waits until what it tells is durable (2.6)."""
    replies, position = [], 0
    listed, most = 0, core.config.max_entries_per_request
    for wanted in message.groups:
        refused = gate(core, wanted.group_id, may_be_empty=True)
        if not refused and listed >= most:
            # Only one that asks for everything of many large groups comes here; it asks again for the rest.
            refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if refused:
            replies.append(OffsetFetchGroupReply(wanted.group_id, error_code=refused))
            continue
        shard = core.find(wanted.group_id)[0]
        reply = _fetch(shard, wanted)
        listed += sum([len(topic.partitions) for topic in reply.topics])
        replies.append(reply)
        position = max(position, shard.position_of(wanted.group_id))
    core.outbox.hold(position, ref, OffsetFetchReply(tuple(replies)))


def _fetch(shard: Shard, wanted: OffsetFetchGroup) -> OffsetFetchGroupReply:
    stored = shard.offsets.topics(wanted.group_id)
    if wanted.topics is None:
        topics = tuple(
            OffsetFetchTopicReply(name, tuple(_committed(index, kept) for index, kept in partitions.items()))
            for name, partitions in stored.items()
        )
    else:
        topics = tuple(
            OffsetFetchTopicReply(
                topic.name,
                tuple(_committed(index, stored.get(topic.name, {}).get(index)) for index in topic.partition_indexes),
            )
            for topic in wanted.topics
        )
    return OffsetFetchGroupReply(wanted.group_id, topics)


def _committed(index: int, kept: OffsetAndMetadata | None) -> OffsetFetchPartitionReply:
    if kept is None:
        return OffsetFetchPartitionReply(index)
    return OffsetFetchPartitionReply(
        index, kept.offset, kept.leader_epoch, kept.metadata, ErrorCode.NONE, kept.commit_timestamp_ms
    )


def offset_delete(core: Core, ref: RequestRef, message: OffsetDelete, moment: Moment) -> None:
    """A group's error stands for all; else partitions that do not exist are refused alone (2.7)."""
    refused = gate(core, message.group_id) or write_gate(core)
    shard, group = core.find(message.group_id)
    if refused or group is None:
        core.outbox.send(ref, OffsetDeleteReply(error_code=refused or ErrorCode.GROUP_ID_NOT_FOUND))
        return
    stored = frozenset(shard.offsets.partitions(message.group_id))
    existing = _existing_part(core, message, stored)
    ran = shard.run(group, DeleteOffsets(ref, existing, stored), moment)
    answers = [
        answer._replace(reply=_with_unknown(answer.reply, message))
        if isinstance(answer.reply, OffsetDeleteReply)
        else answer
        for answer in ran.answers
    ]
    shard.deliver(ran._replace(answers=answers))


def _existing_part(core: Core, message: OffsetDelete, stored: frozenset[tuple[str, int]]) -> OffsetDelete:
    topics = []
    for topic in message.topics:
        count = core.topics.partition_count(topic.name) or 0
        kept = tuple(i for i in topic.partition_indexes if 0 <= i < count or (topic.name, i) in stored)
        if kept:
            topics.append(OffsetDeleteTopic(topic.name, kept))
    return msgspec.structs.replace(message, topics=tuple(topics))


def _with_unknown(reply: OffsetDeleteReply, message: OffsetDelete) -> OffsetDeleteReply:
    if reply.error_code:
        return reply
    errors = {(t.name, p.partition_index): p.error_code for t in reply.topics for p in t.partitions}
    return OffsetDeleteReply(
        topics=tuple(
            OffsetDeleteTopicReply(
                topic.name,
                tuple(
                    OffsetDeletePartitionReply(index, errors.get((topic.name, index), _UNKNOWN))
                    for index in topic.partition_indexes
                ),
            )
            for topic in message.topics
        )
    )
