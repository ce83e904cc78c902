"""Answer OffsetDelete (docs/spec/group-protocol.md#2.7)."""

import msgspec

from coordinator.clock import Moment
from coordinator.groups.classic.events import DeleteOffsets
from coordinator.handlers.admission import admit, admit_write
from coordinator.handlers.core import Core
from coordinator.handlers.offset_fetch import UNKNOWN
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    OffsetDelete,
    OffsetDeletePartitionReply,
    OffsetDeleteReply,
    OffsetDeleteTopic,
    OffsetDeleteTopicReply,
)
from protocol.session import RequestRef


def offset_delete(core: Core, ref: RequestRef, message: OffsetDelete, moment: Moment) -> None:
    """A group's error stands for all; else partitions that do not exist are refused alone
    (docs/spec/group-protocol.md#2.7)."""
    refused = admit(core, message.group_id) or admit_write(core)
    shard, group = core.find(message.group_id)
    if refused or group is None:
        core.outbox.send(ref, OffsetDeleteReply(error_code=refused or ErrorCode.GROUP_ID_NOT_FOUND))
        return
    if shard.is_balanced(message.group_id):
        core.outbox.send(ref, OffsetDeleteReply(error_code=ErrorCode.NON_EMPTY_GROUP))
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
                    OffsetDeletePartitionReply(index, errors.get((topic.name, index), UNKNOWN))
                    for index in topic.partition_indexes
                ),
            )
            for topic in message.topics
        )
    )
