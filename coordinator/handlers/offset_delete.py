"""Answer OffsetDelete (docs/spec/group-protocol.md#2.7)."""

import msgspec

from coordinator.clock import Moment
from coordinator.core.admission import admit, admit_write
from coordinator.core.core import Core
from coordinator.facts.commit_notes import MOST_CHANGES
from coordinator.groups.classic.events import DeleteOffsets
from coordinator.handlers.offset_fetch import UNKNOWN
from coordinator.runtime.group import GroupKind
from coordinator.runtime.offset_table import TopicPartitionKey
from coordinator.runtime.shard import Shard
from coordinator.runtime.slices import Served, Work, served_for
from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.errors import ErrorCode
from protocol.messages.groups import OffsetChange
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
    if known is not None and known.classic.protocol_type == PROTOCOL_TYPE and not admit(core, message.group_id):
        for cost in core.subscriptions.of(known.classic).reading():
            moment = yield cost
    refused = admit(core, message.group_id) or admit_write(core)
    shard, group = core.find(message.group_id)
    if refused or group is None:
        return Served(OffsetDeleteReply(error_code=refused or ErrorCode.GROUP_ID_NOT_FOUND))
    if group.kind is GroupKind.CLIENT_BALANCED:
        return Served(OffsetDeleteReply(error_code=ErrorCode.NON_EMPTY_GROUP))
    stored = _stored_part(shard, message)
    existing = _existing_part(core, message, stored)
    kept = frozenset() if group.consumer is None else group.consumer.subscribed
    refused_places = {
        (topic.name, index) for topic in existing.topics if topic.name in kept for index in topic.partition_indexes
    }
    unsubscribed = tuple([topic for topic in existing.topics if topic.name not in kept])
    existing = msgspec.structs.replace(existing, topics=unsubscribed)
    subscribed = core.subscriptions.of(group.classic).topics() if group.classic.members else frozenset()
    previous, client = _previous(shard, message.group_id, stored), core.sender(ref)
    answers = shard.run(group, DeleteOffsets(ref, existing, stored, subscribed, client, previous), moment)
    (own,) = [answer for answer in answers if isinstance(answer.reply, OffsetDeleteReply)]
    shard.outbox.deliver(message.group_id, [answer for answer in answers if answer is not own])
    assert isinstance(own.reply, OffsetDeleteReply)
    reply = _with_unknown(own.reply, message, refused_places)
    return Served(reply) if own.at_once else served_for(shard.outbox, message.group_id, reply)


def _stored_part(shard: Shard, message: OffsetDelete) -> frozenset[TopicPartitionKey]:
    """Return the request's partitions for which the group has an offset, committed or pending."""
    committed, pending = shard.offsets.topics(message.group_id), shard.offsets.pending.of(message.group_id)
    return frozenset(
        (topic.name, index)
        for topic in message.topics
        for index in topic.partition_indexes
        if index in committed.get(topic.name, ()) or (topic.name, index) in pending
    )


def _previous(shard: Shard, group_id: str, stored: frozenset[TopicPartitionKey]) -> tuple[OffsetChange, ...]:
    """Return the offsets that are to be deleted, for the note: as many as one may name."""
    found = []
    for topic, partition in sorted(stored)[:MOST_CHANGES]:
        kept = shard.offsets.get(group_id, topic, partition)
        if kept is not None:
            found.append(OffsetChange(topic, partition, kept.offset))
    return tuple(found)


def _existing_part(core: Core, message: OffsetDelete, stored: frozenset[TopicPartitionKey]) -> OffsetDelete:
    topics = []
    for topic in message.topics:
        count = core.topics.partition_count(topic.name) or 0
        kept = tuple(i for i in topic.partition_indexes if 0 <= i < count or (topic.name, i) in stored)
        if kept:
            topics.append(OffsetDeleteTopic(topic.name, kept))
    return msgspec.structs.replace(message, topics=tuple(topics))


def _with_unknown(
    reply: OffsetDeleteReply, message: OffsetDelete, subscribed: set[TopicPartitionKey]
) -> OffsetDeleteReply:
    if reply.error_code:
        return reply
    errors = {(t.name, p.partition_index): p.error_code for t in reply.topics for p in t.partitions}
    errors |= dict.fromkeys(subscribed, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
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
