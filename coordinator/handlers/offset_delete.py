"""Answer OffsetDelete (docs/spec/group-protocol.md#2.7)."""

import msgspec

from coordinator.clock import Moment
from coordinator.groups.classic.events import DeleteOffsets
from coordinator.handlers.admission import admit, admit_write
from coordinator.handlers.core import Core
from coordinator.handlers.offset_fetch import UNKNOWN
from coordinator.runtime.offset_table import Place
from coordinator.runtime.shard import Shard
from coordinator.runtime.slices import Served, Work
from protocol.consumer_protocol import PROTOCOL_TYPE
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
    """Delete offsets. A group's error holds for all; else partitions that do not exist are refused alone
    (docs/spec/group-protocol.md#2.7)."""
    core.slices.begin(core.outbox, ref, _deleting(core, ref, message), moment, changes=True)


def _deleting(core: Core, ref: RequestRef, message: OffsetDelete) -> Work:
    moment = yield 0
    known = core.find(message.group_id)[1]
    if known is not None and known.protocol_type == PROTOCOL_TYPE and not admit(core, message.group_id):
        for cost in core.subscriptions.of(known).reading():
            moment = yield cost
    refused = admit(core, message.group_id) or admit_write(core)
    shard, group = core.find(message.group_id)
    if refused or group is None:
        return Served(OffsetDeleteReply(error_code=refused or ErrorCode.GROUP_ID_NOT_FOUND), 0)
    if shard.is_balanced(message.group_id):
        return Served(OffsetDeleteReply(error_code=ErrorCode.NON_EMPTY_GROUP), 0)
    stored = _stored_part(shard, message)
    existing = _existing_part(core, message, stored)
    subscribed = core.subscriptions.of(group).topics() if group.members else frozenset()
    ran = shard.run(group, DeleteOffsets(ref, existing, stored, subscribed), moment)
    (own,) = [answer for answer in ran.answers if isinstance(answer.reply, OffsetDeleteReply)]
    shard.deliver(ran._replace(answers=[answer for answer in ran.answers if answer is not own]))
    assert isinstance(own.reply, OffsetDeleteReply)
    return Served(_with_unknown(own.reply, message), 0 if own.at_once else ran.position)


def _stored_part(shard: Shard, message: OffsetDelete) -> frozenset[Place]:
    """Return the request's partitions for which the group has an offset, committed or pending."""
    committed, pending = shard.offsets.topics(message.group_id), shard.offsets.pending.of(message.group_id)
    return frozenset(
        (topic.name, index)
        for topic in message.topics
        for index in topic.partition_indexes
        if index in committed.get(topic.name, ()) or (topic.name, index) in pending
    )


def _existing_part(core: Core, message: OffsetDelete, stored: frozenset[Place]) -> OffsetDelete:
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
